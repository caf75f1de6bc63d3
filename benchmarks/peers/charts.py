"""The charts of docs/comparison.md. Each begins with the hash of its description, by which a test knows it."""

import hashlib
import json
import math
from typing import Any

from registry import PEERS
from tasks import TASKS

Line = dict[str, Any]
WIDTH, HEIGHT = 560, 320
SPEED_TASK, ERROR_TASK = "raw-6", "raw-6"  # the largest that nearly every peer finishes
LEAST = 5  # reported keys behind a point
# of a label, beside its point, in pixels: across, down, alignment
PLACES = {"above": (0, -12, "center"), "below": (0, 14, "center"), "left": (-9, 1, "right"), "right": (9, 1, "left")}


def charts(results: list[Line], scaling: list[Line], draw: bool) -> dict[str, str]:
    """Return charts by name: as SVG, or only the comment in which each begins."""
    done = [line for line in results if line["kind"] == "run" and line["status"] == "done"]
    described = {
        "comparison-speed": _speed(done),
        "comparison-error": _by_frequency(done, "relative_error", "mean relative error", "log"),
        "comparison-reported": _by_frequency(done, "share", "share of keys that are reported", "linear"),
        "comparison-scaling": _growth(scaling),
    }
    return {name: _svg(chart, draw) for name, chart in described.items()}


def _svg(chart: dict[str, Any], draw: bool) -> str:
    text = json.dumps(chart, sort_keys=True)
    comment = f"<!-- {hashlib.sha256(text.encode()).hexdigest()} -->\n"
    if not draw:
        return comment
    import vl_convert

    return comment + vl_convert.vegalite_to_svg(text) + "\n"


def _chart(data: list[Line], mark: Any, encoding: dict[str, Any], title: str, **more: Any) -> dict[str, Any]:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": title,
        "width": WIDTH,
        "height": HEIGHT,
        "background": "white",
        "data": {"values": data},
        "mark": mark,
        "encoding": encoding,
        **more,
    }


def _speed(done: list[Line]) -> dict[str, Any]:
    data = [
        {"library": PEERS[line["peer"]].title, "cpu": line["cpu"], "keys": line["keys"]}
        for line in done
        if line["task"] == SPEED_TASK and PEERS[line["peer"]].private and "public" not in PEERS[line["peer"]].note
    ]
    x = {"field": "cpu", "type": "quantitative", "title": "CPU seconds", "scale": {"type": "log"}}
    y = {"field": "keys", "type": "quantitative", "title": "reported keys", "scale": {"zero": False}}
    text = {"field": "library", "type": "nominal"}
    base = {"x": x, "y": y}
    _place_labels(data)
    layers: list[dict[str, Any]] = [{"mark": {"type": "point", "filled": True, "size": 80}, "encoding": base}]
    layers += [
        {
            "mark": {"type": "text", "dx": dx, "dy": dy, "align": align, "fontSize": 12},
            "encoding": {**base, "text": text},
            "transform": [{"filter": f"datum.place == '{place}'"}],
        }
        for place, (dx, dy, align) in PLACES.items()
    ]
    chart = _chart(data, None, {}, f"Speed against keys found: {TASKS[SPEED_TASK].title}", layer=layers)
    return {name: value for name, value in chart.items() if name not in ("mark", "encoding")}


def _place_labels(data: list[Line]) -> None:
    """Choose where the label of each point stands: the first place at which it covers no other label and no point."""
    if not data:
        return
    xs, ys = [math.log(point["cpu"]) for point in data], [point["keys"] for point in data]
    across, down = WIDTH / max(max(xs) - min(xs), 1e-9), HEIGHT / max(max(ys) - min(ys), 1)
    at = [(across * x, -down * y) for x, y in zip(xs, ys, strict=True)]
    taken = [(x - 5, x + 5, y - 5, y + 5) for x, y in at]
    for point, (x, y) in zip(data, at, strict=True):
        half = 3.5 * len(point["library"])
        boxes = {}
        for name, (dx, dy, align) in PLACES.items():
            left = x + dx - {"left": 0, "center": half, "right": 2 * half}[align]
            boxes[name] = left, left + 2 * half, y + dy - 7, y + dy + 7
        free = [
            name
            for name, box in boxes.items()
            if not any(box[0] < b and a < box[1] and box[2] < d and c < box[3] for a, b, c, d in taken)
        ]
        point["place"] = free[0] if free else "above"
        taken.append(boxes[point["place"]])


def _by_frequency(done: list[Line], field: str, title: str, scale: str) -> dict[str, Any]:
    data = []
    for line in done:
        if line["task"] != ERROR_TASK or not PEERS[line["peer"]].private:
            continue
        for cell in line["by_frequency"]:
            value = cell["reported"] / cell["keys"] if field == "share" else cell[field]
            enough = field == "share" or cell["reported"] >= LEAST
            if value is not None and enough and 8 <= cell["from"] <= 2**14:
                data.append({"library": PEERS[line["peer"]].title, "frequency": cell["from"], "value": value})
    powers = "frequency, from each power of two to the next"
    encoding = {
        "x": {"field": "frequency", "type": "quantitative", "title": powers, "scale": {"type": "log", "base": 2}},
        "y": {"field": "value", "type": "quantitative", "title": title, "scale": {"type": scale}},
        "color": {"field": "library", "type": "nominal", "title": None},
        "strokeDash": {"field": "library", "type": "nominal", "title": None},
    }
    return _chart(data, {"type": "line", "point": True}, encoding, f"{title.capitalize()}: {TASKS[ERROR_TASK].title}")


def _growth(scaling: list[Line]) -> dict[str, Any]:
    engines = {"duckdb": "DuckDB", "spark": "Spark"}
    data = [
        {"curve": f"{line['axis']}, {engines[line['engine']]}", "size": line["size"], "cpu": line["cpu"]}
        for line in scaling
        if line["status"] == "done" and line["axis"] != "1/epsilon" and line["size"] > 10
    ]
    encoding = {
        "x": {
            "field": "size",
            "type": "quantitative",
            "title": "rows, keys or users",
            "scale": {"type": "log"},
            "axis": {"format": "~s", "tickCount": 7},
        },
        "y": {"field": "cpu", "type": "quantitative", "title": "CPU seconds", "scale": {"type": "log"}},
        "color": {"field": "curve", "type": "nominal", "title": None},
        "strokeDash": {"field": "curve", "type": "nominal", "title": None},
    }
    return _chart(data, {"type": "line", "point": True}, encoding, "CPU seconds of a release by size")
