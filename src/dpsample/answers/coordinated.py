"""Questions to two coordinated releases: what changed, and which keys both have. Their samples have the same keys.

Differences are sums over layers of frequencies (`estimators.layers`): in both releases the same layers are visible, so
that a key whose frequency hardly changed adds hardly anything, to the value or to its error.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from dpsample.answers.question import Attributes, Question, Weight, Where, check_options
from dpsample.answers.release import Release
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
    before: Release,
    after: Release,
    where: Where = None,
    weight: Weight = None,
    of: Measure | str = "frequency",
    **options: Unpack[DifferenceOptions],
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
    check_options(options, DifferenceOptions)
    question = Question(where=where, weight=weight, of=of, **options)
    measure = question.measure
    jumps = measure.kink is not None and measure.form is not Form.CAPPED
    if measure.counts_keys or jumps:
        raise InvalidValue(
            f"a difference cannot be of {measure}, which jumps",
            "ask in_both for numbers of keys, or count_keys of each release",
        )
    samples = _TwoSamples.of(before, after, question)
    lowest = max(samples.before.visible_from, samples.after.visible_from)
    least = question.at_least or lowest
    if least < lowest:
        raise InvalidValue(
            f"`at_least` must be {lowest} or more, where sampled keys are reported, not {least}",
            "leave it out",
        )
    one, two = samples.frequencies
    visible = [samples.before.visible, samples.after.visible]
    layers = Layers(measure, visible, least, samples.largest_frequency)
    first = np.maximum(samples.first_visible, least)
    value_before = samples.before.values(samples.rows_before, layers, first)
    value_after = samples.after.values(samples.rows_after, layers, first)

    # the variance of a key: of the layers between its frequencies, over seeds, and of its tokens, if it is sampled
    of_layers = layers.variance(one, two, first)
    of_token_before = samples.before.spread * layers.slope(one, first) ** 2
    of_token_after = samples.after.spread * layers.slope(two, first) ** 2
    highest = np.maximum(np.maximum(one, two), first)
    of_tokens = layers.probability(highest) * (of_token_before + of_token_after)
    each = _OfKeys(value_after - value_before, of_layers + of_tokens)
    return samples.answer(each, least, question.level, keys=len(samples.weights))


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
    samples = _TwoSamples.of(before, after, question)
    least = question.at_least
    if least is None:
        own_before = least_frequency(samples.before.scheme, each_key_alike=True)
        own_after = least_frequency(samples.after.scheme, each_key_alike=True)
        least = max(own_before, own_after)
    measure = KEYS.from_frequency(least)
    one = samples.before.counted(samples.rows_before, measure)
    two = samples.after.counted(samples.rows_after, measure)
    larger_pi = np.maximum(one.reported, two.reported)
    values = one.values * two.values * larger_pi
    in_both_samples = (samples.rows_before >= 0) & (samples.rows_after >= 0)
    # what is estimated, 0 or 1, is its own square
    each = _OfKeys(values, values**2 - values)
    keys = int(np.count_nonzero(in_both_samples))
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
class _TwoSamples:
    """Two coordinated samples, and the selected keys that either has.

    hashes, weights            of each key
    rows_before, rows_after    the row of each key in each sample; -1 if it is not there
    """

    before: _Sample
    after: _Sample
    hashes: Words
    weights: Floats
    rows_before: Ints
    rows_after: Ints

    @staticmethod
    def of(before: Release, after: Release, question: Question) -> "_TwoSamples":
        if before.keys_only or after.keys_only:
            raise InvalidValue(
                "two releases of keys only cannot be compared", "release with tokens"
            )
        if not are_coordinated(before, after):
            raise InvalidValue(
                "the samples of these releases were not chosen by one public seed",
                'release each with the same `seed`, such as Ppswor(tau, seed="2026 public")',
            )
        one = _Sample.of(before, question)
        two = _Sample.of(after, question)
        stacked = np.concatenate([one.hashes, two.hashes])
        hashes, place = np.unique(stacked, axis=0, return_inverse=True)
        place = place.reshape(-1)
        first_after = len(one.hashes)
        place_before = place[:first_after]
        place_after = place[first_after:]
        weights = np.zeros(len(hashes))
        weights[place_before] = one.weights
        weights[place_after] = two.weights
        rows_before = _rows_at(place_before, len(hashes))
        rows_after = _rows_at(place_after, len(hashes))
        return _TwoSamples(one, two, hashes, weights, rows_before, rows_after)

    @property
    def frequencies(self) -> tuple[Ints, Ints]:
        """The likeliest frequency of each key before and after; 0 if it was not reported."""
        before = np.append(self.before.frequencies, 0)[self.rows_before]
        after = np.append(self.after.frequencies, 0)[self.rows_after]
        return before, after

    @property
    def first_visible(self) -> Ints:
        """The first layer of each key that is visible in both releases."""
        firsts = []
        for sample in (self.before, self.after):
            first_sampled = first_kept(self.hashes, sample.scheme.sampling)
            firsts.append(first_sampled + sample.visible_from - 1)
        return np.maximum(*firsts)

    @property
    def largest_frequency(self) -> int:
        """A frequency beyond which nothing is asked."""
        before, after = self.frequencies
        largest = max(before.max(initial=1), after.max(initial=1))
        support_before = support_length(self.before.scheme.per_key)
        support_after = support_length(self.after.scheme.per_key)
        return int(largest) + _SUPPORTS_BEYOND * max(support_before, support_after)

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
        if not len(self.before.places) or not len(self.after.places):
            return replace(found, guaranteed=False, notes=(_EMPTY,))
        if effective_keys < TUNING.least_effective_keys:
            return replace(found, notes=(FEW,))
        return found


def _rows_at(places: Ints, keys: int) -> Ints:
    """Return the row of a sample at each of some keys, given the place of each row among the keys; -1 for none."""
    rows = np.full(keys, -1, np.int64)
    rows[places] = np.arange(len(places))
    return rows
