"""State: what the page shows for each place of the sliders, as texts and as rows of a chart, computed once.

An answer comes in parts, since some take ten times as long as others. `seen` is what PWS reports, and the reporting
curve. `errors` are the errors of PWS. `others` are the other methods. While there is no request, nearby places are
computed ahead. All of it is as private as the frequencies.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from dpsample.comparison.reporting_curve import PWS, SBH, TIGHT, Curve, curve
from dpsample.errors import InvalidValue
from dpsample.exact import text
from dpsample.planning.command import Origin, command, python
from dpsample.planning.explore.choices import Choices, Place
from dpsample.planning.forecast import Forecast, check_selection, forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.planning.text import cells
from dpsample.presentation.charts import Panel
from dpsample.presentation.explain import Strength, explain_per_key, explain_protected, explain_sampling, round_up
from dpsample.presentation.page_charts import page_chart

LINES = {
    PWS: "PWS, what dpsample releases",
    SBH: "stability-based histogram",
    TIGHT: "the same with the lowest cutoff",
    "": "sampling alone, not private",
}
PARTS = ("seen", "errors", "others")
LEVELS = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_ENDS = [step * 10**power for power in range(6) for step in (1, 2, 5)][2:]  # usual ends of the axis
_POINTS = 100  # of a curve
_KEPT = 1000  # answers
_QUIET = 0.1  # seconds without a request, before anything is computed ahead


class Explorer:
    """Answers for each place of the sliders; `frequencies` are by the number of keys per user."""

    parts = PARTS
    fields = Place._fields

    def __init__(
        self,
        frequencies: Mapping[int | None, Frequencies],
        choices: Choices,
        share: float = 0.01,
        source: Origin | None = None,
    ) -> None:
        self.frequencies, self.choices, self.source = frequencies, choices, source
        self.share = check_selection(share)
        compute = {"seen": self._seen, "errors": self._errors, "others": self._others}
        self._parts = {part: lru_cache(_KEPT)(compute[part]) for part in PARTS}
        self._one = threading.Lock()
        self._requested = threading.Event()
        self._ended = False
        self._place = self._before = choices.relevant(choices.start)
        self._when = time.monotonic()

    def prepare(self) -> None:
        """Compute the first place: what is slow only once is then done before anybody waits for it."""
        for part in PARTS:
            self.answer(part, self.choices.start)

    def place(self, texts: Mapping[str, str]) -> Place:
        """Read a place from texts, and check it."""
        return self.choices.place(**texts)

    def answer(self, part: str, place: Place) -> dict[str, Any]:
        """Return one part of what is shown at a place, or why its setting is refused."""
        self._when, place = time.monotonic(), self.choices.relevant(place)
        if place != self._place:
            self._before, self._place = self._place, place
        try:
            return self._parts[part](place)
        except InvalidValue as error:
            return {"refused": str(error)}
        finally:
            self._when = time.monotonic()
            if part == PARTS[-1]:
                self._requested.set()

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Compute nearby places between requests. Leaving waits for the worker: a process must not end before it."""
        worker = threading.Thread(target=self._ahead, name="ahead", daemon=True)
        worker.start()
        try:
            yield
        finally:
            self._ended = True
            self._requested.set()
            worker.join()

    def _ahead(self) -> None:
        for lines in (tuple(LINES.values())[:-1], tuple(LINES.values())):
            for end in _ENDS:
                self._rest()
                _specification(end, lines)
        while self._requested.wait() and not self._ended:
            self._requested.clear()
            place = self._place
            for near in self.choices.nearby(place, self._before):
                for part in PARTS:
                    self._rest()
                    with suppress(Exception):  # a request for this place reports it
                        if self._place == place and not self._ended:
                            self._parts[part](near)

    def _rest(self) -> None:
        """Wait for a moment without a request."""
        while not self._ended and (rest := self._when + _QUIET - time.monotonic()) > 0:
            time.sleep(rest)

    def _forecast(self, setting: Setting, **computed: bool) -> Forecast:
        """Compute errors one at a time, so that work ahead of a request does not slow the request down."""
        frequencies = self.frequencies[setting.max_keys_per_user]
        if not computed["errors"]:
            return forecast(frequencies, setting, self.share, quick=True, **computed)
        with self._one:
            return forecast(frequencies, setting, self.share, quick=True, **computed)

    def _seen(self, place: Place) -> dict[str, Any]:
        setting = self.choices.setting(place)
        expected = self._forecast(setting, errors=False, baselines=False)
        budget = setting.budget
        drawn = curve(expected.sampling, budget.predicted_per_key, _POINTS, budget.composed_per_key)
        _, keys, of_keys, of_elements, threshold, *_ = cells(expected.pws)
        return {
            "values": {"keys": keys, "elements": of_elements, "seen": threshold},
            "words": _words(expected, keys, of_keys, of_elements),
            "summary": f"Epsilon {text(setting.privacy.epsilon)}, delta {text(setting.privacy.delta)}: about {keys} "
            f"of {expected.frequencies.base.total:,} keys, {of_elements} of the elements, detection threshold "
            f"{threshold}.",
            "command": command(setting, self.source),
            "python": python(setting, self.source),
            **_chart(drawn, threshold),
        }

    def _errors(self, place: Place) -> dict[str, Any]:
        setting = self.choices.setting(place)
        expected = self._forecast(setting, errors=True, baselines=False)
        *_, total, selection = cells(expected.pws)
        return {
            "values": {"total": total, "selection": selection},
            "summary": f"The error of a total is {total}, of a selection {selection}.",
        }

    def _others(self, place: Place) -> dict[str, Any]:
        setting = self.choices.setting(place)
        expected = self._forecast(setting, errors=True, baselines=True)
        return {
            "methods": [cells(method) for method in expected.methods],
            "notes": [f"{_sentence(note)}." for note in expected.notes],
        }


def _words(expected: Forecast, keys: str, of_keys: str, of_elements: str) -> dict[str, str]:
    """A sentence for each number or slider, by its name."""
    setting, pws, data = expected.setting, expected.pws, expected.frequencies
    strength = Strength.of(setting.privacy)
    users = setting.max_keys_per_user
    one, things = ("one element", "elements") if users is None else ("one user", "users")
    sampled = expected.sampling.name != "keep all"
    sentences = {
        "data": f"{data.total:,} keys with {data.elements:,} elements"
        + ("" if users is None else ", which are users, each once in a key")
        + ("" if data.uncut is None else f"; before the cut {data.uncut.total:,} with {data.uncut.elements:,}"),
        "epsilon": f"With {one} more or less in the data, any set of outcomes has a probability of at most "
        f"{round_up(strength.factor, 3):,.3f} times what it was, plus delta. A guess whether it is, at even "
        f"odds, is right with probability {round_up(100 * strength.guess, 1):g} % at most, instead of 50 %.",
        "delta": f"Outcomes that break the factor are together at most 1 in {strength.one_in:,} likelier than it "
        "allows. What such an outcome reveals has no limit.",
        "keys": f"About {keys} of {data.base.total:,} keys are expected to be in the release: {of_keys}.",
        "elements": f"{of_elements} of all elements have a key that is reported. The keys of the others are too rare"
        + (", or were not sampled." if sampled else "."),
        "seen": "No key is reported with probability 1/2 or more, however frequent it is."
        if pws.detection_threshold is None
        else f"A key with {pws.detection_threshold:,} {things} or more is reported with probability 1/2 or more. "
        "Most keys below that stay hidden.",
    }
    if sampled:
        sampled_keys = float((data.counts * expected.sampling.q(data.values)).sum())
        scheme = _sentence(explain_sampling(expected.sampling).replace(" was ", " is "))
        sentences["sampling"] = f"{scheme}: about {sampled_keys:,.0f} keys in all."
        if setting.size:
            sentences["sampling"] += f" Finding tau costs {100 * float(setting.size.share):g} % of epsilon."
    sentences["users"] = f"The release protects {explain_protected(users)}." + (
        "" if users is None else f" Each key has {explain_per_key(setting.budget.predicted_per_key)}."
    )
    return {name: words.replace(" %", "\u00a0%") for name, words in sentences.items()}  # no line begins with a %


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _chart(drawn: Curve, threshold: str) -> dict[str, Any]:
    """The reporting curve: a specification that changes rarely, and its rows; the same in words and as a table."""
    curves = {PWS: drawn.pws, SBH: drawn.sbh, TIGHT: drawn.tight}
    if (drawn.sampled < 1).any():
        curves[""] = drawn.sampled
    lines = {LINES[name]: line for name, line in curves.items() if line is not None}
    i = drawn.frequencies.tolist()
    end = _round_end(i[-1])
    rows = [
        {"line": name, "x": x, "y": round(y, 5), "frequency": f"{x:,}", "probability": f"{y:.3g}", "of": name}
        for name, line in lines.items()
        for n, (x, y) in enumerate(zip(i, line.tolist(), strict=True))
        if n == 0 or i[n - 1] <= end  # one beyond, so that lines reach the end of the axis
    ]
    picks = sorted({n for level in LEVELS if (n := int((drawn.pws < level).sum())) < len(i)})
    reached = "does not reach one half" if threshold == "never" else f"reaches one half at frequency {threshold}"
    return {
        "shape": [end, *lines],
        "chart": _specification(end, tuple(lines)),
        "rows": rows,
        "described": f"Line chart of the reporting probability, by frequency. The line of PWS {reached}.",
        "heads": ["frequency", *lines],
        "points": [[f"{i[n]:,}", *(f"{line[n]:.3g}" for line in lines.values())] for n in picks],
    }


def _round_end(last: int) -> int:
    """Return the end of the axis: the largest of 1, 2, 5, 10, 20, ... up to a number, and at least 5."""
    power: int = 10 ** (len(str(last)) - 1)
    return max(5, next(step * power for step in (5, 2, 1) if step * power <= last))


@lru_cache(maxsize=64)
def _specification(end: int, lines: tuple[str, ...]) -> dict[str, Any]:
    """The chart without its rows, which the page puts in as `curve`."""
    blank = [
        {"line": name, "x": x, "y": 0, "frequency": "", "probability": "", "of": ""} for name in lines for x in (1, end)
    ]
    panel = Panel("", "frequency", "reporting probability", log_x=True, span_x=(1, end), span_y=(0, 1))
    return {**page_chart(blank, panel), "data": {"name": "curve"}}
