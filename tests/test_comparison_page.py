"""docs/comparison.md and its charts are what the stored results make: no number there is typed in by hand."""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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
