"""The explorer of users without a contribution bound: keys are discovered, then counted.

Each epsilon takes passes of its own over all pairs of a user and a key, so nothing can follow a slider. A few epsilons
are computed in a thread, the one to start with first, while the page shows those that are there. The slider stands at
these alone. All of it is as private as the data.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, text
from dpsample.planning.command import Origin, command, python
from dpsample.planning.setting import Setting
from dpsample.planning.text import number, percent
from dpsample.planning.users import UserNumbers, UsersForecast, Way, forecast_users
from dpsample.planning.users_text import AT_MOST, way_name, way_rows
from dpsample.presentation.charts import Panel
from dpsample.presentation.page_charts import page_chart

EPSILONS = tuple(map(Fraction, ("0.1", "0.3", "1", "3", "10")))
FACTS = {
    "keys": "keys reported and counted",
    "possible": "of what any method could report",
    "error": "median error of a count",
    "only": "keys reported without counts",
}


class _EndedError(Exception):
    """The page is closed: work on private data ends."""


class UsersExplorer:
    """Answers for each epsilon, once it is computed; `numbers` are what users would give to a release."""

    parts = ("users",)
    fields = ("epsilon",)

    def __init__(
        self,
        numbers: UserNumbers,
        settings: Callable[[Fraction], Setting],
        start: Number,
        source: Origin | None = None,
    ) -> None:
        self.start, self.source, self.numbers = exact(start, "epsilon"), source, numbers
        self.epsilons = tuple(sorted({self.start, *EPSILONS}))
        self.settings = {epsilon: settings(epsilon) for epsilon in self.epsilons}  # refuses bad ones
        self._failed, self._ended = "", False
        self._forecasts: dict[Fraction, UsersForecast] = {}

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Compute all epsilons in a thread. Leaving waits for it: a process must not end before it."""
        worker = threading.Thread(target=self._compute, name="users", daemon=True)
        worker.start()
        try:
            yield
        finally:
            self._ended = True
            worker.join()

    def _compute(self) -> None:
        self.numbers.progress = self._go_on
        try:
            for epsilon in sorted(self.epsilons, key=lambda epsilon: epsilon != self.start):
                self._go_on()
                self._forecasts[epsilon] = forecast_users(self.numbers, self.settings[epsilon])
        except InvalidValue as error:
            self._failed = str(error)
        except Exception:  # messages of other libraries may show data
            self._failed = "this could not be computed"

    def _go_on(self, *_: object) -> None:
        if self._ended:
            raise _EndedError

    def place(self, texts: Mapping[str, str]) -> Fraction:
        """Read an epsilon that the slider can be set to."""
        by = {text(epsilon): epsilon for epsilon in self.epsilons}
        if texts["epsilon"] not in by:
            raise InvalidValue("epsilon is one of the slider's", "another number", "move the slider")
        return by[texts["epsilon"]]

    def answer(self, part: str, epsilon: Fraction) -> dict[str, Any]:
        """Return what is shown at an epsilon: all that is there, and whether more is to come."""
        if self._failed:
            return {"refused": self._failed}
        done = {e: self._forecasts[e] for e in self.epsilons if e in self._forecasts}
        setting, left = self.settings[epsilon], len(self.epsilons) - len(done)
        progress = f"{len(done)} of {len(self.epsilons)} epsilons are computed; the others follow." if left else ""
        made = {"command": command(setting, self.source), "python": python(setting, self.source)}
        answer: dict[str, Any] = {"more": left > 0, "progress": progress, **made, "values": dict.fromkeys(FACTS, "…")}
        if epsilon in done:
            answer |= _seen(done[epsilon])
        return {**answer, "charts": _charts(list(done.values()))}


def _seen(forecast: UsersForecast) -> dict[str, Any]:
    """The numbers of one epsilon: those of the ways that "ask" chooses, and a table of all."""
    counted, only = (_chosen(forecast, counted) for counted in (True, False))
    values = {
        "keys": number(counted.keys),
        "possible": percent(counted.keys / forecast.possible),
        "error": percent(counted.error),
        "only": number(only.keys),
    }
    summary = (
        f"Epsilon {text(forecast.setting.privacy.epsilon)}: about {values['keys']} keys with counts, "
        f"{values['possible']} of what any method could report; the median error of a count is {values['error']}."
    )
    return {"values": values, "rows": [row[1:] for row in way_rows(forecast)], "summary": summary}


def _chosen(forecast: UsersForecast, counted: bool) -> Way:
    return max((way for way in forecast.ways if way.counted == counted), key=lambda way: way.chosen)


def _charts(forecasts: Sequence[UsersForecast]) -> dict[str, Any]:
    """The reported keys, and the errors of counts, by epsilon."""
    keys, errors = list[dict[str, Any]](), list[dict[str, Any]]()
    for forecast in forecasts:
        epsilon = float(forecast.setting.privacy.epsilon)
        shown = {AT_MOST: forecast.possible}
        shown |= {way_name(way, short=True): way.keys for way in forecast.ways}
        keys += [_point(name, epsilon, y, number(y), percent(y / forecast.possible)) for name, y in shown.items()]
        errors += [
            _point(
                way_name(way, short=True), epsilon, way.error, percent(way.error), percent(way.keys / forecast.possible)
            )
            for way in forecast.ways
            if way.error is not None
        ]
    charts = {"keys": (keys, "reported keys"), "errors": (errors, "median relative error of counts")}
    return {name: _chart(rows, y) for name, (rows, y) in charts.items() if rows}


def _chart(rows: list[dict[str, Any]], y: str) -> dict[str, Any]:
    """A chart, and the same as a table."""
    panel = Panel("", "epsilon", y, log_x=True, span_y=(0, 1.05 * max(row["y"] for row in rows)))
    lines, epsilons = (list(dict.fromkeys(row[name] for row in rows)) for name in ("line", "epsilon"))
    shown = {(row["epsilon"], row["line"]): row["shown"] for row in rows}
    points = [[epsilon, *(shown.get((epsilon, line), "-") for line in lines)] for epsilon in epsilons]
    return {"chart": page_chart(rows, panel, points=True), "heads": ["epsilon", *lines], "points": points}


def _point(line: str, x: float, y: float, shown: str, possible: str) -> dict[str, Any]:
    return {"line": line, "x": x, "y": y, "method": line, "epsilon": f"{x:g}", "shown": shown, "of possible": possible}
