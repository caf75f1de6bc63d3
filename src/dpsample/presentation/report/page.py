"""The report as HTML: sections of words, tables and charts. What it says is computed in `content`."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files

from dpsample import __version__
from dpsample.errors import PrivacyViolation
from dpsample.estimators.estimate import Estimate, shown_number
from dpsample.exact import text
from dpsample.presentation.charts import Panel, page_chart
from dpsample.presentation.explain import (
    explain_protected,
    explain_sampling,
    explain_size,
    explain_total,
    explain_visibility,
)
from dpsample.presentation.pages import Document, Markup, figure, join, table, tag
from dpsample.presentation.report.content import FILE, SHARES, Content, Listing
from dpsample.presentation.tables import readable, visible
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, KeepAll

_FIRST = 15  # rows of the top list, before it is unfolded
_BAR = 120  # width of the largest bar in the top list


def page(content: Content) -> str:
    """Return the whole document."""
    sections = {
        "privacy": ("Privacy", "Privacy", _privacy(content)),
        "top": ("Top keys", "Top keys", _top(content)),
        "search": ("Search", "All keys", _search(content)),
        "frequencies": ("Frequencies", "How frequent keys are", _frequencies(content)),
        "reported": ("Reporting", "How likely a key was to be reported", _reported(content)),
        "unseen": ("Limits", "What cannot be seen", _unseen(content)),
        "parameters": ("Parameters", "Parameters", _parameters(content)),
    }
    shown = {name: made for name, made in sections.items() if made[2]}
    links = [tag("li", tag("a", short, href=f"#{name}")) for name, (short, _, _) in shown.items()]
    body = join(
        [
            tag("a", "Skip to the content", href="#content", class_="skip"),
            tag(
                "header",
                tag("h1", visible(content.title)),
                tag("p", "Made from the private release alone. It shows nothing else of the data.", class_="quiet"),
                tag("nav", tag("ul", *links), aria_label="Sections"),
            ),
            tag(
                "main",
                *(tag("section", tag("h2", title), inner, id=name) for name, (_, title, inner) in shown.items()),
                id="content",
            ),
            tag("footer", tag("p", f"dpsample {__version__}. This page needs no network, and sends nothing anywhere.")),
        ]
    )
    charts = {"chart-reported": _reported_chart(content)}
    if content.counts:
        charts["chart-frequencies"] = _frequencies_chart(content)
    return Document(visible(content.title), body, {"keys": _data(content.listing)}, charts, [_script()]).html()


def _privacy(content: Content) -> Markup:
    terms, strength = content.terms, content.strength
    one, rest = ("one user", "all other users") if terms.max_keys else ("one element", "all other elements")
    facts = {
        "keys reported": f"{len(content.release):,}",
        "epsilon": text(terms.privacy.epsilon),
        "delta": text(terms.privacy.delta),
        "protects each": terms.unit,
    }
    if content.detection_threshold is not None:
        facts["frequency from which on keys are likely to be seen"] = f"{content.detection_threshold:,}"
    words = [
        tag("p", tag("strong", "Whom it protects: "), explain_protected(terms.max_keys), "."),
        tag(
            "p",
            tag("strong", "How strongly: "),
            f"whether {one} is in the data or not changes the probability of anything in this release by at most a "
            f"factor of {shown_number(_up(strength.factor, 3))}, which is exp(epsilon). Someone who knows {rest}, "
            f"and bets at even odds on whether {one} is there, is right with a probability of at most "
            f"{_up(100 * strength.guess, 1):g} %, instead of 50 %.",
        ),
        tag(
            "p",
            tag("strong", "Left aside: "),
            f"events with a probability of up to 1 in {strength.one_in:,} (delta), in which more may be revealed.",
        ),
        tag("p", tag("strong", "It adds up: "), "every further release of the same data spends more of their privacy."),
    ]
    parts: list[Sequence[object]] = [
        ["keys, and their tokens" if not terms.keys_only else "keys", *_spent(terms.keys_privacy)]
    ]
    if terms.size is not None:
        parts.append(["the sample size", text(terms.size.weights.epsilon), "0"])
    if terms.total is not None:
        parts.append(["the total", text(terms.total.epsilon), "0"])
    parts.append(["all", *_spent(terms.privacy)])
    return tag(
        "div",
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items()), class_="facts"),
        *words,
        table("What was spent on what", ["part", "epsilon", "delta"], parts, [False, True, True]),
        *_proof(content),
        *([tag("p", f"Entered in a ledger of the data's budget as {terms.ledger}.")] if terms.ledger else []),
        class_="label",
    )


def _up(value: float, digits: int) -> float:
    """Round a bound up, so that it still holds."""
    return math.ceil(value * 10**digits) / 10**digits if value < 1e12 else value


def _spent(privacy: Privacy) -> list[str]:
    return [text(privacy.epsilon), text(privacy.delta)]


def _proof(content: Content) -> list[Markup]:
    proof, command = content.proof, tag("code", content.command("verify", FILE))
    if proof is None:
        return [tag("p", tag("strong", "Certificate: "), "not run for this page, since it takes long. Run ", command)]
    if isinstance(proof, PrivacyViolation):
        said = tag("span", "FAILED", class_="bad")
        return [tag("p", tag("strong", "Certificate: "), said, f": {proof}. Run ", command)]
    said = tag("span", "proved" if proof.complete else "proved at the frequencies that were checked", class_="good")
    return [
        tag("p", tag("strong", "Certificate: "), said, " in exact arithmetic, on the integers that were drawn from."),
        tag("details", tag("summary", "The proof"), tag("pre", str(proof), tabindex="0"), tag("p", "Again: ", command)),
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
            shown_number(value[n]),
            f"{shown_number(low[n])} to {shown_number(high[n])}",
            _share(probability[n]),
            _bar(value[n], low[n], high[n], max(high)),
        ]
        for n in range(len(top))
    ]
    names = [visible(name) for name in top.groups.column_names]
    k = len(top)
    title = f"The {k:,} keys with the largest estimates"
    level = f"{100 * top.level:g} %"
    return join(
        [
            tag("p", f"About how frequent each key is, and the probability that it truly is one of the top {k:,}."),
            table(
                title,
                ["", *names, "frequency", f"{level} interval", f"in the top {k:,}", ""],
                rows,
                [True, *(False for _ in names), True, True, True, False],
                first=_FIRST,
            ),
            *_notes(top.notes),
            _again(content, [f"print(release.top({k}))"], ["top", FILE, "-k", k]),
        ]
    )


def _share(probability: float) -> str:
    percent = 100 * probability
    return "> 99.9 %" if 99.95 <= percent < 100 else f"{percent:.3g} %"


def _bar(value: float, low: float, high: float, largest: float) -> Markup:
    """A bar of the estimate with its interval, for the eye only."""
    x = [round(_BAR * n / largest, 2) for n in (value, low, high)]
    bar = tag("rect", x="0", y="3", width=x[0], height="8", fill="currentColor", opacity="0.55")
    line = tag("line", x1=x[1], x2=x[2], y1="7", y2="7", stroke="var(--ink)", stroke_width="2")
    return tag("svg", bar, line, width=_BAR, height="14", aria_hidden="true", class_="range")


def _search(content: Content) -> Markup:
    listing, release = content.listing, content.release
    said = f"All {len(release):,} reported keys."
    if listing.left_out:
        which = "first" if release.keys_only else "most frequent"
        said = f"The {len(listing):,} {which} of {len(release):,} reported keys; the release has the rest."
    if not len(release):
        return tag("p", "No key was reported: the data may have none that is frequent enough.")
    names = [visible(name) for name in listing.columns]
    numbers = [] if release.keys_only else ["frequency", "95 % interval", "token"]
    heads = [tag("th", name, scope="col") for name in names]
    heads += [tag("th", name, scope="col", class_="number") for name in numbers]
    inner = [
        tag("p", said, " A token is what was published of a key's frequency; the frequency is estimated from it.")
        if numbers
        else tag("p", said, " This release tells which keys there are, not how frequent they are."),
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
    """What the search reads: numbers are rounded as they are shown."""
    numbers = {name: [_rounded(value) for value in column] for name, column in listing.numbers.items()}
    keys = list(listing.columns.values())
    return {"keys": keys, "runs": listing.runs, "tokens": [_rounded(t, 9) for t in listing.tokens], **numbers}


def _rounded(value: float, digits: int = 1) -> float | int:
    n = float(f"{value:.{digits}f}" if abs(value) >= 1000 or digits > 1 else f"{value:.5g}")
    return int(n) if n == int(n) else n


def _frequencies(content: Content) -> Markup | None:
    if content.top is None or not content.counts:
        return None
    rows = [[f"{i:,}", *_numbers(found)] for i, found in content.counts]
    counted = table(
        "Number of keys in the data that are at least so frequent, reported or not",
        ["frequency", "keys", "95 % interval", ""],
        rows,
        [True, True, True, False],
    )
    first, (last, _) = content.counts[0], content.counts[-1]
    described = (
        f"Line chart: about {shown_number(first[1].value)} keys have frequency {first[0]:,} or more; the higher the "
        f"frequency, up to {last:,}, the fewer the keys. The table below has all of its points."
    )
    calls = [f"for at_least in {[i for i, _ in content.counts]}:", "    print(release.count_keys(at_least=at_least))"]
    at_least = content.counts[0][0]
    parts = [
        figure("chart-frequencies", "How many keys are at least so frequent, with 95 % intervals.", described, counted),
        *_notes(f"of some of these numbers: {note}" for _, found in content.counts for note in found.notes),
        _again(content, calls, ["query", FILE, "--of", f"at-least:{at_least}"]),
    ]
    if content.quantiles is not None:
        q = content.quantiles
        columns = [q.numbers[name].to_pylist() for name in ("value", "low", "high")]
        rows = [
            [f"{100 * share:g} %", shown_number(v), f"{shown_number(low)} to {shown_number(high)}"]
            for share, v, low, high in zip(SHARES, *columns, strict=True)
        ]
        parts += [
            tag("h3", "Quantiles"),
            table(
                f"This share of keys is at most so frequent, {'; '.join(q.notes)}",
                ["share of keys", "frequency", "95 % interval"],
                rows,
                [False, True, True],
            ),
            _again(content, [f"print(release.quantiles({list(SHARES)}))"], ["quantiles", FILE, *SHARES]),
        ]
    return join(parts)


def _numbers(found: Estimate) -> list[str]:
    interval = f"{shown_number(found.low)} to {shown_number(found.high)}"
    return [shown_number(found.value), interval, "" if found.guaranteed else "not guaranteed"]


def _frequencies_chart(content: Content) -> dict[str, object]:
    rows = [
        {
            "line": "keys",
            "x": i,
            "y": e.value,
            "low": max(e.low, 0.5),
            "high": e.high if e.high < 1e15 else e.value,
            "at least": f"{i:,}",
            "number of keys": shown_number(e.value),
        }
        for i, e in content.counts
        if e.value > 0
    ]
    panel = Panel("", "frequency, at least", "number of keys", log_x=True, log_y=True)
    return page_chart(rows, panel, points=True)


def _reported(content: Content) -> Markup:
    curve, lines = content.curve, _lines(content)
    ours = curve.pws
    picks = sorted({int((ours < level).sum()) for level in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)})
    picks = [n for n in picks if n < len(ours)]
    at = curve.frequencies[picks].tolist()
    rows = [[f"{curve.frequencies[n]:,}", *(f"{line[n]:.3g}" for line in lines.values())] for n in picks]
    compared = len(lines) > 1
    sampled = not isinstance(content.terms.sampling, KeepAll)
    more = (
        "" if content.terms.max_keys else "No private scheme reports keys of any frequency with a larger probability."
    )
    if sampled:
        more = "Sampling is part of it: a key that was not sampled was not reported."
    words = [tag("p", "Rare keys are hidden, frequent ones are shown, and in between chance decides. ", more)]
    if compared:
        words.append(
            tag(
                "p",
                "For comparison, the stability-based histogram, the usual way to publish keys",
                " (in its sampled form)" if sampled else "",
                ", at the same privacy: with its published cutoff, and with the tightest one that is as private.",
            )
        )
    half = content.detection_threshold
    described = "Line chart of the probability to be reported, by frequency. " + (
        "It does not reach one half." if half is None else f"In this release it reaches one half at frequency {half:,}."
    )
    names = ["frequency", *lines]
    numbers = table("Probability that a key is reported, by its frequency", names, rows, [True] * len(names))
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
            figure("chart-reported", "Probability that a key was reported, by its frequency.", described, numbers),
            _again(content, calls, ["info", FILE, "--format", "json"], "The parameters of the scheme"),
        ]
    )


def _lines(content: Content) -> dict[str, Floats]:
    """The curve of this release, and those of the stability-based histogram where it is stated for the sampling."""
    curve = content.curve
    named = {
        "this release": curve.pws,
        "stability-based histogram": curve.sbh,
        "the same, with its tightest cutoff": curve.tight,
    }
    return {name: line for name, line in named.items() if line is not None}


def _reported_chart(content: Content) -> dict[str, object]:
    i = content.curve.frequencies
    rows = [
        {"line": name, "x": int(x), "y": float(y), "frequency": f"{x:,}", "probability": f"{y:.3g}", "of": name}
        for name, line in _lines(content).items()
        for x, y in zip(i, line, strict=True)
    ]
    return page_chart(rows, Panel("", "frequency", "probability", log_x=bool(i[-1] > 20 * i[0]), span_y=(0, 1)))


def _unseen(content: Content) -> Markup:
    terms = content.terms
    seen = content.detection_threshold
    lines = [
        explain_visibility(terms.sampling, terms.per_key).capitalize() + ".",
        "A key that is not listed may be in the data, or not: it was rare, or was not sampled, or is not there."
        if seen is None
        else f"A key that is not listed may be in the data. Below frequency {seen:,} most keys are hidden, and how "
        "many such keys there are cannot be told.",
        "Sums over keys count the hidden ones only as far as the reported ones tell of them; intervals that rest on "
        "too little are marked as not guaranteed.",
    ]
    made = [tag("ul", *(tag("li", line) for line in lines))]
    if terms.total is not None:
        unit = "elements" if terms.max_keys is None else "keys of users, each user once in a key"
        made.append(tag("p", f"All data together have about {explain_total(terms.total)} ({unit})."))
    if content.other is not None:
        made.append(
            tag("p", "Of these, keys that are not reported have about ", tag("strong", str(content.other)), ".")
        )
        made.append(_again(content, ["print(release.total.interval())", "print(release.other())"], ["query", FILE]))
    return join(made)


def _parameters(content: Content) -> Markup:
    terms = content.terms
    rows: list[tuple[str, object]] = [
        ("key columns", join([tag("code", visible(name)) for name in terms.keys], ", ")),
        ("reported keys", f"{len(content.release):,}"),
        ("protects", explain_protected(terms.max_keys)),
        ("epsilon, delta", f"{text(terms.privacy.epsilon)}, {text(terms.privacy.delta)}"),
    ]
    if terms.per_key != terms.privacy:
        rows.append(("of each key", f"epsilon {text(terms.per_key.epsilon)}, delta {text(terms.per_key.delta)}"))
    rows.append(("sampling", explain_sampling(terms.sampling)))
    if terms.size is not None:
        rows.append(("sample size", explain_size(terms.size)))
    if terms.total is not None:
        rows.append(("total", explain_total(terms.total)))
    if terms.grid is not None:
        rows.append(("tokens", f"in steps of 1/{terms.grid}; column “estimate” of the file by {terms.estimator}"))
    if terms.ledger:
        rows.append(("ledger", terms.ledger))
    rows.append(("made with", f"dpsample {terms.dpsample}"))
    return join(
        [
            table("What the release was made with", ["parameter", "value"], rows),
            tag("p", "Read it all, and prove its privacy, with:"),
            tag(
                "pre",
                "\n".join(content.command(*words) for words in (["info", FILE], ["verify", FILE])),
                tabindex="0",
                class_="again",
            ),
            tag("p", "This page:"),
            tag("pre", content.command("report", FILE, "-o", "report.html"), tabindex="0", class_="again"),
        ]
    )


def _notes(notes: Iterable[str]) -> list[Markup]:
    return [tag("p", f"{note[0].upper()}{note[1:]}.", class_="quiet") for note in dict.fromkeys(notes)]


def _again(
    content: Content, calls: Sequence[str], words: Sequence[object], command: str = "On the command line"
) -> Markup:
    """How to get the same numbers."""
    return tag(
        "details",
        tag("summary", "Get these numbers yourself"),
        tag("p", "In Python:"),
        tag("pre", content.python(*calls), tabindex="0", class_="again python"),
        tag("p", f"{command}:"),
        tag("pre", content.command(*words), tabindex="0", class_="again command"),
    )


@lru_cache
def _script() -> str:
    return files("dpsample.presentation.report").joinpath("report.js").read_text(encoding="utf-8")
