"""A plan of users without a contribution bound, in words: what `dpsample plan --user` prints. NOT private."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from dpsample.exact import text
from dpsample.planning.command import Origin, command
from dpsample.planning.goals import recommended
from dpsample.planning.text import (
    POSSIBLE,
    POSSIBLE_WORDS,
    PRIVATE,
    UNCOVERED,
    aligned,
    kept_words,
    next_rule,
    number,
    percent,
)
from dpsample.planning.users import SIZES, UsersForecast, Way
from dpsample.presentation.explain import explain_protected

AT_MOST = "any method, at most"
CHOSEN = "*"
COLUMNS = ("method", "keys", "of keys", POSSIBLE, "threshold", *(f"{size:,} users +-" for size in SIZES))

MEANINGS = {
    "one key each": "keys are found by one key of each user; a key that is full leaves users to their others",
    "up to k keys each": "keys are found by up to k keys of each user, chosen at random",
    "keys only": "nothing is spent on counts: --keys-only",
    "counted": "the users of each key that was found are counted, at the default share of the privacy",
    CHOSEN: "what --discover ask, the default, chooses if its numbers have no noise: what fills more keys",
    "keys": "the expected number of reported keys; of keys: the same as a share of all keys",
    POSSIBLE: POSSIBLE_WORDS,
    "threshold": "users who give a key, from which on it is reported with probability 1/2 or more",
    "users +-": "the error of the count of a key with about so many users, relative to it; -: no such key",
}


@dataclass(frozen=True)
class UsersPlan:
    """What `dpsample plan` prints for users without a contribution bound."""

    forecasts: Sequence[UsersForecast]
    default_delta: bool = False  # whether delta follows from the number of pairs of a user and a key
    source: Origin | None = None

    @property
    def release(self) -> str:
        """The command that makes the recommended release."""
        return command(recommended(self.forecasts).setting, self.source)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "NOT private": PRIVATE,
            "delta_by_number_of_elements": self.default_delta,
            "forecasts": [forecast.to_json() for forecast in self.forecasts],
            "release": self.release,
        }

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        return [PRIVATE, "", *self._tables(), *self._legend(), "", f"Next: {self.release}", PRIVATE]

    def _tables(self) -> Iterator[str]:
        """One table for all settings that differ in epsilon only; columns are equally wide in all tables."""
        tables = {
            title: [("epsilon", *COLUMNS), *chain(*map(way_rows, group))]
            for title, group in groupby(self.forecasts, _title)
        }
        widths = [max(map(len, column)) for column in zip(*chain(*tables.values()), strict=True)]
        for title, rows in tables.items():
            yield title
            yield from (aligned(row, widths) for row in rows)
            yield ""

    def _legend(self) -> Iterator[str]:
        yield from (f"{name:<20}  {words}" for name, words in MEANINGS.items())
        if self.default_delta:
            yield "delta was chosen by the number of users' keys: a power of ten, at most a tenth of 1 / that number."
        yield from next_rule(self.forecasts)
        if len(self.forecasts) > 1:
            yield "For this, counted keys cover as much as an equal number of the keys with the most users."
        if any(forecast.setting.amounts for forecast in self.forecasts):
            yield "Rows and sums have their share of the privacy; their own errors are not forecast."
        yield UNCOVERED


def _title(forecast: UsersForecast) -> str:
    """What all rows of a table have in common."""
    sampling = forecast.setting.sampling
    return (
        f"delta {text(forecast.setting.privacy.delta)}, for {explain_protected(unit='user')}\n"
        f"{forecast.users.total:,} keys; users have {forecast.users.elements:,} keys in all"
        f"{'' if sampling.least == 1 else f'; {kept_words(sampling)}'}"
    )


def way_rows(forecast: UsersForecast) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one epsilon: the most that any method could report, and each way to find keys."""
    most, total = forecast.possible, forecast.users.total
    shown = (AT_MOST, number(most), percent(most / total), percent(1.0), "", *("" for _ in SIZES))
    yield (text(forecast.setting.privacy.epsilon), *shown)
    for way in forecast.ways:
        shares = percent(way.keys / total), percent(way.keys / most)
        threshold = "never" if way.threshold is None else f"{way.threshold:,}"
        errors = (percent(error) if way.counted else "" for error in way.errors)
        yield ("", way_name(way), number(way.keys), *shares, threshold, *errors)


def way_name(way: Way, short: bool = False) -> str:
    """Name a way to find keys; in short, without what depends on epsilon."""
    how = "one key each" if way.method == "one-key" else f"up to {'k' if short else f'{way.keys_each:,}'} keys each"
    if short:
        return f"{'counted' if way.counted else 'keys only'}, {how}"
    return f"{'counted' if way.counted else 'keys only'}, {how}{f' {CHOSEN}' if way.chosen else ''}"
