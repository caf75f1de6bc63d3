"""Make docs/comparison.md and its charts from the stored results: `python benchmarks/peers/page.py`.

Every number on the page comes from results.jsonl or ../scaling.jsonl. A test makes the page again and compares.
"""

import json
import math
from pathlib import Path
from typing import Any

from charts import charts
from growth import growth
from pieces import figure, item, prose, table
from registry import PEERS
from snippets import FEATURES
from tasks import TASKS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "comparison.md"
IMAGES = ROOT / "docs" / "images"

Line = dict[str, Any]

ROUNDING = 1e-6  # of delta: a scale that was rounded is no violation

# who is asked for features: a peer's snippets, by the title of the column
ASKED = {
    "dpsample": "dpsample",
    "opendp": "OpenDP",
    "pydp": "PyDP",
    "pipelinedp": "PipelineDP",
    "tumult-analytics": "Tumult",
    "smartnoise": "SmartNoise",
    "diffprivlib": "diffprivlib",
}


def stored(file: Path) -> list[Line]:
    """The lines of a file of results."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def page(results: list[Line], scaling: list[Line]) -> str:
    """The whole page, as Markdown."""
    runs = [line for line in results if line["kind"] == "run"]
    parts = [
        _introduction(runs),
        _elements(runs),
        _users(runs),
        _behind(runs),
        _certificates([line for line in results if line["kind"] == "certificate"]),
        _starts(runs),
        _features([line for line in results if line["kind"] == "features"]),
        growth(scaling),
        _absent(results),
        "**Next:** [accuracy](accuracy.md), [coming from other tools](guides/coming-from.md).",
    ]
    return "\n\n".join(parts) + "\n"


def _title(line: Line) -> str:
    peer = PEERS[line["peer"]]
    return peer.title + (f" ({peer.note})" if peer.note else "")


def _comparable(line: Line) -> bool:
    """Whether a line is of a private method that finds keys itself."""
    return PEERS[line["peer"]].private and "public" not in PEERS[line["peer"]].note


COLUMNS: dict[str, tuple[str, str, bool]] = {
    # by title: the field, its form, and whether more is better
    "CPU s": ("cpu", "{:.3g}", False),
    "wall s": ("wall", "{:.3g}", False),
    "GB": ("memory", "{:.2f}", False),
    "keys": ("keys", "{:,.0f}", True),
    "missing": ("missing", "{:.1%}", False),
    "mean error": ("mean_absolute_error", "{:.3g}", False),
    "median relative error": ("median_relative_error", "{:.2%}", False),
}


def _comparison(runs: list[Line], task: str, counts: bool = True) -> str:
    """The table of a task: dpsample first, then by CPU seconds; the best of private methods that find keys in bold."""
    here = [line for line in runs if line["task"] == task and line["status"] == "done"]
    here = [line for line in here if PEERS[line["peer"]].counts == counts]
    own = next((line for line in here if line["peer"].startswith("dpsample")), None)
    here.sort(key=lambda line: (not line["peer"].startswith("dpsample"), line["cpu"]))
    users = TASKS[task].kind == "users"
    columns = {name: column for name, column in COLUMNS.items() if counts or "error" not in name}
    best = {
        name: (max if more else min)(
            (line[field] for line in here if _comparable(line) and line.get(field) is not None), default=None
        )
        for name, (field, _, more) in columns.items()
    }
    rows = []
    for line in here:
        row = [_title(line)] + ([str(line["bound"] or "–")] if users else [])
        for name, (field, form, _) in columns.items():
            text = figure(line[field], form)
            row.append(f"**{text}**" if _comparable(line) and line[field] == best[name] and text != "–" else text)
        row.append(figure(line["cpu"] / own["cpu"]) if own else "–")
        rows.append(row)
    head = ["", *(["*k*"] if users else []), *columns, "CPU, of dpsample's"]
    out = [f"### {TASKS[task].title}", table(head, rows)]
    if not here:
        return "\n\n".join([out[0], "No library has finished this task yet."])
    others = [line for line in runs if line["task"] == task and line["status"] != "done"]
    others = [line for line in others if PEERS[line["peer"]].counts == counts]
    if others:
        out.append("\n".join(item(_outcome(line)) for line in others))
    return "\n\n".join(out)


def _outcome(line: Line) -> str:
    """Why a line has no numbers, as a sentence."""
    title = PEERS[line["peer"]].title + (f", *k* = {line['bound']}" if line["bound"] else "")
    if line["status"] == "not run" and line.get("likely"):
        return f"{title}: not run; would take about {figure(line['likely'], '{:.0f}')} CPU seconds."
    if line["status"] == "not run":
        return f"{title}: not run, since the smaller task has no result."
    if line["status"] == "time limit":
        spent = f"{figure(line['cpu'], '{:.0f}')} CPU seconds and {figure(line['wall'], '{:.0f}')} wall seconds"
        return f"{title}: stopped after {spent}."
    if line["status"] == "not installed":
        return f"{title}: could not be installed."
    return f"{title}: failed: {line['error'][:150].replace('|', '/').replace('<', '&lt;')}"


def _introduction(runs: list[Line]) -> str:
    dates = sorted(line["date"] for line in runs)
    machines = sorted({line["machine"] for line in runs})
    return f"""# Side by side with other libraries

This page is made from `benchmarks/peers/results.jsonl` and `benchmarks/scaling.jsonl` by
`benchmarks/peers/page.py`. Every number was measured. `make peers` measures them again, on your machine, with each
library in an environment of its own; `make peers PEERS="opendp pydp"` takes some of them. `make comparison` makes this
page again.

- **Machine**: {"; ".join(machines)}. From {dates[0]} to {dates[-1]} UTC.
- **One run each.** All times and ratios are of one run, of one release in a process of its own, with imports and the
  start of the interpreter. Keys and errors are of one draw. Small differences mean nothing. Nothing else ran on the
  machine when the stored results were measured.
- **CPU s** and **wall s** are seconds, and **GB** is the peak memory, of the whole tree of processes.
- **keys** is the number of reported keys. **missing** is the share of elements whose key is not reported. **Errors**
  are of counts, over reported keys: absolute ones on average, and the median of relative ones. A library that reports
  more keys reports rarer ones too, whose relative errors are larger: read both columns together.
- **Bold** is the best of the private methods that find keys themselves, of those that can be run. Methods that are
  known from papers alone are not here: of MAD and MAD2R (Chen et al., 2025), and of the
  optimal selection under Rényi privacy (Harrison and Manurangsi, 2026), we found no code.
- Data are generated with a seed. There are ten elements for each key on average, with frequencies
  1 + Poisson(C *i*^−1.1).

What each ran on, in an environment of its own:

{_versions(runs)}"""


def _elements(runs: list[Line]) -> str:
    tasks = ["aggregated-7", "aggregated-6", "raw-7", "raw-6", "raw-8"]
    return "\n\n".join(
        [
            "## One element for each user",
            prose(
                "Privacy is (0.5, 1e-6). Each user has one element, so that no library needs a contribution bound.",
                "Tasks come in sizes. A library takes the next size if it is likely to stay within the time limit.",
            ),
            "![CPU seconds and reported keys of each library](images/comparison-speed.svg)",
            *(_comparison(runs, task) for task in tasks),
            "![Mean relative error by frequency](images/comparison-error.svg)",
            "![Share of reported keys by frequency](images/comparison-reported.svg)",
        ]
    )


def _users(runs: list[Line]) -> str:
    return "\n\n".join(
        [
            "## Users with several keys",
            prose(
                "Privacy is (1, 1e-6) for one user with all of their keys. *k* is the bound on the keys of each user.",
                "Libraries were run with one or two bounds, chosen by us to suit their noise; dpsample also without a",
                "bound, which is its default. Errors are to the true number of users, so they include what a bound",
                "takes away. OpenDP bounds them by `truncate_num_groups(k)`, in the order of keys. With",
                "*k* = 1 nothing is reported in the version that ran: it seems to keep fewer than *k*.",
            ),
            *(_comparison(runs, task) for task in ("few-keys", "many-keys")),
            "## Keys of users without counts",
            prose(
                "Methods of set union find keys and count nothing. Policy Laplace is the code of SmartNoise. Weighted",
                "Gaussian, DP-SIPS, Policy Gaussian and the greedy policy are dpsample's own baselines, since we found",
                "no code of their authors in the package index. Their noise is in floating point, so none is",
                "certified. The greedy policy needs no bound.",
            ),
            *(_comparison(runs, task, counts=False) for task in ("few-keys", "many-keys")),
        ]
    )


def _bound(line: Line) -> str:
    return f"(*k* = {line['bound']}) " if line["bound"] else ""


def _behind(runs: list[Line]) -> str:
    """Where another private library that finds keys is better than dpsample: whole rows, beside that of dpsample."""
    tables = []
    for task, work in TASKS.items():
        for counts in (True, False):
            here = [line for line in runs if line["task"] == task and line["status"] == "done" and _comparable(line)]
            here = [line for line in here if PEERS[line["peer"]].counts == counts]
            if task != "start":
                without = "" if counts else ", without counts"
                tables += _ahead(here, f"{work.title}{without}", counts)
    return "\n\n".join(
        [
            "## Where dpsample is not the best",
            prose(
                "Every line of the tasks above that has a better number than all lines of dpsample, in some column,",
                "and below it those of dpsample. The better numbers are bold. Read a row as a whole: few keys go with",
                "small errors, and a small median error may come with many missing elements.",
            ),
            "\n\n".join(tables) or "None.",
        ]
    )


def _ahead(lines: list[Line], title: str, counts: bool) -> list[str]:
    """A table of the lines that are better than all of dpsample in some column, and of those of dpsample."""
    columns = {name: column for name, column in COLUMNS.items() if counts or "error" not in name}
    own = [line for line in lines if _ours(line)]
    others = sorted((line for line in lines if not _ours(line)), key=lambda line: -(line["keys"] or 0))
    rows = []
    for line in others:
        better = {name for name, (field, _, more) in columns.items() if _better(line, own, field, more)}
        if better:
            rows.append(_row(line, columns, better))
    if not rows or not own:
        return []
    rows += [_row(line, columns, set()) for line in own]
    return [f"### {title}", table(["", "*k*", *columns], rows)]


def _ours(line: Line) -> bool:
    return str(line["peer"]).startswith("dpsample")


def _better(line: Line, own: list[Line], field: str, more: bool) -> bool:
    """Whether a line is better than each of ours in a column, as both are shown."""
    values = [each[field] for each in own if each[field] is not None]
    if line[field] is None or not values:
        return False
    return bool(line[field] > max(values)) if more else bool(line[field] < min(values))


def _row(line: Line, columns: dict[str, tuple[str, str, bool]], better: set[str]) -> list[str]:
    row = [_title(line), str(line["bound"] or "–")]
    for name, (field, form, _) in columns.items():
        text = figure(line[field], form)
        row.append(f"**{text}**" if name in better else text)
    return row


def _versions(runs: list[Line]) -> str:
    """What each peer ran on; several versions of a package if its lines were measured at different times."""
    ran: dict[str, dict[str, set[str]]] = {}
    for line in runs:
        packages = ran.setdefault(PEERS[line["peer"]].title, {})
        for name, number in line.get("versions", {}).items():
            packages.setdefault(name, set()).add(number)
    rows = []
    for title, packages in ran.items():
        shown = [f"{name} {' and '.join(sorted(numbers))}" for name, numbers in sorted(packages.items())]
        rows.append([title, ", ".join(shown)])
    return table(["", "packages, as they ran"], rows)


def _certificates(lines: list[Line]) -> str:
    asked = 1e-6
    rows = []
    for line in sorted(lines, key=lambda line: (line["peer"] != "dpsample", line["peer"])):
        holds = line["found"] <= asked * (1 + ROUNDING)
        rows.append(
            [
                PEERS[line["peer"]].title,
                line["law"],
                f"{line['delta']:.3g}",
                f"{line['found']:.3g}",
                f"{line['found'] / asked:.2f}",
                "yes" if holds else "**no**",
            ]
        )
    text = """## Does (ε, δ) hold?
dpsample's certifier was applied to the law that each library publishes, with the parameters that it chose for (0.5,
1e-6): the probabilities of all outcomes of one key, at frequencies 0 to 79. It finds the largest δ that a pair of
neighbouring frequencies spends. Continuous noise is looked at in cells of length 1, which can only hide something:
the δ is then a lower bound. A millionth of δ is allowed for rounding. This checks published laws. It checks neither how
random numbers are drawn nor floating point, and no contribution bound."""
    text += "\n\n" + table(["", "law", "δ it states", "δ found", "of 1e-6", "holds"], rows)
    opendp = next((line for line in lines if line["peer"] == "opendp"), None)
    if opendp:
        ratio = opendp["found"] / opendp["delta"]
        text += f"""

OpenDP publishes counts from the threshold on, and its privacy map counts those above the threshold only. The δ of one
element is therefore exp(ε) = {math.exp(0.5):.2f} times what it states; the certifier finds {ratio:.2f} times. It
is reported as issue 2922 of OpenDP. A threshold that is larger by one mends it."""
    smartnoise = next((line for line in lines if line["peer"] == "smartnoise"), None)
    if smartnoise and smartnoise["delta"] > asked:
        text += f"""

SmartNoise was given δ = 1e-6, and states a cost of {smartnoise["delta"]:.3g} for the query itself: its odometer
charges more than the law spends."""
    return text


def _starts(runs: list[Line]) -> str:
    done = [line for line in runs if line["task"] == "start" and line["status"] == "done"]
    rows = [
        [PEERS[line["peer"]].title, figure(line["cpu"]), f"{line['memory']:.2f}"]
        for line in sorted(done, key=lambda line: line["cpu"])
    ]
    return "## What it takes to start\nA release of 1,000 rows, with imports.\n\n" + table(["", "CPU s", "GB"], rows)


def _features(lines: list[Line]) -> str:
    outcomes = {line["peer"]: line["outcome"] for line in lines}
    asked = {name: title for name, title in ASKED.items() if name in outcomes}
    rows = [
        [text, *("yes" if outcomes[name].get(feature) == "yes" else "–" for name in asked)]
        for feature, text in FEATURES.items()
    ]
    lacks = [
        item(f"{text}: {', '.join(title for name, title in asked.items() if outcomes[name].get(feature) == 'yes')}")
        for feature, text in FEATURES.items()
        if outcomes.get("dpsample", {}).get(feature) != "yes"
        and any(outcomes[name].get(feature) == "yes" for name in asked)
    ]
    tried = [
        item(f"{asked[name]}, {FEATURES[feature]}: {outcome[:100].replace('|', '/').replace('<', '&lt;')}")
        for name in asked
        for feature, outcome in outcomes[name].items()
        if outcome != "yes"
    ]
    head = "## What each can do\n" + prose(
        "Each *yes* is a snippet in `benchmarks/peers/features` that ran. A dash means that we found no way, or that",
        "the snippet ended with an error. Our knowledge of a library may end there: correct us with a snippet.",
    )
    return "\n\n".join(
        [
            head,
            table(["", *asked.values()], rows),
            "### What others have and dpsample lacks\n" + "\n".join(lacks),
            prose(
                "dpsample makes one kind of release: keys with counts, and rows and sums of their users. Sums need",
                "`user`. For general queries of a table, statistics of values without keys, SQL, joins and models,",
                "take one of the others. OpenDP and Tumult also let you compose mechanisms of your own with a proof;",
                "dpsample does not. PipelineDP also runs on Beam and Spark and has tighter accounting,",
                "with packages that we did not install; SmartNoise also runs in the database.",
            ),
            "### Snippets that ended with an error\n" + "\n".join(tried) if tried else "",
        ]
    ).rstrip()


def _absent(results: list[Line]) -> str:
    known = {(line["kind"], line.get("peer"), line.get("task")) for line in results}
    items = [
        f"{line['environment']} could not be installed: {line['error'][:150]}"
        for line in results
        if line["kind"] == "install" and line["status"] == "failed"
    ]
    for name, peer in PEERS.items():
        left = [task for task in peer.tasks if ("run", name, task) not in known]
        if left:
            items.append(f"{peer.title}: not run yet: {', '.join(left)}. `make peers PEERS={name}` runs them.")
    for name, title in ASKED.items():
        if ("features", name, None) not in known:
            items.append(
                f"{title}: the snippets of features have not been run yet. `make peers PEERS={name}` runs them."
            )
    items += [
        "Clusters: Spark runs on the processors of one machine.",
        "What a library does on data of another shape. Keys here are integers, and frequencies have a heavy tail.",
    ]
    return "\n".join(["## What is not here", *map(item, items)])


def write() -> None:
    """Write the page and its charts."""
    results, scaling = stored(HERE / "results.jsonl"), stored(HERE.parent / "scaling.jsonl")
    PAGE.write_text(page(results, scaling), encoding="utf-8")
    for name, svg in charts(results, scaling, draw=True).items():
        (IMAGES / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    write()
