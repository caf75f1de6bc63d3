"""The page of a plan without a browser: its numbers are the library's, and one of private data says so."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dpsample import Ppswor, Privacy, SampleSize
from dpsample.cli import cli
from dpsample.comparison.reporting_curve import curve_at
from dpsample.planning import Grid, Plan, Setting, explore, forecast
from dpsample.planning.charts import charts
from dpsample.planning.content import content
from dpsample.planning.page import check_page
from dpsample.planning.plan import HISTOGRAM, PRIVATE
from explorers import ZIPF, forecasts, number, one_key_each
from support import refused

pytestmark = pytest.mark.chance("certain: a plan and a release's terms do not depend on what is drawn")

GRID = Grid(["1", "0.5"], ["1e-6", "1e-8"], [Ppswor("0.01"), SampleSize(100)])


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["explore", *arguments])


def shown_by(plan: Plan) -> dict[str, Any]:
    """The data of the page of a plan."""
    return content(plan)


def data_of(page: str) -> dict[str, Any]:
    """The data that a page's script reads."""
    [found] = re.findall(r'<script type="application/json" id="plan">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(found)
    return data


def test_every_forecast_is_at_its_position_with_its_own_numbers() -> None:
    made = forecasts(GRID)
    shown = shown_by(Plan(made))
    assert shown["axes"] == {
        "epsilon": ["0.5", "1"],
        "delta": ["1e-08", "1e-06"],
        "sampling": ["ppswor with tau 0.01", "ppswor, about 100 keys"],
        "users": ["no bound"],
    }
    assert len(shown["forecasts"]) == len(made) == 8
    for sampling, size in ((Ppswor("0.01"), None), (None, SampleSize(100))):
        setting = Setting(Privacy("0.5", "1e-8"), **({"sampling": sampling} if sampling else {"size": size}))
        found = forecast(ZIPF, setting, 0.1)
        label = shown["axes"]["sampling"][sampling is None]
        there = shown["forecasts"][f"0.5|1e-08|{label}|no bound"]
        keys, of_keys, of_elements, threshold, total, selection = map(number, there["facts"])
        assert keys == pytest.approx(found.pws.keys, abs=0.5)
        assert of_keys == pytest.approx(found.pws.share_of_keys, rel=0.0051)
        assert of_elements == pytest.approx(found.pws.share_of_elements, rel=0.0051)
        assert threshold == found.pws.detection_threshold
        assert total == pytest.approx(found.pws.nrmse, rel=0.0051)
        assert selection == pytest.approx(found.pws.selection_nrmse, rel=0.0051)
        assert [row[0] for row in there["rows"]] == [method.method for method in found.methods]
        assert "--epsilon 0.5 --delta 1e-08" in there["command"]


def test_charts_show_the_same_numbers() -> None:
    made = forecasts(GRID)
    placed = charts(Plan(made))
    sampling = "ppswor with tau 0.01"
    [found] = [
        one for one in made if one.setting.privacy == Privacy(1, "1e-6") and one.setting.sampling == Ppswor("0.01")
    ]
    keys, errors = (one.chart for one in placed if one.position == f"|1e-06|{sampling}|no bound")
    for method, keys_line, errors_line in zip(found.methods, keys.lines, errors.lines, strict=True):
        assert keys_line.name == errors_line.name == method.method
        assert [point.x for point in keys_line.points] == [0.5, 1.0]
        assert keys_line.points[-1].y == pytest.approx(method.keys, rel=1e-3)
        assert errors_line.points[-1].y == pytest.approx(method.selection_nrmse, rel=1e-3)
    [curve] = [one for one in placed if one.position == f"1|1e-06|{sampling}|no bound"]
    ours = next(line for line in curve.chart.lines if line.name == "PWS")
    frequencies = [int(point.x) for point in ours.points]
    drawn = curve_at(frequencies, found.sampling, found.setting.per_key)  # type: ignore[arg-type]
    assert [point.y for point in ours.points] == pytest.approx(drawn.pws, abs=1e-4)
    assert "sampling alone, not private" in curve.heads
    assert {tuple(row) for row in curve.rows} <= {
        (f"{x:,}", *(f"{line.points[n].y:,.4g}" for line in curve.chart.lines)) for n, x in enumerate(frequencies)
    }


def test_each_position_has_its_charts() -> None:
    """Each forecast has a curve, and shares the charts by epsilon with those that differ in epsilon alone."""
    plan = Plan(forecasts(GRID))
    positions = [one.position for one in charts(plan)]
    for position in shown_by(plan)["forecasts"]:
        _, *others = position.split("|")
        assert positions.count(position) == 1
        assert positions.count("|".join(["", *others])) == 2
    assert len(positions) == 8 + 2 * 4
    ids = re.findall(r' id="([^"]*)"', explore(plan).html)
    assert len(ids) == len(set(ids))


def test_a_plan_starts_at_what_is_recommended() -> None:
    plan = Plan(forecasts(GRID))
    start = shown_by(plan)["start"]
    privacy = plan.recommended.setting.privacy
    assert (start["epsilon"], start["delta"]) == (f"{float(privacy.epsilon):g}", "1e-08")


def test_a_page_of_private_data_says_so(tmp_path: Path) -> None:
    plan = Plan(forecasts(Grid(["1"], ["1e-6"]), private=True))
    page = explore(plan)
    assert repr(page) == "Page(NOT private); write(path) saves it"
    assert "<title>NOT PRIVATE: " in page.html
    assert page.html.count(PRIVATE) == 2
    for name in ("plan.html", "private.html"):
        check_page(tmp_path / name, private=False)
        with refused("its name must say so"):
            page.write(tmp_path / name)
    with refused("must end with .html"):
        page.write(tmp_path / "not-private.parquet")
    with refused("its name must say so"):  # another warning does not make it public
        explore(replace(plan, warning="Look out.")).write(tmp_path / "plan.html")
    path = tmp_path / "Plan.NOT-private.html"
    page.write(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_page_of_public_data_may_have_any_name(tmp_path: Path) -> None:
    page = explore(Plan(forecasts(Grid(["1"], ["1e-6"]))))
    assert "NOT PRIVATE" not in page.html
    page.write(tmp_path / "plan.html")
    with refused(""):
        page.write(tmp_path / "plan.html")
    page.write(tmp_path / "plan.html", force=True)


def test_nothing_runs_but_the_pages_own_scripts() -> None:
    hostile = Plan(forecasts(Grid(["1"], ["1e-6"])), described="</script><img src=x onerror=alert(1)>")
    page = explore(hostile).html
    assert "<img src=x" not in page
    assert "connect-src &#x27;none&#x27;" in page
    elements = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"<[^>]* (on\w+|style)=", elements)


def test_the_command_writes_what_plan_prints(tmp_path: Path) -> None:
    """Of users with one key each, so that numbers do not depend on the order in which keys are given."""
    pq.write_table(one_key_each(), tmp_path / "clicks.parquet")
    source = [str(tmp_path / "clicks.parquet"), "-k", "k", "--user", "u", "--threads", "1"]
    output = str(tmp_path / "plan.not-private.html")
    for bound in ([], ["--max-keys-per-user", "1,2"]):
        options = [*source, *bound, "-e", "0.5,1"]
        done = run(*options, "-o", output, "--force")
        written = 2 * max(len(bound), 1)
        assert (done.exit_code, done.output) == (0, f"Wrote {output}: {written} forecasts, NOT private.\n")
        planned = CliRunner().invoke(cli, ["plan", *options]).output.splitlines()
        shown = data_of(Path(output).read_text())
        for there in shown["forecasts"].values():
            for row in there["rows"]:
                assert any(all(cell in line for cell in row) for line in planned), row
        commands = [there["command"] for there in shown["forecasts"].values()]
        assert planned[-2].removeprefix("Next: ") in commands


def test_a_histogram_is_as_private_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("frequency,keys\n3,600\n100,20\n")
    done = run("--histogram", str(tmp_path / "h.csv"), "-e", "1", "-o", str(tmp_path / "plan.html"))
    assert done.exit_code == 0, done.output
    page = (tmp_path / "plan.html").read_text()
    assert page.count(HISTOGRAM) == 2
    assert "The histogram h.csv: " in page


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--zipf", "1"],
        ["--zipf", "-1", "--keys", "10"],
        ["missing.parquet"],
        ["missing.parquet", "--key", "k", "-o", "plan.html"],
        ["--histogram", "no.csv"],
        ["--zipf", "1", "--keys", "10", "--epsilon", "0"],
        ["--zipf", "1", "--keys", "10", "--delta", "2"],
        ["--zipf", "1", "--keys", "10", "--tau", "1"],
        ["--zipf", "1", "--keys", "10", "--share", "0"],
        ["--zipf", "1", "--keys", "10", "-o", "plan.parquet"],
        ["--zipf", "1", "--keys", "10", "--goal", "keys>=5"],
        ["--zipf", "1", "--keys", "10", "--max-keys-per-user", "0"],
    ],
    ids=" ".join,
)
def test_bad_options_are_refused_and_nothing_is_written(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("-o", "x.not-private.html", *arguments)
    assert done.exit_code != 0
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_private_data_are_no_part_of_a_refusal(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["secret"] * 31337}), tmp_path / "t.parquet")
    done = run(str(tmp_path / "t.parquet"), "-k", "k", "-o", str(tmp_path / "plan.html"))
    assert "31337" not in done.output
    assert "its name must say so" in str(done.exception)
