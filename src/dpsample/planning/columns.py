"""What a plan shows of each method: the columns of its tables, and what their words mean.

Column     a column: its head, its meaning, and its text for a method
columns    the columns that some forecasts fill
rows       the cells of a forecast: a row for each method
legend     the meaning of each column, and of each method
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dpsample.comparison.reporting_curve import OPEN, PWS, SAMPLED, SBH, TIGHT
from dpsample.planning.forecast import AT_MOST, Expected, Forecast
from dpsample.planning.users import SIZES

CHOSEN = "*"
CHOSEN_MEANS = (
    "what --discover ask, the default, chooses if its numbers have no noise: what fills more keys"
)
# the name of a method, or a part of the name of a way to find keys -> its meaning
METHODS = {
    PWS: "private weighted sampling, what dpsample releases; errors are predicted for the default estimator",
    SBH: "stability-based histogram: Laplace noise and a cutoff",
    TIGHT: "the stability-based histogram with the lowest cutoff that is as private",
    SAMPLED: "elements are sampled, and keys with enough sampled elements are reported",
    OPEN: "the weighted sample without privacy",
    "one key each": "keys are found by one key of each user; a key that is full leaves users to their others",
    "up to k keys each": "keys are found by up to k keys of each user, chosen at random",
    "keys only": "nothing is spent on counts: --keys-only",
    "counted": "the users of each key that was found are counted, at the default share of the privacy",
    AT_MOST: "a bound that no method with this epsilon and delta exceeds",
}


@dataclass(frozen=True)
class Column:
    """A column of a plan: its head, its title on a page, its meaning, and its text for a method of a forecast."""

    head: str
    title: str
    meaning: str
    cell: Callable[[Forecast, Expected], str]


def columns(forecasts: Sequence[Forecast]) -> list[Column]:
    """Return the columns that these forecasts, all of one kind, fill."""
    if forecasts[0].setting.discover is not None:
        return list(_columns_of_users())
    return list(_columns_of_elements(forecasts))


def _columns_of_elements(forecasts: Sequence[Forecast]) -> Iterator[Column]:
    yield _KEYS
    yield _OF_KEYS
    yield _OF_ELEMENTS
    yield _threshold("the lowest frequency that")
    yield _TOTAL
    share = f"{100 * forecasts[0].share:g} % of the keys"
    yield Column(
        "selection +-",
        "Error of a selection",
        f"the same for {share}, selected at random",
        _selection_error,
    )
    if any(forecast.possible for forecast in forecasts):
        yield _OF_POSSIBLE


def _columns_of_users() -> Iterator[Column]:
    yield _KEYS
    yield _OF_KEYS
    yield _OF_POSSIBLE
    yield _threshold("the lowest number of users with which a key")
    yield Column(
        "k", "Keys of a user, at most", "the largest number of keys that a user gives", _keys_each
    )
    for place, size in enumerate(SIZES):
        meaning = f"the error of the count of a key with about {size:,} users, relative to it; -: no such key"
        yield Column(f"{size:,} users +-", f"Error at {size:,} users", meaning, _count_error(place))


def _keys(_: Forecast, method: Expected) -> str:
    return number(method.keys)


def _share_of_keys(_: Forecast, method: Expected) -> str:
    return percent(method.share_of_keys)


def _share_of_elements(_: Forecast, method: Expected) -> str:
    return percent(method.share_of_elements)


def _share_of_possible(forecast: Forecast, method: Expected) -> str:
    if forecast.possible is None:
        return percent(None)
    return percent(method.keys / forecast.possible.keys)


def _total_error(_: Forecast, method: Expected) -> str:
    return percent(method.nrmse)


_KEYS = Column(
    "keys",
    "Keys reported",
    "the expected number of reported keys",
    _keys,
)
_OF_KEYS = Column(
    "of keys",
    "Of all keys",
    "the same, as a share of all keys",
    _share_of_keys,
)
_OF_ELEMENTS = Column(
    "of elements",
    "Of all elements",
    "the expected share of all elements whose key is reported",
    _share_of_elements,
)
_OF_POSSIBLE = Column(
    "of possible",
    "Of what is possible",
    "reported keys, as a share of those that any method could report with this epsilon and delta",
    _share_of_possible,
)
_TOTAL = Column(
    "total +-",
    "Error of a total",
    "root mean square error of the estimated number of all elements, relative to the truth",
    _total_error,
)


def _selection_error(_: Forecast, method: Expected) -> str:
    return percent(method.selection_nrmse)


def _threshold(lowest: str) -> Column:
    """Return the column of the detection threshold; `lowest` begins its meaning, in the words of the unit."""
    meaning = f"{lowest} is reported with probability 1/2 or more"
    return Column("threshold", "Detection threshold", meaning, _threshold_of)


def _threshold_of(_: Forecast, method: Expected) -> str:
    threshold = method.detection_threshold
    return "never" if threshold is None else f"{threshold:,}"


def _keys_each(_: Forecast, method: Expected) -> str:
    return f"{method.way.keys_each:,}" if method.way else ""


def _count_error(place: int) -> Callable[[Forecast, Expected], str]:
    """Return the function that writes the error of counts at the size at this place in `SIZES`."""

    def cell(_: Forecast, method: Expected) -> str:
        if method.way is None or not method.way.counted:
            return ""
        return percent(method.way.count_errors[place])

    return cell


def rows(forecast: Forecast, shown: Sequence[Column]) -> list[list[str]]:
    """Return a row for each method, which begins with its name."""
    methods = []
    for method in forecast.every_method:
        cells = [column.cell(forecast, method) for column in shown]
        methods.append([_name(method), *cells])
    return methods


def _name(method: Expected) -> str:
    chosen = method.way is not None and method.way.chosen
    return f"{method.method} {CHOSEN}" if chosen else method.method


def legend(forecasts: Sequence[Forecast]) -> dict[str, str]:
    """Return the meaning of each column, and of each method that is in a table."""
    shown = set()
    for forecast in forecasts:
        for method in forecast.every_method:
            shown |= {method.method, *method.method.split(", ")}
    meanings = {column.head: column.meaning for column in columns(forecasts)}
    meanings |= {name: words for name, words in METHODS.items() if name in shown}
    if forecasts[0].setting.discover:
        meanings[CHOSEN] = CHOSEN_MEANS
    return meanings


def number(keys: float) -> str:
    """Write an expected number of keys: whole from 10 on, with two figures below.

    >>> number(5512.3), number(0.0301)
    ('5,512', '0.03')
    """
    return f"{keys:,.0f}" if keys >= 10 else f"{keys:.2g}"


def percent(share: float | None) -> str:
    """Write a share with three figures.

    >>> percent(0.5), percent(0.01234), percent(12.3), percent(None)
    ('50.0 %', '1.23 %', '12.3 times', '-')
    """
    if share is None:
        return "-"
    if share >= 9.99:
        return f"{share:.3g} times"
    three_figures = f"{100 * share:#.3g}".removesuffix(".")
    return f"{three_figures} %"
