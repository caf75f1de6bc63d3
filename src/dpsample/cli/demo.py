"""dpsample demo: a plain count that leaks, and private releases of the same data beside the truth.

The data are the identifiers of Python's own standard library. They are public, so the demo may show the truth.
"""

import re
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from dpsample.answers.release import Release, read_release
from dpsample.cli.standard_library import standard_library
from dpsample.lazy import pc
from dpsample.privacy import Privacy
from dpsample.private.run import release_to_file
from dpsample.release.explain import VOUCHED, explain_spent, sentence
from dpsample.release.proof import prove_release

WORDS, FILES, PAGE = "demo-words.private.parquet", "demo-files.private.parquet", "demo-report.html"
_SHOWN = (1, 2, 10, 100, 1000, 10_000)  # ranks, by estimate, of the rows that are shown
_OFTEN = 100  # occurrences of a word that the question calls often
_RARE = re.compile(r"[a-z]{8,14}")


def demo(folder: Path, show: Callable[[str], object]) -> Path:
    """Tell the story, and keep its two releases and its page in a folder; return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    show(
        "Reading the sources of Python's standard library: public data, so that the truth can be shown ...\n"
    )
    elements = standard_library()
    words = _counted(elements)
    files = _counted(elements.group_by(["word", "file"]).aggregate([]))
    for line in _plain(elements, words):
        show(line)
    of_words = _released(folder / WORDS, elements, None)
    show(
        f"\n2. A private release protects each occurrence of a word ({explain_spent(of_words.privacy)})\n"
    )
    for line in _beside(of_words, words, "count"):
        show(line)
    show(_hidden(of_words, words))
    of_files = _released(folder / FILES, elements, "file")
    show("\n3. The same with files as users: each file is protected, with all of its words\n")
    average = sum(files.values()) / len(elements["file"].unique())
    show(
        f"   A file has {average:,.0f} words. To hide them all leaves fewer words, with wider intervals.\n"
    )
    for line in _beside(of_files, files, "files"):
        show(line)
    show(f"\n4. A question: how many words occur {_OFTEN} times or more?\n")
    show(_answered(of_words, words))
    show("\n5. The certificate, in exact arithmetic, without the data\n")
    show(f"   {_proved(of_words)}")
    show(f"\nKept in {folder}: the releases {WORDS} and {FILES}")
    return _page(of_words, folder, show)


def _counted(rows: pa.Table) -> dict[str, int]:
    """Return the number of rows of each word."""
    counted = rows.group_by("word").aggregate([([], "count_all")])
    words = counted["word"].to_pylist()
    counts = counted["count_all"].to_pylist()
    return dict(zip(words, counts, strict=True))


def _released(path: Path, elements: pa.Table, user: str | None) -> Release:
    """Release the words, with this column as users if there is one; return the release."""
    privacy = Privacy(epsilon=1, delta=1e-7)
    release_to_file(path, elements, "word", user=user, privacy=privacy, force=True)
    return read_release(path)


def _plain(elements: pa.Table, truth: dict[str, int]) -> Iterator[str]:
    """Show the plain count of words: the most frequent ones, and a rare one with the only file that has it."""
    once = [word for word, count in truth.items() if count == 1]
    lower_case = filter(_RARE.fullmatch, once)
    rare = max(lower_case, key=lambda word: (len(word), word))
    its_rows = elements.filter(pc.equal(elements["word"], rare))
    file = its_rows["file"][0].as_py()
    by_count = sorted(truth, key=lambda word: -truth[word])
    yield "1. A plain GROUP BY of all words leaks\n"
    yield f"   {'word':<16} {'count':>10}"
    for word in by_count[:2]:
        yield f"   {word:<16} {truth[word]:>10,}"
    yield "   ..."
    yield f"   {rare:<16} {1:>10}   <- written once, in {file}"
    yield f"   {len(once):,} of {len(truth):,} words occur once: each row exposes whoever wrote it."


def _beside(release: Release, truth: dict[str, int], counted: str) -> Iterator[str]:
    """Show some rows of a release beside the truth, and how often its intervals hold."""
    rows = release.table.sort_by([("estimate", "descending")]).to_pylist()
    title = f"true {counted}"
    yield f"   {'word':<16} {'estimate':>10}   {'95 % interval':^21}   {title:>11}"
    for place in _SHOWN:
        if place <= len(rows):
            yield _row(rows[place - 1], truth)
    holds = [row["low"] <= truth[row["word"]] <= row["high"] for row in rows]
    share = sum(holds) / len(rows)
    yield f"   {len(rows):,} words are reported. The interval holds the truth for {share:.1%} of them."


def _row(row: dict[str, Any], truth: dict[str, int]) -> str:
    word, estimate = row["word"], row["estimate"]
    interval = f"{row['low']:>9,.0f} to {row['high']:<9,.0f}"
    return f"   {word:<16.16} {estimate:>10,.0f}   {interval:<21}   {truth[word]:>11,}"


def _hidden(release: Release, truth: dict[str, int]) -> str:
    """State how many words are reported that occur once."""
    reported = release.table["word"].to_pylist()
    once = [word for word in reported if truth[word] == 1]
    return f"   Of the words that occur once, {len(once) or 'none'} is reported."


def _answered(release: Release, truth: dict[str, int]) -> str:
    """Answer the question by the release, beside the truth."""
    answer = release.count_keys(at_least=_OFTEN)
    true = len([word for word, count in truth.items() if count >= _OFTEN])
    held = "inside" if answer.low <= true <= answer.high else "outside, as happens once in 20 times"
    return (
        f"   {answer.value:,.0f} words; with 95 % probability from {answer.low:,.0f} to {answer.high:,.0f}. "
        f"The truth is {true:,}: {held}."
    )


def _proved(release: Release) -> str:
    """State what is proved of the release."""
    proof = prove_release(release.terms)  # it raises if there is none
    covered = "at every frequency" if proof.complete else "at the frequencies that were checked"
    proved = f"Proved: {explain_spent(release.privacy)} for each {release.unit}, {covered} (dpsample verify)."
    return f"{proved}\n   {sentence(VOUCHED)}"


def _page(release: Release, folder: Path, show: Callable[[str], object]) -> Path:
    path = folder / PAGE
    release.report(path, force=True, title="Words of Python's standard library", name=WORDS)
    show(f"The page for anybody to read: {path}")
    return path


@click.command("demo")
@click.option(
    "--output",
    "-o",
    default="dpsample-demo",
    show_default=True,
    help="Folder for its releases and its page, demo-*; a later demo replaces them.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def demo_command(output: str, opens: bool) -> None:
    """Show, on public data, what a plain count gives away and what a private release shows.

    \b
    Example:
      dpsample demo --open
    """
    page = demo(Path(output), click.echo)
    click.echo(
        "Your own data: dpsample release events.parquet --key query --epsilon 1 --delta 1e-8 -o queries.parquet"
    )
    if opens:
        webbrowser.open(page.absolute().as_uri())
