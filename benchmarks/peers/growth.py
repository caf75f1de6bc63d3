"""How time grows with size, as a part of docs/comparison.md: exponents of steps, and fitted ones."""

import math
from itertools import pairwise
from typing import Any

from pieces import figure, prose, table

Line = dict[str, Any]

STEEP = 1.1  # an exponent above it is not linear


def _start(lines: list[Line]) -> float:
    """CPU seconds of a release of ten rows; with 1 / epsilon, which has none, 0."""
    rows = [line["cpu"] for line in lines if line["size"] == 10 and line["axis"] != "1/epsilon"]
    return rows[0] if rows else 0.0


def exponents(lines: list[Line]) -> list[float | None]:
    """The exponent of each step, of CPU seconds beyond those of a release of ten rows; None if lost in them."""
    start = _start(lines)
    steps: list[float | None] = [None]
    for before, now in pairwise(lines):
        worth = min(before["cpu"], now["cpu"]) - start >= 0.2 * start and min(before["cpu"], now["cpu"]) > start
        ratio = math.log((now["cpu"] - start) / (before["cpu"] - start)) if worth else 0.0
        steps.append(ratio / math.log(now["size"] / before["size"]) if worth else None)
    return steps


def fitted(lines: list[Line]) -> float | None:
    """The exponent by least squares over all sizes whose CPU seconds are twice those of the start, or more."""
    start = _start(lines)
    points = [(math.log(line["size"]), math.log(line["cpu"] - start)) for line in lines if line["cpu"] > 2 * start]
    if len(points) < 2 or not start:
        return None
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    over = sum((x - mean_x) ** 2 for x, _ in points)
    return float(sum((x - mean_x) * (y - mean_y) for x, y in points) / over)


def growth(lines: list[Line]) -> str:
    text = [
        "## How dpsample grows",
        prose(
            "One release each, of generated data (`benchmarks/scaling.py`): rows of 10^5 keys, (0.5, 1e-6); aggregated",
            "keys; 10^6 aggregated keys at several ε; and users with 4 keys each, without a bound, (1, 1e-6). 10^9",
            "rows are ten copies of one file. The exponent of a step is that of the CPU seconds beyond those of a",
            "release of ten rows: 1 is linear, and less is better than linear. A dash stands where these are lost",
            "in the time to start. A step whose lower end is close to it is uncertain. The exponent of 1/ε is of all",
            "CPU seconds.",
        ),
        "![CPU seconds by size](images/comparison-scaling.svg)",
    ]
    titles = {"rows": "rows", "keys": "aggregated keys", "1/epsilon": "1/ε", "users": "users"}
    for axis, engine in dict.fromkeys((line["axis"], line["engine"]) for line in lines):
        here = [line for line in lines if (line["axis"], line["engine"]) == (axis, engine)]
        done = sorted((line for line in here if line["status"] == "done"), key=lambda line: line["size"])
        rows = [
            [f"{line['size']:,.10g}", figure(line["cpu"]), f"{line['memory']:.2f}", figure(step, "{:.2f}")]
            for line, step in zip(done, exponents(done), strict=True)
        ]
        slope = fitted(done) if axis != "1/epsilon" else None
        head = f"### By {titles[axis]}, on {'DuckDB' if engine == 'duckdb' else 'Spark'}"
        text += [head, table([titles[axis], "CPU s", "GB", "exponent"], rows)]
        steep = [
            f"{before['size']:,.10g} to {now['size']:,.10g} ({step:.2f})"
            for (before, now), step in zip(pairwise(done), exponents(done)[1:], strict=True)
            if step is not None and step > STEEP
        ]
        said = ["" if slope is None else f"Fitted exponent: {slope:.2f}."]
        said.append(
            f"Steps that are steeper than linear: {'; '.join(steep)}." if steep else "No step is steeper than linear."
        )
        text.append(prose(*(one for one in said if one)))
        text += [f"- {line['size']:g}: {line['status']} {line.get('error', '')}" for line in here if line not in done]
    return "\n\n".join(text)
