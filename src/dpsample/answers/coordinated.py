"""Questions to two coordinated releases: what changed, and which keys both have. Their samples have the same keys.

Differences are sums over layers of frequencies (`estimators.layers`): in both releases the same layers are visible, so
that a key whose frequency hardly changed adds hardly anything, to the value or to its error.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsample.answers.question import Attributes, Question, Weight, Where
from dpsample.answers.selection import Selection
from dpsample.answers.tokens import TokenView, key_batch
from dpsample.errors import InvalidValue
from dpsample.estimators.calibrated import functionals_of
from dpsample.estimators.estimate import Estimate, least_frequency
from dpsample.estimators.intervals import student_quantile
from dpsample.estimators.layers import Layers, TokenWeights, token_weights
from dpsample.estimators.measures import KEYS, Form, Measure
from dpsample.estimators.notes import FEW
from dpsample.estimators.tally import Tallies, Tally
from dpsample.estimators.tuning import TUNING
from dpsample.release.key_hash import key_hashes
from dpsample.scheme.coordinated import Words, first_kept
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, KeepAll
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.tokens import support_length

if TYPE_CHECKING:
    from dpsample.answers.release import Release

_EMPTY = "a release reports no selected key: what it does not report is not in the interval"


def are_coordinated(*releases: "Release") -> bool:
    """Whether one public hash chose the keys of releases with tokens, which have as many key columns."""
    seeds = {release.sampling.seed for release in releases}
    widths = {len(release.keys) for release in releases}
    return (
        None not in seeds
        and len(seeds) == len(widths) == 1
        and all(release.grid for release in releases)
    )


def difference(
    before: "Release",
    after: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Measure | str = "frequency",
    *,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
) -> Estimate:
    """Estimate how much a sum over the selected keys changed, from two coordinated releases.

    A key counts with what it has above the frequency `at_least` - 1: the estimate is of the sum of ``max(i, at_least -
    1)`` after, less that before. So a change below this frequency does not count, and one across it counts in part. By
    default `at_least` is a little above the frequency from which on all sampled keys are reported. `of` is a function
    that grows without jumps: "frequency", "log1p", "power:2" or "capped:100". The other arguments are those of
    `Release.sum`. The interval has nominal coverage over random seeds and tokens.

    >>> from collections import Counter
    >>> import dpsample
    >>> from dpsample import Ppswor, Privacy
    >>> scheme = {"privacy": Privacy(1, 1e-6), "sampling": Ppswor("0.01", seed="2026 public")}
    >>> days = [dpsample.release(Counter({n: 1000 + more for n in range(99)}), **scheme) for more in (0, 10)]
    >>> change = difference(*days)
    >>> 790 < change.value < 1190, 10 < change.standard_error < 40
    (True, True)
    """
    question = Question(
        where=where, weight=weight, of=of, level=level, attributes=attributes, at_least=at_least
    )
    measure = question.measure
    if measure.counts_keys or (measure.kink is not None and measure.form is not Form.CAPPED):
        raise InvalidValue(
            f"a difference cannot be of {measure}, which jumps",
            "ask in_both for numbers of keys, or count_keys of each release",
        )
    asked = _Asked.of(before, after, question)
    lowest = max(side.visible_from for side in asked.sides)
    least = question.at_least or lowest
    if least < lowest:
        raise InvalidValue(
            f"`at_least` must be {lowest} or more, where sampled keys are reported, not {least}",
            "leave it out",
        )
    layers = Layers(measure, [side.visible for side in asked.sides], least, asked.largest)
    first = np.maximum(asked.first_visible, least)
    one, two = asked.frequencies
    values = [
        side.values(row, layers, first) for side, row in zip(asked.sides, asked.rows, strict=True)
    ]
    noise = sum(
        side.spread * layers.slope(i, first) ** 2
        for side, i in zip(asked.sides, (one, two), strict=True)
    )
    seen = layers.probability(np.maximum(np.maximum(one, two), first))
    variance = layers.variance(one, two, first) + seen * noise
    return asked.answer(values[1] - values[0], variance, least, level, len(asked.weights))


def in_both(
    before: "Release",
    after: "Release",
    where: Where = None,
    weight: Weight = None,
    *,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
) -> Estimate:
    """Estimate how many selected keys have frequency `at_least` or more in both; with a weight, its sum over them.

    The number of keys of either is what `count_keys` finds in both together, less this. `at_least` is as for
    `count_keys`. Let a be the value of a token in a number of keys, and pi the probability of being reported: over
    random seeds a_1 a_2 max(pi_1, pi_2), where both report a key, averages to 1 for a key that counts, and to 0 for
    others.
    """
    question = Question(
        where=where, weight=weight, level=level, attributes=attributes, at_least=at_least
    )
    asked = _Asked.of(before, after, question)
    own = [least_frequency(side.scheme, each_key_alike=True) for side in asked.sides]
    least = question.at_least or max(own)
    measure = KEYS.from_frequency(least)
    one, two = (
        side.counted(rows, measure) for side, rows in zip(asked.sides, asked.rows, strict=True)
    )
    each = one.values * two.values * np.maximum(one.reported, two.reported)
    both = int(np.count_nonzero((asked.rows[0] >= 0) & (asked.rows[1] >= 0)))
    return asked.answer(
        each, each**2 - each, least, level, both
    )  # what is estimated is its own square


@dataclass(frozen=True, eq=False)
class _Side:
    """The selected keys of one release."""

    view: TokenView
    places: Ints  # in the release
    weights: Floats
    hashes: Words

    @staticmethod
    def of(release: "Release", question: Question) -> "_Side":
        view = TokenView.of(release.table, release.terms)
        [(places, weights)] = Selection.of(view.rows, question).weighted_rows()[1]
        assert view.scheme.sampling.seed is not None
        keys = key_batch(view.rows.keys.take(places))
        return _Side(view, places, weights, key_hashes(keys, view.scheme.sampling.seed))

    @property
    def scheme(self) -> Scheme:
        return self.view.scheme

    @property
    def cells(self) -> Ints:
        return self.view.cells[self.places]

    @cached_property
    def frequencies(self) -> Ints:
        likeliest: Ints = self.view.frequencies(self.places, 0.95)[0]
        return likeliest

    @cached_property
    def visible_from(self) -> int:
        """The frequency, counted from the first one at which a key is sampled, from which on layers are visible."""
        return least_frequency(self.scheme._replace(sampling=KeepAll()))

    def visible(self, layers: Ints) -> Floats:
        """The probability that a layer is visible."""
        return self.scheme.sampling.q(np.maximum(layers - self.visible_from + 1, 0))

    @property
    def token_weights(self) -> TokenWeights:
        return token_weights(self.scheme.per_key, self.scheme.grid)

    @property
    def spread(self) -> float:
        return self.token_weights.spread

    def values(self, rows: Ints, layers: Layers, first: Ints) -> Floats:
        """The values of keys, by the rows of `places` that they are in, or -1."""
        here = np.flatnonzero(rows >= 0)
        row, start = rows[here], first[here, None]
        offset = first_kept(self.hashes[row], self.scheme.sampling) - 1
        relative = self.cells[row] - offset * self.scheme.grid

        def value(layer: Ints) -> Floats:
            return layers.value(layer + offset[:, None], start)

        values = np.zeros(len(rows))
        values[here] = self.token_weights.values(relative, value)
        return values

    def counted(self, rows: Ints, measure: Measure) -> "_Counted":
        """The values of keys in a number of keys, and their probabilities of being reported; 0 for others."""
        if not len(self.places):
            return _Counted(*np.zeros((2, len(rows))))
        scheme, tallies = self.scheme, Tallies.of([Tally.of(self.cells)])
        functionals = functionals_of(tallies, scheme, measure)
        values = np.append(functionals.total.values(self.cells), 0.0)  # -1 is the last
        reported = reporting_probabilities(self.frequencies, scheme.sampling, scheme.per_key)
        return _Counted(values[rows], np.append(reported, 0.0)[rows])


class _Counted(NamedTuple):
    """The value of each key in a number of keys, and its probability of being reported."""

    values: Floats
    reported: Floats


@dataclass(frozen=True, eq=False)
class _Asked:
    """A question to two releases: the selected keys that either has."""

    sides: tuple[_Side, _Side]
    hashes: Words  # of each key
    rows: tuple[Ints, Ints]  # where it is in each side; -1 if it is not
    weights: Floats

    @staticmethod
    def of(before: "Release", after: "Release", question: Question) -> "_Asked":
        if any(release.keys_only for release in (before, after)):
            raise InvalidValue(
                "two releases of keys only cannot be compared", "release with tokens"
            )
        if not are_coordinated(before, after):
            raise InvalidValue(
                "the samples of these releases were not chosen by one public seed",
                'release each with the same `seed`, such as Ppswor(tau, seed="2026 public")',
            )
        sides = _Side.of(before, question), _Side.of(after, question)
        hashes, back = np.unique(
            np.concatenate([side.hashes for side in sides]), axis=0, return_inverse=True
        )
        rows, weights, start = [], np.zeros(len(hashes)), 0
        for side in sides:
            place = back.reshape(-1)[start : start + len(side.hashes)]
            row = np.full(len(hashes), -1, np.int64)
            row[place], weights[place] = np.arange(len(place)), side.weights
            rows.append(row)
            start += len(place)
        return _Asked(sides, hashes, (rows[0], rows[1]), weights)

    @property
    def frequencies(self) -> tuple[Ints, Ints]:
        """The likeliest frequency of each key; 0 if it was not reported."""
        one, two = (
            np.append(side.frequencies, 0)[row]
            for side, row in zip(self.sides, self.rows, strict=True)
        )
        return one, two

    @property
    def first_visible(self) -> Ints:
        """The first layer of each key that is visible in both releases."""
        one, two = (
            first_kept(self.hashes, side.scheme.sampling) + side.visible_from - 1
            for side in self.sides
        )
        return np.maximum(one, two)

    @property
    def largest(self) -> int:
        """A frequency beyond which nothing is asked."""
        reach = max(support_length(side.scheme.per_key) for side in self.sides)
        return int(max(i.max(initial=1) for i in self.frequencies)) + 8 * reach

    def answer(
        self, values: Floats, variances: Floats, least: int, level: float, keys: int
    ) -> Estimate:
        """The sum over keys, with what each stands for of its variance."""
        variances = self.weights**2 * variances
        total = max(float(variances.sum()), 0.0)
        squares = float((variances**2).sum())
        effective_keys = total**2 / max(squares, 1e-300)
        value, error = float(self.weights @ values), math.sqrt(total)
        quantile = student_quantile(0.5 + level / 2, np.array(2 * effective_keys))
        reach = float(quantile) * error
        found = Estimate(
            value, error, value - reach, value + reach, level, keys=keys, at_least=least
        )
        if not all(len(side.places) for side in self.sides):
            return replace(found, guaranteed=False, notes=(_EMPTY,))
        few = effective_keys < TUNING.least_effective_keys
        return replace(found, notes=(FEW,) if few else ())
