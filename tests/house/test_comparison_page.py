"""docs/comparison.md and its charts are what the stored results make: no number there is typed in by hand."""

import json
import math
import subprocess
import sys
from collections.abc import Iterator

import pytest

from places import ROOT

PEERS = ROOT / "benchmarks" / "peers"


@pytest.fixture(scope="module")
def _peers_on_path() -> Iterator[None]:
    sys.path.insert(0, str(PEERS))
    yield
    sys.path.remove(str(PEERS))


@pytest.mark.usefixtures("_peers_on_path")
class TestPage:
    def test_page_and_charts_are_made_from_the_results(self) -> None:
        import charts
        import page

        results = page.stored(PEERS / "results.jsonl")
        scaling = page.stored(PEERS.parent / "scaling.jsonl")
        assert page.PAGE.read_text(encoding="utf-8") == page.page(results, scaling), "run: make comparison"
        for name, comment in charts.charts(results, scaling, draw=False).items():
            assert (page.IMAGES / f"{name}.svg").read_text(encoding="utf-8").startswith(comment), "run: make comparison"

    def test_versions_are_those_on_which_each_peer_ran(self) -> None:
        """SmartNoise brings an OpenDP of its own: what it ran on is no version of OpenDP's own lines."""
        import page
        from registry import PEERS as ALL

        results = page.stored(PEERS / "results.jsonl")
        runs = [line for line in results if line["kind"] == "run"]
        text = page.page(results, [])
        for line in runs:
            row = next(row for row in text.splitlines() if row.startswith(f"| {ALL[line['peer']].title} | "))
            for name, number in line.get("versions", {}).items():
                assert f"{name} {number}" in row
        assert "| OpenDP, dict | opendp 0.16.0, " in text
        assert "| SmartNoise SQL | opendp 0.14.2, " in text

    def test_versions_are_those_that_the_requirements_pin(self) -> None:
        import page
        from registry import OWN
        from registry import PEERS as ALL

        for line in page.stored(PEERS / "results.jsonl"):
            if line["kind"] != "run" or "versions" not in line or ALL[line["peer"]].environment == OWN:
                continue
            pins = (PEERS / "requirements" / f"{ALL[line['peer']].environment}.txt").read_text(encoding="utf-8").split()
            for name, number in line["versions"].items():
                assert name == "python" or f"{name}=={number}" in [pin.replace("_", "-") for pin in pins], name

    def test_whole_rows_stand_where_dpsample_is_not_the_best(self) -> None:
        import page

        text = page.page(page.stored(PEERS / "results.jsonl"), [])
        behind = text[text.index("## Where dpsample is not the best") : text.index("## Does (")]
        tables = behind.split("\n### ")[1:]
        assert len(tables) > 4
        for each in tables:
            head, _, *rows = [line for line in each.splitlines() if line.startswith("|")]
            assert "| keys | missing |" in head
            assert ("mean error" in head) == ("without counts" not in each.splitlines()[0])
            ours = [row for row in rows if row.startswith("| dpsample")]
            assert ours == rows[-len(ours) :]
            assert not any("**" in row for row in ours)
            assert all("**" in row for row in rows[: -len(ours)])

    def test_best_is_of_what_can_be_run(self) -> None:
        import page

        text = page.page(page.stored(PEERS / "results.jsonl"), [])
        assert "of those that can be run" in " ".join(text.split())

    def test_another_number_makes_another_page(self) -> None:
        import page

        results, scaling = page.stored(PEERS / "results.jsonl"), page.stored(PEERS.parent / "scaling.jsonl")
        before = page.page(results, scaling)
        own = next(
            line for line in results if line["kind"] == "run" and (line["peer"], line["task"]) == ("dpsample", "raw-6")
        )
        own["keys"] += 1
        assert page.page(results, scaling) != before

    def test_every_table_of_a_task_has_dpsample(self) -> None:
        import page

        results = page.stored(PEERS / "results.jsonl")
        done = {(line["peer"], line["task"]) for line in results if line["kind"] == "run" and line["status"] == "done"}
        assert {task for _, task in done} == {task for peer, task in done if peer == "dpsample"}

    def test_every_adapter_and_requirement_of_a_peer_exists(self) -> None:
        from registry import OWN
        from registry import PEERS as ALL

        for peer in ALL.values():
            assert (PEERS / "adapters" / f"{peer.adapter}.py").exists()
            assert peer.environment == OWN or (PEERS / "requirements" / f"{peer.environment}.txt").exists()


@pytest.mark.usefixtures("_peers_on_path")
class TestLaws:
    def test_discrete_laplace_with_a_threshold_spends_the_tail_of_one_element(self) -> None:
        """P[1 + noise >= T] = a^(T - 1) / (1 + a), in closed form; a strict threshold at T - 1 is the same law."""
        from laws import geometric_threshold, spent

        a, threshold = math.exp(-0.5), 27
        assert spent(geometric_threshold(2.0, threshold), 0.5) == pytest.approx(
            a ** (threshold - 1) / (1 + a), rel=1e-9
        )

    def test_continuous_laplace_with_a_threshold_spends_the_tail_of_one_element(self) -> None:
        from laws import laplace_threshold, spent

        assert spent(laplace_threshold(2.0, 27.0), 0.5) == pytest.approx(math.exp(-26 / 2) / 2, rel=1e-9)

    def test_too_small_a_scale_spends_delta_at_every_frequency(self) -> None:
        """From the threshold on, P_r(j) / P_{r-1}(j) is exp(1 / s) for j >= r: in closed form, far above the tail."""
        from laws import geometric_threshold, spent

        a = math.exp(-1 / 1.98)
        expected = (1 - math.exp(0.5) * a) / (1 + a)
        assert spent(geometric_threshold(1.98, 60), 0.5) == pytest.approx(expected, rel=1e-6)


@pytest.mark.chance("certain: no dpsample runs in the process")
def test_the_tree_of_processes_is_measured_whole() -> None:
    """A grandchild that outlives its parent counts: its CPU seconds and its memory."""
    busy = "end = time.process_time() + 0.6\nwhile time.process_time() < end: pass"
    grandchild = f"import time; x = bytearray(200 * 2**20); {busy}"
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {grandchild!r}])"
    command = [sys.executable, str(PEERS / "measure.py"), "60", sys.executable, "-c", child]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["status"] == "done"
    assert found["cpu"] > 0.6
    assert found["memory"] > 0.15


@pytest.mark.chance("certain: no dpsample runs in the process")
def test_a_command_beyond_its_limit_is_stopped() -> None:
    command = [sys.executable, str(PEERS / "measure.py"), "0.5", sys.executable, "-c", "while True: pass"]
    assert (
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["status"] == "time limit"
    )
