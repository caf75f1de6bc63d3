"""Questions to coordinated releases: what changed, and which keys two have. Their samples have the same keys.

Differences are sums over layers of frequencies (`estimators.layers`): in all releases the same layers are visible, so
that a key whose frequency hardly changed adds hardly anything, to the value or to its error.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from dpsample.answers.question import Attributes, Question, Weight, Where, check_options
from dpsample.answers.release import Release
from dpsample.answers.selection import Selection
from dpsample.answers.several import Combined, releases_of
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

_EMPTY = "a release reports no selected key: what it does not report is not in the interval"
# Layers are summed up to this many token supports above the likeliest frequencies: no token law reaches further.
_SUPPORTS_BEYOND = 8
_TINY = 1e-300  # keeps ratios of zeros defined


class DifferenceOptions(TypedDict, total=False):
    """The options of `difference` and `in_both`."""

    level: float
    attributes: Attributes
    at_least: int | None


def are_coordinated(*releases: Release) -> bool:
    """Whether one public hash chose the keys of releases with tokens, which have as many key columns."""
    seeds = {release.sampling.seed for release in releases}
    widths = {len(release.keys) for release in releases}
    have_tokens = all(release.grid for release in releases)
    return have_tokens and None not in seeds and len(seeds) == len(widths) == 1


def difference(
    before: Release | Combined,
    after: Release | Combined,
    where: Where = None,
    weight: Weight = None,
    of: Measure | str = "frequency",
    **options: Unpack[DifferenceOptions],
) -> Estimate:
    """Estimate how much a sum over the selected keys changed, from coordinated releases: two, or two combined ones.

    A key counts with what it has above the frequency `at_least` - 1 in a release: the estimate is of the sum of
    ``max(i, at_least - 1)`` over the releases after, less that over those before. So a change below this frequency does
    not count, and one across it counts in part. By default `at_least` is a little above the frequency from which on all
    sampled keys are reported. `of` is a function that grows without jumps: "frequency", "log1p", "power:2" or
    "capped:100". The other arguments are those of `Release.sum`. The interval has nominal coverage over random seeds
    and tokens. Both sides have the same number of releases: otherwise the sums differ whatever the keys do.

    >>> from collections import Counter
    >>> import dpsample
    >>> from dpsample import Ppswor, Privacy
    >>> scheme = {"privacy": Privacy(1, 1e-6), "sampling": Ppswor("0.01", seed="2026 public")}
    >>> days = [dpsample.release(Counter({n: 1000 + more for n in range(99)}), **scheme) for more in (0, 10)]
    >>> change = difference(*days)
    >>> 790 < change.value < 1190, 10 < change.standard_error < 40
    (True, True)
    """
    check_options(options, DifferenceOptions)
    question = Question(where=where, weight=weight, of=of, **options)
    measure = question.measure
    jumps = measure.kink is not None and measure.form is not Form.CAPPED
    if measure.counts_keys or jumps:
        raise InvalidValue(
            f"a difference cannot be of {measure}, which jumps",
            "ask in_both for numbers of keys, or count_keys of each release",
        )
    releases_before, releases_after = releases_of(before), releases_of(after)
    if len(releases_before) != len(releases_after):
        raise InvalidValue(
            f"{len(releases_before):,} releases before and {len(releases_after):,} after have no sums to compare",
            "give as many before as after, or ask changes",
        )
    samples = _Samples.of([*releases_before, *releases_after], question)
    lowest = max(sample.visible_from for sample in samples.each)
    least = question.at_least or lowest
    if least < lowest:
        raise InvalidValue(
            f"`at_least` must be {lowest} or more, where sampled keys are reported, not {least}",
            "leave it out",
        )
    signs = [-1] * len(releases_before) + [1] * len(releases_after)
    visible = [sample.visible for sample in samples.each]
    layers = Layers(measure, visible, least, samples.largest_frequency)
    first = np.maximum(samples.first_visible, least)
    changes = np.zeros(len(samples.hashes))
    for sample, rows, sign in zip(samples.each, samples.rows, signs, strict=True):
        changes += sign * sample.values(rows, layers, first)
    variances = _variances(samples, signs, layers, first)
    return samples.answer(_OfKeys(changes, variances), least, question.level, len(samples.hashes))


def _variances(samples: "_Samples", signs: Sequence[int], layers: Layers, first: Ints) -> Floats:
    """What each key stands for of the variance of its change: that of its layers, over seeds, and of its tokens.

    With x_d the value of release d, and signs s_d that sum to 0, the variance of ``sum s_d x_d`` is minus the sum of
    ``s_d s_e var(x_d - x_e)`` over pairs of releases. A key has tokens if it is sampled.
    """
    frequencies = samples.frequencies
    of_layers = np.zeros(len(first))
    for d, e in itertools.combinations(range(len(signs)), 2):
        of_pair = layers.variance(frequencies[d], frequencies[e], first)
        of_layers -= signs[d] * signs[e] * of_pair
    of_tokens = np.zeros(len(first))
    highest = first
    for sample, frequency in zip(samples.each, frequencies, strict=True):
        of_tokens += sample.spread * layers.slope(frequency, first) ** 2
        highest = np.maximum(highest, frequency)
    return np.maximum(of_layers, 0.0) + layers.probability(highest) * of_tokens


def in_both(
    before: Release,
    after: Release,
    where: Where = None,
    weight: Weight = None,
    **options: Unpack[DifferenceOptions],
) -> Estimate:
    """Estimate how many selected keys have frequency `at_least` or more in both; with a weight, its sum over them.

    The number of keys of either is what `count_keys` finds in both together, less this. `at_least` is as for
    `count_keys`. Let a be the value of a token in a number of keys, and pi the probability of being reported: over
    random seeds a_1 a_2 max(pi_1, pi_2), where both report a key, averages to 1 for a key that counts, and to 0 for
    others.
    """
    check_options(options, DifferenceOptions)
    question = Question(where=where, weight=weight, **options)
    samples = _Samples.of([before, after], question)
    least = question.at_least
    if least is None:
        schemes = [sample.scheme for sample in samples.each]
        least = max(least_frequency(scheme, each_key_alike=True) for scheme in schemes)
    measure = KEYS.from_frequency(least)
    one, two = samples.counted(measure)
    larger_pi = np.maximum(one.reported, two.reported)
    values = one.values * two.values * larger_pi
    in_each_sample = np.all([rows >= 0 for rows in samples.rows], axis=0)
    # what is estimated, 0 or 1, is its own square
    each = _OfKeys(values, values**2 - values)
    keys = int(np.count_nonzero(in_each_sample))
    return samples.answer(each, least, question.level, keys)


class _OfKeys(NamedTuple):
    """What each key adds to an estimate, and what it stands for of its variance."""

    values: Floats
    variances: Floats


class _Counted(NamedTuple):
    """The value of each key in a number of keys, and its probability of being reported."""

    values: Floats
    reported: Floats


@dataclass(frozen=True, eq=False)
class _Sample:
    """The selected keys of one release.

    places  the rows of the keys in the release
    hashes  the public hashes that chose the keys
    """

    view: TokenView
    places: Ints
    weights: Floats
    hashes: Words

    @staticmethod
    def of(release: Release, question: Question) -> "_Sample":
        view = TokenView.of(release.table, release.terms)
        _, [(places, weights)] = Selection.of(view.rows, question).weighted_rows()
        seed = view.scheme.sampling.seed
        assert seed is not None
        keys = key_batch(view.rows.keys.take(places))
        return _Sample(view, places, weights, key_hashes(keys, seed))

    @property
    def scheme(self) -> Scheme:
        return self.view.scheme

    @property
    def cells(self) -> Ints:
        """The tokens of the keys, in units of 1/grid."""
        return self.view.cells[self.places]

    @cached_property
    def frequencies(self) -> Ints:
        """The likeliest frequency of each key."""
        likeliest: Ints = self.view.frequencies(self.places, 0.95)[0]
        return likeliest

    @cached_property
    def visible_from(self) -> int:
        """The first frequency at which layers are visible, counted from the one at which a key is sampled."""
        return least_frequency(self.scheme._replace(sampling=KeepAll()))

    def visible(self, layers: Ints) -> Floats:
        """Return the probability that each layer is visible."""
        sampled_by = np.maximum(layers - self.visible_from + 1, 0)
        return self.scheme.sampling.q(sampled_by)

    @property
    def _token_weights(self) -> TokenWeights:
        return token_weights(self.scheme.per_key, self.scheme.grid)

    @property
    def spread(self) -> float:
        """The variance that a token has around its frequency."""
        return self._token_weights.spread

    def values(self, rows: Ints, layers: Layers, first: Ints) -> Floats:
        """Return the values of keys: by their rows in this sample, or -1, and their first visible layers.

        A key that is sampled from frequency h on has the token of its frequency less h - 1.
        """
        here = np.flatnonzero(rows >= 0)
        row = rows[here]
        first_here = first[here, None]
        before_sampled = first_kept(self.hashes[row], self.scheme.sampling) - 1
        tokens = self.cells[row] - before_sampled * self.scheme.grid

        def value(layer: Ints) -> Floats:
            return layers.value(layer + before_sampled[:, None], first_here)

        values = np.zeros(len(rows))
        values[here] = self._token_weights.values(tokens, value)
        return values

    def counted(self, rows: Ints, measure: Measure) -> _Counted:
        """Return the values of keys in a number of keys; 0 for keys that are not in this sample, at row -1."""
        if not len(self.places):
            nothing = np.zeros(len(rows))
            return _Counted(nothing, nothing)
        scheme = self.scheme
        tallies = Tallies.of([Tally.of(self.cells)])
        functionals = functionals_of(tallies, scheme, measure)
        values = functionals.total.values(self.cells)
        reported = reporting_probabilities(self.frequencies, scheme.sampling, scheme.per_key)
        # row -1 is the last one
        values_or_0 = np.append(values, 0.0)
        reported_or_0 = np.append(reported, 0.0)
        return _Counted(values_or_0[rows], reported_or_0[rows])


@dataclass(frozen=True, eq=False)
class _Samples:
    """Coordinated samples, and the selected keys that any of them has.

    each            the samples
    hashes, weights of each key
    rows            for each sample, the row of each key in it; -1 if it is not there
    """

    each: list[_Sample]
    hashes: Words
    weights: Floats
    rows: list[Ints]

    @staticmethod
    def of(releases: Sequence[Release], question: Question) -> "_Samples":
        if any(release.keys_only for release in releases):
            raise InvalidValue("releases of keys only cannot be compared", "release with tokens")
        if not are_coordinated(*releases):
            raise InvalidValue(
                "the samples of these releases were not chosen by one public seed",
                'release each with the same `seed`, such as Ppswor(tau, seed="2026 public")',
            )
        samples = [_Sample.of(release, question) for release in releases]
        stacked = np.concatenate([sample.hashes for sample in samples])
        hashes, place = np.unique(stacked, axis=0, return_inverse=True)
        ends = np.cumsum([len(sample.hashes) for sample in samples])
        places = np.split(place.reshape(-1), ends[:-1])
        weights = np.zeros(len(hashes))
        rows = []
        for sample, own in zip(samples, places, strict=True):
            weights[own] = sample.weights
            rows.append(_rows_at(own, len(hashes)))
        return _Samples(samples, hashes, weights, rows)

    def counted(self, measure: Measure) -> list[_Counted]:
        """Return the values of keys in a number of keys, by each sample."""
        pairs = zip(self.each, self.rows, strict=True)
        return [sample.counted(rows, measure) for sample, rows in pairs]

    @cached_property
    def frequencies(self) -> list[Ints]:
        """The likeliest frequency of each key in each release; 0 if it was not reported."""
        frequencies = []
        for sample, rows in zip(self.each, self.rows, strict=True):
            # row -1 is the last one
            own = np.append(sample.frequencies, 0)
            frequencies.append(own[rows])
        return frequencies

    @property
    def first_visible(self) -> Ints:
        """The first layer of each key that is visible in all releases."""
        first = np.zeros(len(self.hashes), np.int64)
        for sample in self.each:
            first_sampled = first_kept(self.hashes, sample.scheme.sampling)
            first = np.maximum(first, first_sampled + sample.visible_from - 1)
        return first

    @property
    def largest_frequency(self) -> int:
        """A frequency beyond which nothing is asked."""
        largest = max(int(frequency.max(initial=1)) for frequency in self.frequencies)
        support = max(support_length(sample.scheme.per_key) for sample in self.each)
        return largest + _SUPPORTS_BEYOND * support

    def answer(self, each: _OfKeys, least: int, level: float, keys: int) -> Estimate:
        """Return the sum over keys. The error rests on an effective number of keys (Kish)."""
        variances = self.weights**2 * each.variances
        variance = max(float(variances.sum()), 0.0)
        squares = float((variances**2).sum())
        effective_keys = variance**2 / max(squares, _TINY)
        value = float(self.weights @ each.values)
        error = math.sqrt(variance)
        degrees_of_freedom = np.array(2 * effective_keys)
        quantile = student_quantile(0.5 + level / 2, degrees_of_freedom)
        reach = float(quantile) * error
        found = Estimate(value, error, value - reach, value + reach, level)
        found = replace(found, keys=keys, at_least=least)
        if not all(len(sample.places) for sample in self.each):
            return replace(found, guaranteed=False, notes=(_EMPTY,))
        if effective_keys < TUNING.least_effective_keys:
            return replace(found, notes=(FEW,))
        return found


def _rows_at(places: Ints, keys: int) -> Ints:
    """Return the row of a sample at each of some keys, given the place of each row among the keys; -1 for none."""
    rows = np.full(keys, -1, np.int64)
    rows[places] = np.arange(len(places))
    return rows
