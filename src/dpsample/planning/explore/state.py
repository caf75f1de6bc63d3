"""State: what is shown at each place of the sliders, in texts and rows of a chart, computed once.

An answer comes in parts, since some take ten times as long as others: `seen` is what can be seen of PWS, and the
reporting curve; `errors` are those of PWS; `others` are the other methods. While nobody asks, those of places nearby
are computed ahead. All of it is as private as the frequencies.
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
from dpsample.planning.explore.choices import Choices, Place
from dpsample.planning.forecast import Outlook, check_selection, outlook
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.planning.text import Origin, cells, command, python
from dpsample.presentation.charts import Panel, page_chart
from dpsample.presentation.explain import Strength, explain_protected, explain_sampling, round_up

LINES = {
    PWS: "PWS, what dpsample does",
    SBH: "stability-based histogram",
    TIGHT: "the same, with its tightest cutoff",
    "": "sampling alone, which is not private",
}
PARTS = ("seen", "errors", "others")
LEVELS = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_ENDS = [step * 10**power for power in range(6) for step in (1, 2, 5)][2:]  # of the axis, mostly
_POINTS = 100  # of a curve
_KEPT = 1000  # answers
_QUIET = 0.1  # seconds after a question, before anything is computed ahead


class Explorer:
    """Answers for each place of the sliders; `frequencies` by the number of keys per user."""

    def __init__(
        self,
        frequencies: Mapping[int | None, Frequencies],
        choices: Choices,
        share: float = 0.01,
        source: Origin | None = None,
    ) -> None:
        self.frequencies, self.choices, self.source = frequencies, choices, source
        self.share = check_selection(share)
        made = {"seen": self._seen, "errors": self._errors, "others": self._others}
        self._parts = {part: lru_cache(_KEPT)(made[part]) for part in PARTS}
        self._one = threading.Lock()
        self._asked = threading.Event()
        self._ended = False
        self._place = self._before = choices.place(*choices.start)
        self._when = time.monotonic()

    def answer(self, part: str, place: Place) -> dict[str, Any]:
        """Return one part of what is shown at a place; a setting that cannot be is told in words."""
        self._when, place = time.monotonic(), self.choices.place(*place)
        if place != self._place:
            self._before, self._place = self._place, place
        try:
            return self._parts[part](place)
        except InvalidValue as error:
            return {"refused": str(error)}
        finally:
            self._when = time.monotonic()
            if part == PARTS[-1]:
                self._asked.set()

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Compute places nearby while nobody asks, until this ends; a process must not end in the middle of it."""
        worker = threading.Thread(target=self._ahead, name="ahead", daemon=True)
        worker.start()
        try:
            yield
        finally:
            self._ended = True
            self._asked.set()
            worker.join()

    def _ahead(self) -> None:
        for lines in (tuple(LINES.values())[:-1], tuple(LINES.values())):
            for end in _ENDS:
                self._rest()
                _specification(end, lines)
        while self._asked.wait() and not self._ended:
            self._asked.clear()
            place = self._place
            for near in self.choices.nearby(place, self._before):
                for part in PARTS:
                    self._rest()
                    with suppress(Exception):  # whoever asks for it is told
                        if self._place == place and not self._ended:
                            self._parts[part](near)

    def _rest(self) -> None:
        """Wait until nobody has asked for a moment."""
        while not self._ended and (rest := self._when + _QUIET - time.monotonic()) > 0:
            time.sleep(rest)

    def _outlook(self, setting: Setting, **computed: bool) -> Outlook:
        """One at a time, if it takes time: what is computed ahead must not take the time of who waits."""
        frequencies = self.frequencies[setting.max_keys_per_user]
        if not computed["errors"]:
            return outlook(frequencies, setting, self.share, **computed)
        with self._one:
            return outlook(frequencies, setting, self.share, quick=True, **computed)

    def _seen(self, place: Place) -> dict[str, Any]:
        setting = self.choices.setting(place)
        found = self._outlook(setting, errors=False, baselines=False)
        drawn = curve(found.sampling, setting.per_key, _POINTS)
        _, keys, of_keys, of_elements, seen, *_ = cells(found.pws)
        return {
            "values": {"keys": keys, "elements": of_elements, "seen": seen},
            "words": _words(found, keys, of_keys, of_elements),
            "summary": f"Epsilon {text(setting.privacy.epsilon)}, delta {text(setting.privacy.delta)}: about {keys} "
            f"of {found.frequencies.total:,} keys, {of_elements} of the elements, seen from frequency {seen}.",
            "command": command(setting, self.source),
            "python": python(setting, self.source),
            **_chart(drawn, seen),
        }

    def _errors(self, place: Place) -> dict[str, Any]:
        setting = self.choices.setting(place)
        found = self._outlook(setting, errors=True, baselines=False)
        *_, total, selection = cells(found.pws)
        return {
            "values": {"total": total, "selection": selection},
            "summary": f"A total is off by {total}, a selection by {selection}.",
        }

    def _others(self, place: Place) -> dict[str, Any]:
        setting = self.choices.setting(place)
        found = self._outlook(setting, errors=True, baselines=True)
        return {
            "methods": [cells(method) for method in found.methods],
            "notes": [f"{_sentence(note)}." for note in found.notes],
        }


def _words(found: Outlook, keys: str, of_keys: str, of_elements: str) -> dict[str, str]:
    """A sentence for each number, by the number or slider that it explains."""
    setting, pws, data = found.setting, found.pws, found.frequencies
    strength = Strength.of(setting.privacy)
    users = setting.max_keys_per_user
    one, things = ("one element", "elements") if users is None else ("one user", "users")
    sampled = found.sampling.name != "keep all"
    told = {
        "data": f"{data.total:,} keys with {data.elements:,} elements"
        + ("" if users is None else ", which are users, each once in a key"),
        "epsilon": f"Whether {one} is in the data changes the probability of anything that is published by at most a "
        f"factor of {round_up(strength.factor, 3):,.3f}. A bet on it at even odds is right with at most "
        f"{round_up(100 * strength.guess, 1):g} %, instead of 50 %.",
        "delta": f"Left aside: events with a probability of up to 1 in {strength.one_in:,}, which may reveal more.",
        "keys": f"About {keys} of {data.total:,} keys are expected to be in the release: {of_keys}.",
        "elements": f"{of_elements} of all elements have a key that is reported. The others are in keys that are too "
        + ("rare, or not sampled." if sampled else "rare."),
        "seen": "No key has an even chance to be reported, however frequent it is."
        if pws.detection_threshold is None
        else f"A key with {pws.detection_threshold:,} {things} or more has an even chance to be reported, or a "
        "better one. Most rarer ones stay hidden.",
    }
    if sampled:
        q = float((data.counts * found.sampling.q(data.values)).sum())
        how = _sentence(explain_sampling(found.sampling).replace(" was ", " is "))
        told["sampling"] = f"{how}: about {q:,.0f} keys in all."
        if setting.size:
            told["sampling"] += f" Finding tau costs {100 * float(setting.size.share):g} % of epsilon."
    told["users"] = f"Protected is {explain_protected(users)}." + (
        ""
        if users is None
        else f" Each key has epsilon {float(setting.per_key.epsilon):.3g}, delta {float(setting.per_key.delta):.2g}."
    )
    return {name: words.replace(" %", "\u00a0%") for name, words in told.items()}  # no line begins with a %


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _chart(drawn: Curve, seen: str) -> dict[str, Any]:
    """The reporting curve: a specification that changes rarely, and its rows; the same in words and as a table."""
    found = {PWS: drawn.pws, SBH: drawn.sbh, TIGHT: drawn.tight}
    if (drawn.sampled < 1).any():
        found[""] = drawn.sampled
    lines = {LINES[name]: line for name, line in found.items() if line is not None}
    i = drawn.frequencies.tolist()
    end = _round_end(i[-1])
    rows = [
        {"line": name, "x": x, "y": round(y, 5), "frequency": f"{x:,}", "probability": f"{y:.3g}", "of": name}
        for name, line in lines.items()
        for n, (x, y) in enumerate(zip(i, line.tolist(), strict=True))
        if n == 0 or i[n - 1] <= end  # one beyond, so that lines reach the edge
    ]
    picks = sorted({n for level in LEVELS if (n := int((drawn.pws < level).sum())) < len(i)})
    reached = "does not reach one half" if seen == "never" else f"reaches one half at frequency {seen}"
    return {
        "shape": [end, *lines],
        "chart": _specification(end, tuple(lines)),
        "rows": rows,
        "described": f"Line chart of the probability to be reported, by frequency. That of PWS {reached}.",
        "heads": ["frequency", *lines],
        "points": [[f"{i[n]:,}", *(f"{line[n]:.3g}" for line in lines.values())] for n in picks],
    }


def _round_end(last: int) -> int:
    """The largest of 1, 2, 5, 10, 20, ... up to a number, and at least 5: where the axis ends."""
    power: int = 10 ** (len(str(last)) - 1)
    return max(5, next(step * power for step in (5, 2, 1) if step * power <= last))


@lru_cache(maxsize=64)
def _specification(end: int, lines: tuple[str, ...]) -> dict[str, Any]:
    """The chart without its rows, which the page puts in as `curve`."""
    blank = [
        {"line": name, "x": x, "y": 0, "frequency": "", "probability": "", "of": ""} for name in lines for x in (1, end)
    ]
    panel = Panel("", "frequency", "probability to be reported", log_x=True, span_x=(1, end), span_y=(0, 1))
    made = page_chart(blank, panel)
    made.pop("datasets")
    return {**made, "data": {"name": "curve"}}
