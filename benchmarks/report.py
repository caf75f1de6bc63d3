"""The report of a release of 10^5 keys: how long it takes to make, how large it is, and how soon a browser can use it.

A page is usable when the search box has answered its first query, from the start of the navigation; the ratio is to an
empty page, in the same browser. Making it is timed in a new process, beside reading the release alone. Needs Chromium.

    python benchmarks/report.py --keys 100000
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpsample import Privacy, Source, release
from dpsample.presentation.markup import tag
from dpsample.presentation.pages import Document

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync")
MAKE = """
import sys, time
start = time.perf_counter()
import dpsample
found = dpsample.read_release(sys.argv[1])
read = time.perf_counter()
found.report(sys.argv[2], force=True)
print(read - start, time.perf_counter() - read)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    keys = parser.parse_args().keys
    generator = np.random.default_rng(1)
    frequencies = np.minimum(40 + generator.pareto(0.9, keys) * 25, 5e7).astype(np.int64)
    table = pa.table({"query": [f"search query {n} {n * 7919 % 10007}" for n in range(keys)], "n": frequencies})
    with tempfile.TemporaryDirectory() as folder:
        file, page, empty = (Path(folder, name) for name in ("queries.parquet", "report.html", "empty.html"))
        release(Source(table, key="query", frequency="n"), privacy=Privacy(1, 1e-8)).write(file)
        command = [sys.executable, "-c", MAKE, str(file), str(page)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        read, made = map(float, done.stdout.split())
        print(f"made: {made:.1f} s ({made / read:.1f} times reading the release and all imports)")
        print(f"size: {page.stat().st_size / 1e6:.2f} MB for {keys:,} keys")
        empty.write_text(Document("Empty", tag("main"), scripts=["window.dpsample = {}"]).html(), encoding="utf-8")
        browse(page, empty)


def browse(page: Path, empty: Path) -> None:
    """Time both pages, in a browser that is already running."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("usable: not measured, since there is no Chromium")
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        usable, blank, answered = [], [], []
        for _ in range(5):
            tab = browser.new_page()
            start = time.perf_counter()
            tab.goto(empty.as_uri())
            tab.wait_for_function("() => window.dpsample")
            blank.append(time.perf_counter() - start)
            start = time.perf_counter()
            tab.goto(page.as_uri(), wait_until="commit")
            tab.fill("#query", "query 77")
            tab.wait_for_function("() => document.getElementById('matches').dataset.query === 'query 77'")
            usable.append(time.perf_counter() - start)
            start = time.perf_counter()
            tab.fill("#query", "9")
            tab.wait_for_function("() => document.getElementById('matches').dataset.query === '9'")
            answered.append(time.perf_counter() - start)
            tab.close()
        browser.close()
    first, ratio = float(np.median(usable)), float(np.median(usable) / np.median(blank))
    print(f"usable: {first:.2f} s after it is opened ({ratio:.1f} times an empty page)")
    print(f"a further search: {np.median(answered):.2f} s, of which 0.08 s wait for more typing")


if __name__ == "__main__":
    main()
