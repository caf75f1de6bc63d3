"""The kernel: frequencies and coins in; which keys are sampled, which are reported, and with which token, out.

Every decision is made by the integers of `scheme.integer`. Floats only sort out the clear cases: a number that is not
within one part in a billion of a cut point (a thousand times the float laws' error) lies on the same side of the exact
one. The rest, about one key in a billion, is decided in exact arithmetic, with as many further bits as that takes.
All engines use this module.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsample.errors import InvalidValue
from dpsample.lazy import arrow_function, arrow_numbers
from dpsample.private.randomness import Coins, CoinSource, Words
from dpsample.release.key_hash import first_frequencies
from dpsample.release.rows import added_elements
from dpsample.release.terms import Terms
from dpsample.scheme.held import HeldReporting
from dpsample.scheme.integer import IntegerLaw, integer_law
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Priority, Sampling
from dpsample.scheme.soft_cap import SoftCap
from dpsample.scheme.tokens import check_grid, chosen_grid

_CLOSE = 2.0**-30  # relative: what is closer to a cut point than this is decided exactly
_WORD = 2.0**-62  # absolute: what the first 64 bits leave open, with room to spare
_WORDS = 4  # the same as `_WORD`, where words are compared as integers
_FINE = 1408  # bits to which a sampling decision is exact: far below the margin of the smallest delta, 1e-300
# the number of keys with one frequency from which the whole row of its law is computed, rather than a place for each
# key: both give the same tokens; below it a row takes longer, above it the places
_SHARED = 32

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]


def sampled(frequencies: Ints, sampling: Sampling, coins: Coins) -> Rows:
    """Draw a weighted sample of keys by their frequencies: the positions of the sampled keys.

    >>> import numpy as np
    >>> from dpsample import Priority
    >>> from dpsample.private.randomness import StreamCoins
    >>> sampled(np.array([3, 7, 3, 7]), Priority(tau=0.1), StreamCoins(bytes(32)))  # a public key: for an example
    array([1, 3])
    """
    if isinstance(sampling, KeepAll):
        return np.flatnonzero(frequencies >= sampling.at_least)
    assert sampling.seed is None  # a public hash decides instead: see `sampled_batch`
    words = coins.first(len(frequencies))
    u = _uniform(words)
    q = sampling.q(frequencies)
    kept = u < q
    for row in np.flatnonzero(_close(u, q)).tolist():
        kept[row] = _below(int(words[row]), row, sampling, int(frequencies[row]), coins)
    return np.flatnonzero(kept)


def sampled_batch(batch: pa.RecordBatch, sampling: Sampling, coins: Coins) -> pa.RecordBatch:
    """Draw a weighted sample of the keys of a batch with their `frequency`, by coins or by a public hash."""
    frequencies = batch.column("frequency").to_numpy(zero_copy_only=False)
    if sampling.seed is None:
        kept = sampled(frequencies, sampling, coins)
    else:
        keys = batch.drop_columns(["frequency"])
        kept = np.flatnonzero(frequencies >= first_frequencies(keys, sampling))
    return batch if len(kept) == batch.num_rows else batch.take(pa.array(kept))


def picked(n: int, sampling: Sampling, coins: Coins) -> Rows:
    """Pick raw elements, each with probability q_1: the positions, out of n, of those that are picked.

    With ppswor and power 1, the keys of picked elements are exactly a threshold ppswor sample of keys.
    """
    words = coins.first(n)
    # words are compared as integers, so that an element costs one comparison
    [q_of_one] = sampling.q([1]).tolist()
    cut = q_of_one * 2.0**64
    surely_picked = int(cut * (1 - _CLOSE)) - _WORDS
    never_picked = int(cut * (1 + _CLOSE)) + _WORDS
    rows = np.flatnonzero(words < np.uint64(min(never_picked, 2**64 - 1)))
    undecided = rows[words[rows] >= np.uint64(max(surely_picked, 0))]
    not_picked = []
    for row in undecided.tolist():
        if not _below(int(words[row]), row, sampling, 1, coins):
            not_picked.append(row)
    if not not_picked:
        return rows
    return np.setdiff1d(rows, not_picked, assume_unique=True)


def picked_elements(
    elements: pa.RecordBatch, sampling: Sampling, coins: Coins, gate: CoinSource
) -> Rows:
    """Pick elements, rows of key columns, for a sample of their keys: the positions of those that are picked.

    For soft-cap sampling, `gate` supplies coins for each key that are the same in every batch.
    """
    if not isinstance(sampling, SoftCap):
        return picked(elements.num_rows, sampling, coins)
    rows = picked(elements.num_rows, sampling.picks, coins)
    keys = elements.take(pa.array(rows))
    # every key is let in with the same probability, so its frequency does not matter
    once = np.ones(len(rows), np.int64)
    let_in = sampled(once, Priority(sampling.share), gate.for_keys(keys, "sample"))
    return rows[let_in]


class Sanitizer:
    """Reports sampled keys and draws their tokens, for one sampling scheme and privacy.

    sampling   the scheme by which keys were sampled; for a coordinated sample, that by which it is sanitized
    privacy    the mechanism by which each key is reported
    grid       tokens are multiples of 1/grid
    keys_only  keys are reported without tokens
    added      returns what is added to the frequencies of a batch, and taken off their tokens again: for known keys,
               and in a coordinated sample
    """

    def __init__(
        self,
        sampling: Sampling,
        privacy: PerKey,
        grid: int | None = None,
        *,
        keys_only: bool = False,
        added: Callable[[pa.RecordBatch], Ints] | None = None,
    ) -> None:
        self.sampling = sampling
        self.privacy = privacy
        self.keys_only = keys_only
        self.grid = chosen_grid(grid, privacy, sampling=sampling)
        self._added = added
        self._reporting = Reporting.of(sampling, privacy)
        # close calls are rare, but those of one frequency come together: a few laws are enough
        self._law = lru_cache(maxsize=16)(lambda i: integer_law(i, sampling, privacy, self.grid))
        self._steady = self._reporting.steady_from

    def __call__(self, frequencies: Ints, coins: Coins) -> tuple[Rows, Ints]:
        """Return the positions of the keys that are reported, and their tokens in units of 1/grid (0 for keys only).

        A key's uniform number u decides both: with v = u q, where q is the probability of having been sampled, the key
        is reported if v < pi, and its token is the boundary of the law of tokens that v reaches.
        """
        check_grid(self.grid, int(frequencies.max(initial=0)))
        if isinstance(self._reporting, HeldReporting):
            return self._held(frequencies, self._reporting, coins)
        words = coins.first(len(frequencies))
        q = self._sampling_probabilities(frequencies)
        v = _uniform(words) * q
        pi = self._reporting.probabilities(frequencies)
        close = _close(v, pi)
        rows = np.flatnonzero((v < pi) & ~close)
        undecided = np.flatnonzero(close)
        cells = np.zeros(len(rows), np.int64)
        if not self.keys_only:
            cells, unsure = self._tokens(frequencies[rows], v[rows], q[rows])
            undecided = np.append(undecided, rows[unsure])
            rows = rows[~unsure]
            cells = cells[~unsure]

        exact = np.zeros(len(undecided), np.int64)
        for place, row in enumerate(undecided.tolist()):
            exact[place] = self._exactly(int(frequencies[row]), int(words[row]), row, coins)
        reported = exact > 0
        rows = np.append(rows, undecided[reported])
        cells = np.append(cells, exact[reported])
        return rows, np.zeros_like(cells) if self.keys_only else cells

    def _sampling_probabilities(self, frequencies: Ints) -> Floats:
        """Return q of each frequency; one that the scheme never samples is refused."""
        if isinstance(self.sampling, KeepAll):
            return np.ones(len(frequencies))
        q = self.sampling.q(frequencies)
        if not (q > 0).all():
            raise _never_sampled()
        return q

    def _held(self, counts: Ints, reporting: HeldReporting, coins: Coins) -> tuple[Rows, Ints]:
        """Do the same for keys that were held along a stream: a token is the count less a bounded noise."""
        words = coins.first(len(counts))
        u = _uniform(words)
        upper = np.array([cut / reporting.one for cut in reporting.noise_cuts])
        cuts = np.append(0.0, upper)
        noise = np.searchsorted(upper, u, side="right")
        next_cut = np.minimum(noise + 1, len(upper))
        close_below = _close(u, cuts[noise])
        close_above = _close(u, cuts[next_cut])
        for row in np.flatnonzero(close_below | close_above).tolist():
            v = _extended(int(words[row]), row, reporting.bits, coins)
            noise[row] = bisect_right(reporting.noise_cuts, v)
        rows = np.flatnonzero(noise < counts)
        cells = (counts - noise)[rows]
        return rows, np.zeros_like(cells) if self.keys_only else cells

    @classmethod
    def of(cls, terms: Terms) -> "Sanitizer":
        """Return the sanitizer of a release with these terms."""
        added = None
        if terms.known or terms.sampling.seed:
            added = partial(added_elements, terms=terms)
        scheme = terms.sampling.sanitized_as
        return cls(scheme, terms.per_key, terms.grid or 1, keys_only=terms.keys_only, added=added)

    def batch(self, batch: pa.RecordBatch, coins: Coins) -> pa.RecordBatch:
        """Turn a batch of sampled keys with their `frequency` into a batch of the reported keys with their `token`.

        A column `known` may follow: it says which keys are known, and all of these are reported.
        """
        at = batch.schema.get_field_index("frequency")
        frequencies = batch.column(at).to_numpy(zero_copy_only=False)
        added: Ints = np.zeros(len(frequencies), np.int64)
        if self._added is not None:
            added = self._added(batch)
            most_added = max(int(added.max(initial=0)), 0)
            check_grid(self.grid, int(frequencies.max(initial=0)) + most_added)
            if added.min(initial=0) < 0 and (frequencies + added < 1).any():
                raise _never_sampled()
        rows, cells = self(frequencies + added, coins)
        kept = arrow_function("take", batch.remove_column(at), arrow_numbers(rows))
        if self.keys_only:
            return kept
        tokens = cells / self.grid - added[rows]
        return kept.add_column(at, "token", arrow_numbers(tokens))

    def _exactly(self, frequency: int, word: int, row: int, coins: Coins) -> int:
        """Decide by the integer law: the token in units of 1/grid (1 for keys only), 0 if the key is not reported."""
        if self.keys_only:
            bits = self._reporting.bits
            _, q_above = self.sampling.bounds(frequency, bits)
            # pi / q, rounded toward privacy: the upper bound of q divides
            cut = (self._reporting.pi(frequency) << bits) // max(q_above, 1)
            reported = _extended(word, row, bits, coins) < cut
            return int(reported)
        law: IntegerLaw = self._law(frequency)
        u = _extended(word, row, law.bits, coins)
        cell = bisect_right(law.cuts, u)
        if cell == len(law.cuts):
            return 0
        return frequency * self.grid - cell

    def _tokens(self, frequencies: Ints, v: Floats, q: Floats) -> tuple[Ints, Flags]:
        """Return the tokens of reported keys, and for which of them floats cannot tell.

        The boundaries of a frequency's law ascend from 0. If v lies between the k-th of them and the next one, the
        token is k cells, of 1/grid each, below the frequency.
        """
        cells = np.empty(len(v), np.int64)
        above = np.empty_like(v)  # the boundaries that enclose v
        upto = np.empty_like(v)
        if len(v) == 0:
            return cells, np.zeros(0, bool)
        # all steady rows are shifts of one another, so their keys share one row
        law_of = np.minimum(frequencies, self._steady)
        distinct, member, keys = np.unique(law_of, return_inverse=True, return_counts=True)
        shared = (keys >= _SHARED) | (distinct == self._steady)
        alone = np.flatnonzero(~shared[member])
        located = self._reporting.locate(frequencies[alone], v[alone], self.grid)
        cells[alone], above[alone], upto[alone] = located

        by_law = np.argsort(member, kind="stable")
        ends = np.cumsum(keys)
        starts = ends - keys
        for frequency, boundaries in self._reporting.boundaries(distinct[shared], self.grid):
            law = int(np.searchsorted(distinct, frequency))
            at = by_law[starts[law] : ends[law]]  # the keys of this law
            cell = np.searchsorted(boundaries, v[at], side="right") - 1
            next_boundary = np.minimum(cell + 1, len(boundaries) - 1)
            cells[at] = frequencies[at] * self.grid - cell
            above[at] = boundaries[cell]
            upto[at] = boundaries[next_boundary]
        return cells, ~_clearly_between(v, above, upto, q)


def _clearly_between(v: Floats, above: Floats, upto: Floats, q: Floats) -> Flags:
    """Return whether floats can tell that v lies between two boundaries; nothing lies below a boundary of 0."""
    clearly_below = (v < upto) & ~_close(v, upto, q)
    clearly_above = (v > above) & ~_close(v, above, q)
    clear: Flags = clearly_below & (clearly_above | (above == 0))
    return clear


def _never_sampled() -> InvalidValue:
    return InvalidValue(
        "a sampled key has a positive probability of being sampled, but this scheme never samples one of these",
        "state the scheme by which the sample was drawn",
    )


def _uniform(words: Words) -> Floats:
    """Return the uniform numbers in [0, 1) that begin with these 64 bits."""
    return np.multiply(words, 2.0**-64, dtype=np.float64)


def _close(u: Floats, cut: Floats, scale: Floats | float = 1.0) -> Flags:
    """Return whether floats, or 64 bits, are too few to tell on which side of a cut a number lies.

    `scale` is the factor by which the uniform number was multiplied, and what its further bits are worth.
    """
    return np.abs(u - cut) <= _CLOSE * cut + _WORD * scale


def _below(word: int, row: int, sampling: Sampling, frequency: int, coins: Coins) -> bool:
    """Whether a uniform number that begins with `word` lies below q, to `_FINE` bits."""
    q_below, _ = sampling.bounds(frequency, _FINE)
    return _extended(word, row, _FINE, coins) < q_below


def _extended(word: int, row: int, bits: int, coins: Coins) -> int:
    """Return as many bits of a row's uniform number, which begins with `word`."""
    return word << (bits - 64) | coins.more(row, bits - 64)
