"""The sections of a report on what it cannot show, and its privacy label."""

from dpsample.accounting.totals import Total
from dpsample.estimators.estimate import Estimate, in_all_keys
from dpsample.estimators.notes import claim_of
from dpsample.presentation.label import label_of
from dpsample.presentation.markup import Markup, join, tag
from dpsample.presentation.numbers import interval, whole
from dpsample.presentation.pages import table
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import NOT_GUARANTEED, again, claims, folded
from dpsample.presentation.report.reporting import reporting_section
from dpsample.release.explain import (
    explain_possible,
    explain_reporting,
    explain_total,
    sentence,
)
from dpsample.release.facts import Topic
from dpsample.release.terms import Terms


def limits_section(content: Content) -> Markup:
    """Return what the release cannot show: what is hidden first, then everything else, folded."""
    terms = content.terms
    first = [_missing(content), sentence(explain_reporting(terms))]
    others = [*_user_limits(content), _sums(content)]
    parts: list[Markup | None] = [
        _list(first),
        folded("More on what numbers are about", _list(others)),
        reporting_section(content),
    ]
    if terms.bought.total is not None:
        parts += _total(content, terms.bought.total)
    return join(part for part in parts if part)


def _list(lines: list[str]) -> Markup:
    return tag("ul", *(tag("li", line) for line in lines))


def _missing(content: Content) -> str:
    """Say what it means that a key is not listed."""
    threshold = content.detection_threshold
    if not threshold:
        return "A key that is not listed may be in the data: it may have been rare, or not sampled."
    return (
        f"A key that is not listed may be in the data. Below the detection threshold, frequency {threshold:,}, "
        "most keys are not reported, and their number is unknown."
    )


def _total(content: Content, total: Total) -> list[Markup]:
    """Return the total of the data, and how much of it is in which keys."""
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
    unit = _unit_of(total, content.terms)
    stated = f"The data have about {explain_total(total)} ({unit})."
    if not parts:
        return [tag("p", stated)]
    words = tag("p", f"{stated} Of these, about:")
    compute = again(content, calls, ["query", FILE])
    return [words, tag("ul", *parts), *claims(notes), compute]


def _unit_of(total: Total, terms: Terms) -> str:
    """Return the unit of the total."""
    if terms.unit == "element":
        return "elements"
    unit = "keys of users, each user once in a key"
    if terms.discovery is not None:
        return f"{unit}, with up to {float(total.sensitivity):,.0f} keys"
    return f"{unit}, as far as users kept them"


def _sum_lines(asked: Estimate) -> list[Markup]:
    """Return what is in the reported keys, and then what is in all keys, in the words of `Release.sum`."""
    in_all = _line(in_all_keys(asked.at_least), _about(asked))
    reported = asked.reported
    if reported is None:
        return [in_all]
    ends = interval(reported.low, reported.high)
    level = f"{100 * asked.level:g} %"
    seen = f"{whole(reported.value)} ({level}: {ends})"
    if reported.others:
        in_all = tag("li", f"in all keys: {reported.others}")
    return [_line("in reported keys", seen), in_all]


def _line(name: str, number: str) -> Markup:
    return tag("li", f"{name}: ", tag("strong", number))


def _about(estimate: Estimate) -> str:
    """Return an estimate with its interval, and whether that is guaranteed."""
    ends = interval(estimate.low, estimate.high)
    doubt = "" if estimate.guaranteed else f", {NOT_GUARANTEED}"
    level = f"{100 * estimate.level:g} %"
    return f"{whole(estimate.value)} ({level}: {ends}{doubt})"


def _user_limits(content: Content) -> list[str]:
    """Say what numbers of users are about, and what they are not."""
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
    """Say what sums over keys include."""
    marked = "An interval without its nominal coverage is marked as not guaranteed."
    if content.counted:
        return f"Sums, ranks, quantiles and the top list are about reported keys alone. {marked}"
    return f"A sum over keys includes unreported keys only as far as it can be estimated from reported ones. {marked}"


def label_section(content: Content) -> Markup:
    """Return all fields of the label, and the commands that print them."""
    commands = [content.command("info", FILE), content.command("verify", FILE)]
    commands.append(content.command("report", FILE, "-o", "report.html"))
    fields = table(
        "All fields of the privacy label", ["field", "value"], label_of(content.release).items()
    )
    again_words = (
        "To print the parameters, to prove the stated terms private, and to make this page:"
    )
    return folded(
        "Show the label",
        fields,
        tag("p", again_words),
        tag("pre", "\n".join(commands), tabindex="0", class_="again"),
    )
