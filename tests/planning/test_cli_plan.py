"""The command `plan`, as a user runs it."""

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
import support
from dpsample import Privacy
from dpsample.planning.forecast import forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from planned import run

# the command


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """300 users on each of 20 pages, and a page of each user's own, with a secret in its name."""
    who = [u for u in range(300) for _ in range(21)]
    pages = [f"page {p}" if p < 20 else f"secret-{u}" for u in range(300) for p in range(21)]
    pq.write_table(pa.table({"who": who, "page": pages}), tmp_path / "clicks.parquet")
    return tmp_path


def test_a_plan_without_data() -> None:
    lines = run("--zipf", "1", "--keys", "1000", "-e", "0.5,1", "-e", "1", "-d", "1e-6").splitlines()
    assert "private" not in lines[0]
    assert [line.split()[0] for line in lines if " PWS " in line and line.startswith(" ")] == ["0.5", "1"]
    assert lines[-1] == "Next: dpsample release EVENTS --key KEY --epsilon 1 --delta 1e-06 -o OUTPUT.private.parquet"
    assert max(map(len, lines)) <= 120
    assert max(len(line) for line in lines if line.startswith(" ")) <= 100
    for column in ("of elements", "threshold", "total +-", "selection +-", "sample and threshold"):
        assert any(line.startswith(column) for line in lines)


def test_a_plan_as_json_is_what_the_library_says() -> None:
    told = json.loads(
        run("--zipf", "1", "--keys", "1000", "-e", "1", "-d", "1e-6", "--share", "0.2", "--format", "json")
    )
    assert "NOT private" not in told
    expected = forecast(Frequencies.zipf(1, 1000), Setting(Privacy(1, "1e-6")), 0.2).to_json()
    assert told["forecasts"] == [json.loads(json.dumps(expected))]


def test_a_plan_of_data_says_loudly_that_it_is_not_private(clicks: Path) -> None:
    source = [str(clicks / "clicks.parquet"), "--key", "page"]
    lines = run(*source, "--epsilon", "1").splitlines()
    assert lines[0] == lines[-1]
    assert lines[0].startswith("NOT PRIVATE")
    assert "secret" not in "".join(lines)
    assert any("delta was chosen by the number of elements" in line for line in lines)
    assert "delta 1e-05, for each element" in lines[2]  # 6,300 elements
    told = json.loads(run(*source, "--epsilon", "1", "--format", "json"))
    assert next(iter(told)) == "NOT private"
    assert told["forecasts"][0]["private_input"] is True
    pages = next(m for m in told["forecasts"][0]["methods"] if m["method"] == "PWS")
    assert pages["keys"] == pytest.approx(20 + 300 * 1e-5, rel=1e-6)  # a single element shows with probability delta


@pytest.mark.chance("certain: a release's terms do not depend on what is drawn")
def test_the_suggested_command_runs_and_does_what_was_planned(clicks: Path) -> None:
    users = ["--user", "who", "--max-keys-per-user", "21", "--delta", "1e-7", "--goal", "keys>=20"]
    scheme = ["--scheme", "priority", "--sample-size", "6000", "--with-total"]
    told = json.loads(run(str(clicks / "clicks.parquet"), "-k", "page", *users, *scheme, "--format", "json"))
    [planned] = told["forecasts"]
    words = shlex.split(told["release"])
    assert words[:2] == ["dpsample", "release"]
    made = str(clicks / "made.parquet")
    words[words.index("OUTPUT.private.parquet")] = made
    done = support.run(*words[1:], cwd=clicks)
    assert done.returncode == 0, done.stderr
    release = dpsample.read_release(made)
    assert release.privacy.to_json() == {"epsilon": planned["epsilon"], "delta": planned["delta"]}
    assert release.per_key.to_json() == planned["per_key"]
    assert (release.unit, release.total is not None) == ("user", True)


@pytest.mark.chance("certain: numbers of kept keys do not depend on which")
def test_a_plan_for_users_has_a_table_for_each_limit(clicks: Path) -> None:
    told = run(str(clicks / "clicks.parquet"), "-k", "page", "--user", "who", "--max-keys-per-user", "3,21", "-e", "1")
    assert "up to 3 keys" in told
    assert "up to 21 keys" in told
    assert "320 keys with 6,300 elements" in told
    assert "with 900 elements" in told


def test_a_histogram_is_as_private_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("frequency,keys\n3,600\n100,20\n")
    lines = run(
        "--histogram", str(tmp_path / "h.csv"), "-e", "1", "--scheme", "ppswor", "--tau", "0.1,0.01"
    ).splitlines()
    assert "If the histogram comes from private data" in lines[0]
    assert lines[0] == lines[-1]
    assert sum("ppswor with tau" in line for line in lines) == 2
    assert any(line.lstrip().startswith("not private") for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--zipf", "1"],
        ["--zipf", "nan", "--keys", "5"],
        ["--zipf", "1", "--keys", "5", "--histogram", "h.csv"],
        ["--zipf", "1", "--keys", "5", "--key", "page"],
        ["--histogram", "h.csv", "--keys", "5"],
        ["--histogram", "missing.csv"],
        ["clicks.parquet"],
        ["clicks.parquet", "--key", "nothing"],
        ["clicks.parquet", "--key", "page", "--max-keys-per-user", "5"],
        ["clicks.parquet", "--key", "page", "--goal", "keys>=400"],
        ["clicks.parquet", "--key", "page", "--goal", "keys>=4", "-e", "1"],
        ["--zipf", "1", "--keys", "5", "-e", "1,x"],
        ["--zipf", "1", "--keys", "5", "-e", "1,"],
        ["--zipf", "1", "--keys", "5", "-d", "0"],
        ["--zipf", "1", "--keys", "5", "--tau", "0.1"],
        ["--zipf", "1", "--keys", "5", "--scheme", "ppswor"],
        ["--zipf", "1", "--keys", "5", "--scheme", "ppswor", "--sample-size", "x"],
        ["--zipf", "1", "--keys", "5", "--share", "2"],
        ["--zipf", "1", "--keys", "5", "--goal", "wealth>=1"],
    ],
    ids=" ".join,
)
@pytest.mark.chance("certain: plans are refused before anything is drawn")
def test_bad_plans_are_one_line_and_exit_code_2(arguments: list[str], clicks: Path) -> None:
    done = support.run("plan", *arguments, cwd=clicks)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip()
    for hidden in ("Traceback", "secret", *(["300", "320", "6300", "6,300"] if "clicks.parquet" in arguments else [])):
        assert hidden not in done.stderr
