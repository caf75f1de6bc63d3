"""The sections of a report on what it cannot show, and its privacy label."""

from dpsample.accounting.totals import Total
from dpsample.estimators.estimate import Estimate, in_all_keys
from dpsample.estimators.notes import claim_of
from dpsample.presentation.label import label_of
from dpsample.presentation.pages import Markup, join, table, tag
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import again, claims, interval, numbers_of, whole
from dpsample.release.explain import (
    explain_possible,
    explain_reporting,
    explain_total,
    sentence,
)
from dpsample.release.facts import Topic
from dpsample.release.terms import Terms


def limits_section(content: Content) -> Markup:
    """Return what the release cannot show."""
    terms, threshold = content.terms, content.detection_threshold
    missing = "A key that is not listed may be in the data: it may have been rare, or not sampled."
    if threshold:
        missing = (
            f"A key that is not listed may be in the data. Below the detection threshold, frequency {threshold:,}, "
            "most keys are not reported, and their number is unknown."
        )
    lines = [sentence(explain_reporting(terms)), *_user_limits(content), missing, _sums(content)]
    parts = [tag("ul", *(tag("li", line) for line in lines))]
    if terms.bought.total is not None:
        parts += _total(content, terms.bought.total)
    return join(parts)


def _total(content: Content, total: Total) -> list[Markup]:
    """The total of the data, and how much of it is in which keys."""
    terms = content.terms
    unit = _unit_of(total, terms)
    calls = ["print(release.total.estimate())"]
    parts: list[Markup] = []
    notes: list[str] = []
    if content.sum is not None:
        parts += _sum_lines(content.sum)
        calls.append("print(release.sum())")
        notes += [f"in all keys: {claim_of(note)}" for note in content.sum.notes]
    if content.other is not None:
        name = "in keys that were not reported"
        parts.append(_line(name, _about(content.other)))
        calls.append("print(release.other())")
        notes += [f"{name}: {claim_of(note)}" for note in content.other.notes]
    stated = f"The data have about {explain_total(total)} ({unit})."
    if not parts:
        return [tag("p", stated)]
    return [
        tag("p", f"{stated} Of these, about:"),
        tag("ul", *parts),
        *claims(notes),
        again(content, calls, ["query", FILE]),
    ]


def _unit_of(total: Total, terms: Terms) -> str:
    """What the total counts."""
    if terms.unit == "element":
        return "elements"
    unit = "keys of users, each user once in a key"
    if terms.discovery is not None:
        return f"{unit}, with up to {float(total.sensitivity):,.0f} keys"
    return f"{unit}, as far as users kept them"


def _sum_lines(asked: Estimate) -> list[Markup]:
    """What is in the reported keys, and then what is in all keys, in the words of `Release.sum`."""
    reported = asked.reported
    if reported is None:
        return [_line(in_all_keys(asked.at_least), _about(asked))]
    seen = f"{whole(reported.value)} ({100 * asked.level:g} %: {interval(reported.low, reported.high)})"
    lines = [_line("in reported keys", seen)]
    if reported.others:
        return [*lines, tag("li", f"in all keys: {reported.others}")]
    return [*lines, _line(in_all_keys(asked.at_least), _about(asked))]


def _line(name: str, number: str) -> Markup:
    return tag("li", f"{name}: ", tag("strong", number))


def _about(estimate: Estimate) -> str:
    """An estimate with its interval, and whether that is guaranteed."""
    value, ends, guaranteed = numbers_of(estimate)
    return f"{value} ({100 * estimate.level:g} %: {ends}{', ' * bool(guaranteed)}{guaranteed})"


def _user_limits(content: Content) -> list[str]:
    """What numbers of users are about, and what they are not."""
    terms = content.terms
    if terms.unit == "element":
        return []
    limits = [explain_possible(terms.privacy)]
    if terms.discovery is not None:
        limits.append(
            "a key of many users may have been given by few of them, and then it is not reported"
        )
    facts = terms.facts(len(content.release))
    limits += facts.words(Topic.KEPT, Topic.CHOSEN, Topic.COUNTED, Topic.SUMMED)
    return [sentence(limit) for limit in limits]


def _sums(content: Content) -> str:
    """What sums over keys include."""
    marked = "An interval without its nominal coverage is marked as not guaranteed."
    if content.counted:
        return f"Sums, ranks, quantiles and the top list are about reported keys alone. {marked}"
    return f"A sum over keys includes unreported keys only as far as it can be estimated from reported ones. {marked}"


def label_section(content: Content) -> Markup:
    """Return all fields of the label, and the commands that print them."""
    commands = [
        content.command("info", FILE),
        content.command("verify", FILE),
        content.command("report", FILE, "-o", "report.html"),
    ]
    return join(
        [
            table(
                "All fields of the privacy label",
                ["field", "value"],
                label_of(content.release).items(),
            ),
            tag(
                "p",
                "To print the parameters, to prove the stated terms private, and to make this page:",
            ),
            tag("pre", "\n".join(commands), tabindex="0", class_="again"),
        ]
    )
