"""The demo: what it shows is what the releases hold, and what it keeps is where it says."""

from pathlib import Path

import pyarrow as pa
import pytest

from dpsample import read_release
from dpsample.cli import demo
from support import run

OFTEN, TIMES, FILES = [f"often{n}" for n in range(6)], 13, 400


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words in place of the standard library: six are in each of 400 files, and one occurs once."""
    often = [(word, f"{n}.py") for n in range(FILES) for word in OFTEN for _ in range(TIMES)]
    word, file = zip(*often, ("rareword", "0.py"), strict=True)
    table = pa.table({"word": word, "file": pa.array(file).dictionary_encode()})
    monkeypatch.setattr(demo, "standard_library", lambda: table)


@pytest.mark.usefixtures("words", "fixed_coins")  # else a look at files errs once in 400 times, and no word is found
def test_the_story_is_that_of_the_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    done = run("demo", "-o", "kept", "--open", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rareword                  1   <- written once, in 0.py" in done.stdout
    kept = tmp_path / "kept"
    assert {path.name for path in kept.iterdir()} == {demo.WORDS, demo.FILES, demo.PAGE}
    by_word, by_file = (read_release(kept / name) for name in (demo.WORDS, demo.FILES))
    assert (by_word.unit, by_file.unit) == ("element", "user")
    for release, true in ((by_word, TIMES * FILES), (by_file, FILES)):
        assert f"{len(release):,} words are reported" in done.stdout
        first = max(release.table.to_pylist(), key=lambda row: row["estimate"])
        shown = [line.split()[1:5] for line in done.stdout.splitlines() if line.endswith(f" {true:,}")]
        assert [f"{first['estimate']:,.0f}", f"{first['low']:,.0f}", "to", f"{first['high']:,.0f}"] in shown
    assert "The truth is 6: inside." in done.stdout
    assert "Proved: epsilon 1, delta 1e-07 for each element, at every frequency (dpsample verify)." in done.stdout
    assert "that the file was drawn on them is vouched for by dpsample." in done.stdout
    assert opened == [(kept / demo.PAGE).as_uri()]
    assert len(done.stdout.splitlines()) < 55
