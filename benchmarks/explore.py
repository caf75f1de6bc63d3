"""How soon the explorer's page follows a slider, in a real browser: from the input event until the page has changed.

`seen` are the keys, shares and the lowest visible frequency, `curve` is the chart, `errors` are those of PWS, and
`others` the other methods. Steps are of one place, with a quarter of a second between them; jumps go anywhere, to
places that nobody has been at, at once when all is shown; `small` ones have an epsilon of up to 0.2. Needs Chromium.

    python benchmarks/explore.py --keys 100000
    python benchmarks/explore.py --how 0 3 4 --users 20
    python benchmarks/explore.py --spread 4
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync")
PARTS = ("seen", "curve", "errors", "others")
MOVE = """([slider, value]) => new Promise((resolve) => {
  const body = document.body, next = String(Number(body.dataset.seen) + 1), took = {};
  const place = document.getElementById(slider), start = performance.now();
  const look = () => {
    for (const part of ["seen", "curve", "errors", "others"])
      if (body.dataset[part] === next && took[part] === undefined) took[part] = performance.now() - start;
    if (Object.keys(took).length === 4) { watch.disconnect(); resolve(took); }
  };
  const watch = new MutationObserver(look);
  watch.observe(body, { attributes: true });
  place.value = value;
  place.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zipf", type=float, default=1.0)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--spread", type=float, help="instead, log-normal ones with this deviation: many frequencies")
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--how", type=int, nargs="*", default=[0, 1], help="places of the choice of sampling")
    parser.add_argument("--users", help="keys per user, instead of none")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("not measured, since there is no Chromium")
        return
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "dpsample", "explore", "--no-browser", "--delta", "1e-8"]
    command += ["--max-keys-per-user", options.users] if options.users else []
    folder = tempfile.TemporaryDirectory(prefix="dpsample-")
    if options.spread is None:
        command += ["--zipf", str(options.zipf), "--keys", str(options.keys)]
    else:
        command += ["--histogram", spread(options.spread, options.keys, Path(folder.name))]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(line for line in server.stdout if line.startswith("Open ")).split()[-1]
        with sync_playwright() as driver:
            tab = driver.chromium.launch(executable_path=chromium, args=list(FLAGS)).new_page()
            start = time.perf_counter()
            tab.goto(address)
            tab.wait_for_function("() => document.body.dataset.others && document.body.dataset.curve")
            print(f"opened: {time.perf_counter() - start:.2f} s until all is shown")
            names = tab.eval_on_selector_all("#how option", "all => all.map(each => each.textContent)")
            for how in options.how:
                tab.select_option("#how", str(how))
                time.sleep(1)
                steps(tab, options.moves, f"{names[how]}, steps")
                jumps(tab, options.moves, f"{names[how]}, jumps")
                jumps(tab, options.moves, f"{names[how]}, small", "0.2")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
        folder.cleanup()


def spread(deviation: float, keys: int, folder: Path) -> str:
    """Write a histogram with many frequencies, which is not private."""
    frequencies = np.exp(np.random.default_rng(1).normal(6, deviation, keys)).clip(1, 1e15).astype(np.int64)
    values, counts = np.unique(frequencies, return_counts=True)
    path = folder / "histogram.json"
    path.write_text(json.dumps({"frequency": values.tolist(), "keys": counts.tolist()}))
    print(f"{len(values):,} frequencies")
    return str(path)


def steps(tab: Any, moves: int, name: str) -> None:
    """A slider goes to and fro by one place, mostly on."""
    generator, took = random.Random(1), []
    for n in range(moves):
        slider = "delta" if n % 4 == 3 else "epsilon"
        at, last = place_of(tab, slider)
        way = (1 if n // 8 % 2 else -1) if slider == "epsilon" else generator.choice([1, -1])
        took.append(tab.evaluate(MOVE, [slider, str(at + way if 0 <= at + way <= last else at - way)]))
        time.sleep(0.25)
    tell(name, took)


def jumps(tab: Any, moves: int, name: str, largest: str = "") -> None:
    """A slider goes anywhere, or to an epsilon up to the largest, to places that nobody has been at."""
    generator, took = random.Random(2 if not largest else 3), []
    labels = tab.evaluate("() => window.dpsample.data('choices').labels")
    last = labels["epsilon"].index(largest) if largest else len(labels["epsilon"]) - 1
    places = generator.sample([(e, d) for e in range(last + 1) for d in range(len(labels["delta"]))], moves)
    for e, d in places:
        tab.evaluate(MOVE, ["delta", str(d)])
        took.append(tab.evaluate(MOVE, ["epsilon", str(e)]))
    tell(name, took)


def place_of(tab: Any, slider: str) -> tuple[int, int]:
    at, last = tab.evaluate("id => [document.getElementById(id).value, document.getElementById(id).max]", slider)
    return int(at), int(last)


def tell(name: str, took: list[dict[str, float]]) -> None:
    for part in PARTS:
        found = sorted(each[part] for each in took)
        median, high, within = found[len(found) // 2], found[int(0.95 * len(found))], sum(t <= 100 for t in found)
        print(
            f"{name:>31}, {part:6}: median {median:4.0f} ms, 95 % within {high:4.0f} ms, all within {found[-1]:4.0f} "
            f"ms, {within} of {len(found)} within 100 ms",
            flush=True,
        )


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    main()
