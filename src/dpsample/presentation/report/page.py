"""The report as HTML: sections of words, tables and charts. `content` computes the values."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.resources import files

from dpsample import __version__
from dpsample.accounting.totals import Total
from dpsample.definitions import Definition
from dpsample.errors import PrivacyViolation
from dpsample.estimators.estimate import Estimate
from dpsample.exact import shown_number, text
from dpsample.presentation.charts import Panel
from dpsample.presentation.explain import (
    explain_amount,
    explain_counts,
    explain_kept,
    explain_protected,
    explain_reporting,
    explain_strength,
    explain_total,
    frequency_words,
    sentence,
)
from dpsample.presentation.label import label_of
from dpsample.presentation.page_charts import page_chart
from dpsample.presentation.pages import Document, Markup, figure, join, table, tag
from dpsample.presentation.report.content import FILE, SHARES, Content, Listing
from dpsample.presentation.report.statement import Statement
from dpsample.presentation.tables import printable, readable
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, KeepAll

_ADVICE = re.compile(r"--\w|\w_\w")  # names of options and arguments
_FIRST = 15  # rows of the top list, while it is folded
_BAR = 120  # width of the largest bar in the top list


def page(content: Content) -> str:
    """Return the HTML of the document."""
    sections = {
        "privacy": ("Privacy", "Privacy", _privacy(content)),
        "top": ("Top keys", "Top keys", _top(content)),
        "search": ("Search", "All keys", _search(content)),
        "frequencies": ("Frequencies", "How frequent keys are", _frequencies(content)),
        "reported": ("Reporting", "Reporting probability", _reported(content)),
        "limits": ("Limits", "What this release cannot show", _limits(content)),
        "label": ("Label", "Privacy label", _label(content)),
    }
    sections = {name: section for name, section in sections.items() if section[2]}
    links = [tag("li", tag("a", short, href=f"#{name}")) for name, (short, _, _) in sections.items()]
    body = join(
        [
            tag("a", "Skip to the content", href="#content", class_="skip"),
            tag(
                "header",
                tag("h1", printable(content.title)),
                *_stated(content.statement),
                tag(
                    "p",
                    "All numbers follow from the private release alone. This page shows nothing else of the data.",
                    class_="quiet",
                ),
                tag("nav", tag("ul", *links), aria_label="Sections"),
            ),
            tag(
                "main",
                *(tag("section", tag("h2", title), inner, id=name) for name, (_, title, inner) in sections.items()),
                id="content",
            ),
            tag("footer", tag("p", f"dpsample {__version__}. This page needs no network and sends no data.")),
        ]
    )
    charts = {"chart-reported": _reported_chart(content)}
    if content.counts:
        charts["chart-frequencies"] = _frequencies_chart(content)
    return Document(printable(content.title), body, {"keys": _data(content.listing)}, charts, [_script()]).html()


def _stated(statement: Statement) -> list[Markup]:
    """What the publisher says about the data, when, and whom to ask."""
    lines = [tag("p", printable(text, len(text))) for text in statement.paragraphs]
    facts = []
    if statement.date is not None:
        facts.append(join(["Published: ", tag("time", str(statement.date)), ". "]))
    if statement.contact is not None:
        contact = printable(statement.contact)
        link = tag("a", contact, href=statement.link, rel="noreferrer") if statement.link else contact
        facts.append(join(["Contact: ", link]))
    return [*lines, tag("p", *facts)] if facts else lines


def _privacy(content: Content) -> Markup:
    terms = content.terms
    factor, guess, exception = map(sentence, explain_strength(terms.privacy, terms.unit))
    facts = {
        "keys reported": f"{len(content.release):,}",
        "epsilon": text(terms.privacy.epsilon),
        "delta": text(terms.privacy.delta),
        "protects each": terms.unit,
    }
    if content.detection_threshold:
        facts[f"detection threshold ({frequency_words(terms)})"] = f"{content.detection_threshold:,}"
    words = [
        tag("p", tag("strong", "Unit of privacy: "), explain_protected(terms.max_keys, terms.unit), "."),
        tag("p", tag("strong", "Strength: "), f"{factor} {guess}"),
        tag("p", tag("strong", "Exception: "), exception),
        tag("p", tag("strong", "Composition: "), "every further release of the same data adds to what is spent."),
    ]
    definition = terms.privacy.definition
    amount, caption = ("epsilon", "Epsilon") if definition is None else (definition.symbol, str(definition))
    numbers = "numbers of users" if content.counted else "frequencies"
    parts: list[Sequence[object]] = [
        ["keys" if terms.keys_only else f"keys and their {numbers}", *_spent(terms.keys_privacy)]
    ]
    if terms.discovery is not None and terms.discovery.look is not None:
        parts.append(["a look at how many keys users have", text(terms.discovery.look.epsilon), "0"])
    if terms.size is not None:
        parts.append(["the sample size", _noise_spent(terms.size.weights, definition), "0"])
    if terms.total is not None:
        parts.append(["the total", _noise_spent(terms.total, definition), "0"])
    parts.append(["all", *_spent(terms.privacy)])
    if definition is not None:
        facts["stated as"] = str(definition)
    return tag(
        "div",
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items()), class_="facts"),
        *words,
        table(f"{caption} and delta, by part", ["part", amount, "delta"], parts, [False, True, True]),
        *_proof(content),
        *([tag("p", f"The ledger of the dataset has this release as entry {terms.ledger}.")] if terms.ledger else []),
        class_="label",
    )


def _spent(privacy: Privacy) -> list[str]:
    if privacy.definition is not None:
        return [text(privacy.definition.value), text(privacy.aside)]
    return [text(privacy.epsilon), text(privacy.delta)]


def _noise_spent(noise: Total, definition: Definition | None) -> str:
    """What the noise of a total cost: mu, as others do, by its square."""
    return text(noise.epsilon) if definition is None else f"{float(definition.implied([noise.epsilon]).value):.6g}"


def _proof(content: Content) -> list[Markup]:
    proof, command = content.proof, tag("code", content.command("verify", FILE))
    if proof is None:
        return [tag("p", tag("strong", "Certificate: "), "not run for this page. Run ", command)]
    if isinstance(proof, PrivacyViolation):
        verdict = tag("span", "FAILED", class_="bad")
        return [tag("p", tag("strong", "Certificate: "), verdict, f": {proof}. Run ", command)]
    laws = "token laws" if content.terms.discovery is None else "noise and of the reporting probabilities"
    verdict = tag("span", "proved" if proof.complete else "proved at the frequencies that were checked", class_="good")
    return [
        tag("p", tag("strong", "Certificate: "), verdict, f" in exact arithmetic, on the integers of the {laws}."),
        tag("details", tag("summary", "The proof"), tag("pre", str(proof), tabindex="0"), tag("p", "Run ", command)),
    ]


def _top(content: Content) -> Markup | None:
    top = content.top
    if top is None:
        return None
    if not len(top):
        return tag("p", "No key was reported.")
    value, low, high, probability = (top.numbers[name].to_pylist() for name in ("value", "low", "high", "probability"))
    keys = [readable(column) for column in top.groups.columns]
    rows = [
        [
            n + 1,
            *(tag("span", column[n], class_="key") for column in keys),
            _whole(value[n]),
            _interval(low[n], high[n]),
            _share(probability[n]),
            _bar(value[n], low[n], high[n], max(high)),
        ]
        for n in range(len(top))
    ]
    names = [printable(name) for name in top.groups.column_names]
    k = len(top)
    title = f"The {k:,} keys with the largest estimates"
    level = f"{100 * top.level:g} %"
    in_top = f"it is one of the top {k:,}" + (" of the reported keys" if content.counted else "")
    return join(
        [
            tag("p", f"The estimated {_frequency(content)} of each key, and the probability that {in_top}."),
            table(
                title,
                ["", *names, _column(content), f"{level} interval", f"in the top {k:,}", ""],
                rows,
                [True, *(False for _ in names), True, True, True, False],
                first=_FIRST,
            ),
            *_notes(top.notes),
            _again(content, [f"print(release.top({k}))"], ["top", FILE, "-k", k]),
        ]
    )


def _frequency(content: Content) -> str:
    """What is estimated of a key, in words."""
    if content.counted:
        return "number of users"
    return "frequency" if content.terms.max_keys is None else "number of users who kept it"


def _column(content: Content) -> str:
    return "users" if content.counted else "frequency"


def _share(probability: float) -> str:
    percent = 100 * probability
    return "> 99.9 %" if 99.95 <= percent < 100 else f"{percent:.3g} %"


def _bar(value: float, low: float, high: float, largest: float) -> Markup:
    """Draw a bar of the estimate, and its interval as an error bar; screen readers have the numbers."""
    value, low, high = (round(_BAR * n / largest, 2) for n in (value, low, high))
    bar = tag("rect", x="0", y="3", width=value, height="8", fill="currentColor", opacity="0.55")
    ends = tag(
        "path", d=f"M{low} 2V12M{low} 7H{high}M{high} 2V12", stroke="var(--ink)", stroke_width="1.5", fill="none"
    )
    return tag("svg", bar, ends, width=_BAR + 2, height="14", aria_hidden="true", class_="range")


def _whole(number: float, rounded: Callable[[float], int] = round) -> str:
    """Write a frequency, or a number of keys: a whole number."""
    return f"{rounded(number):,}" if math.isfinite(number) else shown_number(number)


def _interval(low: float, high: float) -> str:
    """Write an interval of whole numbers that has all of it."""
    return f"{_whole(low, math.floor)} to {_whole(high, math.ceil)}"


def _search(content: Content) -> Markup:
    listing, release = content.listing, content.release
    scope = f"All {len(release):,} reported keys."
    if listing.left_out:
        which = "first" if release.keys_only else "most frequent"
        scope = f"The {len(listing):,} {which} of {len(release):,} reported keys; the release has the rest."
    if not len(release):
        return tag("p", "No key was reported. The data may have no key above the detection threshold.")
    names = [printable(name) for name in listing.columns]
    numbers = [] if release.keys_only else [_column(content), "95 % interval"]
    heads = [tag("th", name, scope="col") for name in names]
    heads += [tag("th", name, scope="col", class_="number") for name in numbers]
    inner = [
        tag("p", scope, "" if numbers else " This release has keys without frequencies."),
        tag(
            "div",
            tag("label", "Find keys that contain", for_="query"),
            tag("input", type="search", id="query", autocomplete="off", spellcheck="false", maxlength="200"),
            tag("p", id="found", role="status", class_="quiet"),
            tag(
                "div",
                tag(
                    "table",
                    tag("caption", "Keys that were found"),
                    tag("thead", tag("tr", *heads)),
                    tag("tbody", id="matches"),
                ),
                class_="scroll",
                role="region",
                tabindex="0",
                aria_label="Keys that were found",
            ),
            tag("button", "Show more", id="more", type="button", hidden=True),
            class_="screen-only",
            id="finder",
            hidden=True,
        ),
        tag("noscript", tag("p", "The search needs JavaScript.")),
    ]
    if numbers:
        inner.append(
            _again(content, ["print(release.each_key())"], ["top", FILE, "-k", len(release), "--format", "csv"])
        )
    return join(inner)


def _data(listing: Listing) -> dict[str, object]:
    """Return the data of the search; numbers are as they are shown."""
    whole: dict[str, Callable[[float], int]] = {"value": round, "low": math.floor, "high": math.ceil}
    numbers = {name: [_whole(n, whole[name]) for n in column] for name, column in listing.numbers.items()}
    return {"keys": list(listing.columns.values()), "runs": listing.runs, **numbers}


def _frequencies(content: Content) -> Markup | None:
    if content.top is None or not content.counts:
        return None
    rows = [[f"{i:,}", *_numbers(estimate)] for i, estimate in content.counts]
    keys = "reported keys" if content.counted else "keys"
    of = "so many users" if content.counted else "each frequency"
    counted = table(
        "Number of reported keys of so many users or more"
        if content.counted
        else "Number of keys in the data of this frequency or more, reported or not",
        [_column(content), "keys", "95 % interval", ""],
        rows,
        [True, True, True, False],
    )
    first, (last, _) = content.counts[0], content.counts[-1]
    described = (
        f"Line chart: about {_whole(first[1].value)} {keys} have {_frequency(content)} {first[0]:,} or more. "
        f"The number falls up to {last:,}. The table below has all points."
    )
    calls = [f"for at_least in {[i for i, _ in content.counts]}:", "    print(release.count_keys(at_least=at_least))"]
    at_least = content.counts[0][0]
    parts = [
        figure("chart-frequencies", f"Number of {keys} of {of} or more, with 95 % intervals.", described, counted),
        *_notes(f"for some of these numbers, {note}" for _, estimate in content.counts for note in estimate.notes),
        _again(content, calls, ["query", FILE, "--of", f"at-least:{at_least}"]),
    ]
    if content.quantiles is not None:
        q = content.quantiles
        rows = [[f"{100 * share:g} %", *_numbers(estimate)] for share, (_, estimate) in zip(SHARES, q, strict=True)]
        parts += [
            tag("h3", "Quantiles"),
            table(
                f"{_frequency(content).capitalize()} that this share of keys does not exceed",
                ["share of keys", _column(content), "95 % interval", ""],
                rows,
                [False, True, True, False],
            ),
            *_notes(q.notes),
            _again(content, [f"print(release.quantiles({list(SHARES)}))"], ["quantiles", FILE, *SHARES]),
        ]
    return join(parts)


def _numbers(estimate: Estimate) -> list[str]:
    interval = _interval(estimate.low, estimate.high)
    return [_whole(estimate.value), interval, "" if estimate.guaranteed else "not guaranteed"]


def _frequencies_chart(content: Content) -> dict[str, object]:
    rows = [
        {
            "line": "keys",
            "x": i,
            "y": e.value,
            "low": max(e.low, 0.5),
            "high": e.high if e.high < 1e15 else e.value,
            "at least": f"{i:,}",
            "number of keys": _whole(e.value),
        }
        for i, e in content.counts
        if e.value > 0
    ]
    panel = Panel("", f"{_column(content)}, at least", "number of keys", log_x=True, log_y=True)
    return page_chart(rows, panel, points=True)


def _reported(content: Content) -> Markup | None:
    if content.terms.known is not None and content.terms.known.only:
        return None
    curve, lines = content.curve, _lines(content)
    ours = curve.pws
    picks = sorted({int((ours < level).sum()) for level in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)})
    picks = [n for n in picks if n < len(ours)]
    at = curve.frequencies[picks].tolist()
    rows = [[f"{curve.frequencies[n]:,}", *(f"{line[n]:.3g}" for line in lines.values())] for n in picks]
    compared = len(lines) > 1
    sampled = not isinstance(content.terms.sampling, KeepAll)
    users, words_of = content.terms.unit == "user", frequency_words(content.terms)
    more = "" if users else "No private scheme has a larger reporting probability at any frequency."
    if content.terms.sampling.least > 1:
        more = f"It is 0 below {content.terms.sampling.least:,}: the release leaves these keys out."
    if sampled:
        more = "It includes sampling: a key that was not sampled was not reported."
    grows = f"The reporting probability of a key grows with {'the' if users else 'its'} {words_of}. "
    words = [tag("p", grows, more)]
    if compared:
        words.append(
            tag(
                "p",
                "For comparison: the stability-based histogram, the usual method to publish keys",
                " (in its sampled form)" if sampled else "",
                ", at the same privacy, with its published cutoff and with the lowest one that is as private.",
            )
        )
    half, column = content.detection_threshold, "users" if content.terms.discovery else "frequency"
    described = f"Line chart of the reporting probability by {words_of}. " + (
        "It does not reach one half." if half is None else f"In this release it reaches one half at {column} {half:,}."
    )
    names = [column, *lines]
    numbers = table(f"Reporting probability by {words_of}", names, rows, [True] * len(names))
    calls = [
        "from dpsample.scheme import reporting_probabilities",
        f"print(reporting_probabilities({at}, release.sampling, release.per_key))",
    ]
    if compared:
        calls += [
            "from dpsample.comparison.baselines import StabilityHistogram",
            "histogram = StabilityHistogram(release.per_key, release.sampling, tight=True)  # or tight=False",
            f"print(histogram.reported({at}))",
        ]
    return join(
        [
            *words,
            figure("chart-reported", f"Reporting probability by {words_of}.", described, numbers),
            _again(content, calls, ["info", FILE, "--format", "json"], "The parameters of the scheme"),
        ]
    )


def _lines(content: Content) -> dict[str, Floats]:
    """Return the curve of this release, and those of the stability-based histogram if the sampling has one."""
    curve = content.curve
    named = {
        "this release": curve.pws,
        "stability-based histogram": curve.sbh,
        "the same, with its lowest cutoff": curve.tight,
    }
    return {name: line for name, line in named.items() if line is not None}


def _reported_chart(content: Content) -> dict[str, object]:
    i = content.curve.frequencies
    rows = [
        {"line": name, "x": int(x), "y": float(y), "frequency": f"{x:,}", "probability": f"{y:.3g}", "of": name}
        for name, line in _lines(content).items()
        for x, y in zip(i, line, strict=True)
    ]
    return page_chart(
        rows, Panel("", frequency_words(content.terms), "probability", log_x=bool(i[-1] > 20 * i[0]), span_y=(0, 1))
    )


def _limits(content: Content) -> Markup:
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
        if terms.discovery is not None:
            unit += f", with up to {float(terms.total.sensitivity):,.0f} keys"
        parts.append(tag("p", f"The data have about {explain_total(terms.total)} ({unit})."))
    if content.other is not None:
        value, interval, guaranteed = _numbers(content.other)
        level = f" ({100 * content.other.level:g} %: {interval}{', ' * bool(guaranteed)}{guaranteed})"
        parts.append(tag("p", "Of these, about ", tag("strong", value, level), " have keys that were not reported."))
        parts += _notes(content.other.notes)
        parts.append(_again(content, ["print(release.total.estimate())", "print(release.other())"], ["query", FILE]))
    return join(parts)


def _user_limits(content: Content) -> list[str]:
    """What numbers of users are about, and what they are not."""
    terms = content.terms
    if terms.discovery is None:
        return [sentence(explain_kept(terms.max_keys))] if terms.max_keys and not terms.keys_only else []
    given = "A key of many users may have been given by few of them, and then it is not reported."
    if terms.counts is None:
        return [given]
    return [given, sentence(explain_counts(terms.counts)), *(sentence(explain_amount(c)) for c in terms.counts.amounts)]


def _sums(content: Content) -> str:
    """What sums over keys include."""
    marked = "An interval without its nominal coverage is marked as not guaranteed."
    if content.counted:
        return f"Sums, ranks, quantiles and the top list are about reported keys alone. {marked}"
    return f"A sum over keys includes unreported keys only as far as it can be estimated from reported ones. {marked}"


def _label(content: Content) -> Markup:
    return join(
        [
            table("All fields of the privacy label", ["field", "value"], label_of(content.release).items()),
            tag("p", "To print the parameters, to prove the privacy, and to make this page:"),
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


def _notes(notes: Iterable[str]) -> list[Markup]:
    """Show notes, without advice on arguments and options: a reader of the page has none to set."""
    lay = ["; ".join(part for part in note.split("; ") if not _ADVICE.search(part)) for note in notes]
    return [tag("p", sentence(note), class_="quiet") for note in dict.fromkeys(lay) if note]


def _again(
    content: Content, calls: Sequence[str], words: Sequence[object], command: str = "On the command line"
) -> Markup:
    """Show how to compute the same numbers."""
    return tag(
        "details",
        tag("summary", "Compute these numbers yourself"),
        tag("p", "In Python:"),
        tag("pre", content.python(*calls), tabindex="0", class_="again python"),
        tag("p", f"{command}:"),
        tag("pre", content.command(*words), tabindex="0", class_="again command"),
    )


@lru_cache
def _script() -> str:
    return files("dpsample.presentation.report").joinpath("report.js").read_text(encoding="utf-8")
