"""The sections of a report on what it cannot show, and its privacy label."""

from dpsample.presentation.explain import (
    explain_amount,
    explain_choice,
    explain_counts,
    explain_kept,
    explain_possible,
    explain_reporting,
    explain_total,
    sentence,
)
from dpsample.presentation.label import label_of
from dpsample.presentation.pages import Markup, join, table, tag
from dpsample.presentation.report.content import FILE, Content
from dpsample.presentation.report.elements import again, claims, numbers_of


def limits_section(content: Content) -> Markup:
    """Return what the release cannot show."""
    terms, threshold = content.terms, content.detection_threshold
    lines = [
        sentence(explain_reporting(terms)),
        *_user_limits(content),
        "A key that is not listed may be in the data: it may have been rare, or not sampled."
        if not threshold
        else f"A key that is not listed may be in the data. Below the detection threshold, frequency {threshold:,}, "
        "most keys are not reported, and their number is unknown.",
        _sums(content),
    ]
    parts = [tag("ul", *(tag("li", line) for line in lines))]
    if terms.total is not None:
        unit = "elements" if terms.unit == "element" else "keys of users, each user once in a key"
        unit += ", as far as users kept them" if terms.max_keys else ""
        if terms.discovery is not None:
            unit += f", with up to {float(terms.total.sensitivity):,.0f} keys"
        parts.append(tag("p", f"The data have about {explain_total(terms.total)} ({unit})."))
    if content.other is not None:
        value, interval, guaranteed = numbers_of(content.other)
        level = f" ({100 * content.other.level:g} %: {interval}{', ' * bool(guaranteed)}{guaranteed})"
        parts.append(tag("p", "Of these, about ", tag("strong", value, level), " have keys that were not reported."))
        parts += claims(content.other.notes)
        parts.append(again(content, ["print(release.total.estimate())", "print(release.other())"], ["query", FILE]))
    return join(parts)


def _user_limits(content: Content) -> list[str]:
    """What numbers of users are about, and what they are not."""
    terms = content.terms
    if terms.unit == "element":
        return []
    possible = sentence(explain_possible(terms.privacy))
    if terms.discovery is None:
        kept = [] if terms.max_keys is None or terms.keys_only else [explain_kept(terms.max_keys, terms.kept)]
        return [possible, *map(sentence, kept)]
    given = [possible, "A key of many users may have been given by few of them, and then it is not reported."]
    if terms.discovery.filled:
        given.append(sentence(explain_choice(terms.discovery.filled, len(content.release))))
    if terms.counts is None:
        return given
    return [
        *given,
        sentence(explain_counts(terms.counts)),
        *(sentence(explain_amount(c)) for c in terms.counts.amounts),
    ]


def _sums(content: Content) -> str:
    """What sums over keys include."""
    marked = "An interval without its nominal coverage is marked as not guaranteed."
    if content.counted:
        return f"Sums, ranks, quantiles and the top list are about reported keys alone. {marked}"
    return f"A sum over keys includes unreported keys only as far as it can be estimated from reported ones. {marked}"


def label_section(content: Content) -> Markup:
    """Return all fields of the label, and the commands that print them."""
    return join(
        [
            table("All fields of the privacy label", ["field", "value"], label_of(content.release).items()),
            tag("p", "To print the parameters, to prove the stated terms private, and to make this page:"),
            tag(
                "pre",
                "\n".join(
                    content.command(*words)
                    for words in (["info", FILE], ["verify", FILE], ["report", FILE, "-o", "report.html"])
                ),
                tabindex="0",
                class_="again",
            ),
            tag("p", "To write the entry for the public registry of deployments:"),
            tag("pre", content.command("info", FILE, "--registry"), tabindex="0", class_="again"),
        ]
    )
