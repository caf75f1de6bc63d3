"""A release in plain words: its unit of privacy, its sampling, and its detection threshold.

All of it follows from the release and its public parameters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsample.accounting.choice import fuller
from dpsample.accounting.clipped import Beyond, Clipped
from dpsample.accounting.counts import Counts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.dropped import Kept
from dpsample.accounting.filled import Filled
from dpsample.accounting.parts import Part
from dpsample.accounting.reading import Reading
from dpsample.accounting.totals import RealizedSize, Total
from dpsample.exact import shown_number, text
from dpsample.privacy import Privacy
from dpsample.scheme.custom import CustomSampling
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.registered import RegisteredSampling
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import KeepAll, Ppswor, Priority, Sampling
from dpsample.scheme.soft_cap import SoftCap

if TYPE_CHECKING:
    from dpsample.release.terms import Terms

# A difference of two filled capacities counts as clear beyond this number of standard deviations of its noise, which
# noise alone exceeds in one of 20 cases. A larger number would call more choices undecided.
_CLEAR = 2
LEVELS = (Fraction(1, 10), Fraction(1, 2), Fraction(99, 100))  # probabilities that people are told
VOUCHED_BY = "that the file was drawn on them is vouched for by dpsample"
VOUCHED = f"the stated terms are proved private; {VOUCHED_BY}"


def explain_sampling(sampling: Sampling, planned: bool = False) -> str:
    """State how keys were sampled, or how they are sampled by a plan.

    >>> print(explain_sampling(Ppswor(tau=1e-4)))
    a key of frequency i was sampled with probability 1 - exp(-0.0001 i) (threshold ppswor)
    >>> print(explain_sampling(Priority(tau=1e-4, seed="2026 public"), planned=True))
    a key of frequency i is sampled with probability min(1, 0.0001 i) (priority), by its public hash with the seed
    '2026 public': samples with this seed have the same keys
    """
    was = "is" if planned else "was"
    were = "are" if planned else "were"
    match sampling:
        case KeepAll(at_least=1):
            return f"all keys {were} kept"
        case KeepAll():
            return f"all keys of frequency {sampling.at_least:,} or more {were} kept, and no others"
        case RegisteredSampling():
            return f"a key {was} sampled with a probability that the function {sampling.function_name!r} states"
        case CustomSampling():
            return (
                f"a key {was} sampled with a probability that its user defined for each frequency"
            )
        case SoftCap():
            share = float(sampling.share)
            rate = float(sampling.picks.tau)
            probability = f"{share:g} (1 - exp(-{rate:g} i)) (soft cap)"
        case SampleAndHold():
            picked = f"an element of a key that {was} not held {was} picked with probability"
            then = f"from then on its key {was} held, and counted (sample and hold)"
            return f"along a stream, {picked} 1 - exp(-{text(sampling.tau)}); {then}"
        case Ppswor():
            probability = f"1 - exp(-{text(sampling.tau)} {_weight(sampling)}) (threshold ppswor)"
        case Priority():
            probability = f"min(1, {text(sampling.tau)} {_weight(sampling)}) (priority)"
        case _:
            raise AssertionError(sampling)
    words = f"a key of frequency i {was} sampled with probability {probability}"
    if sampling.seed is not None:
        words += f", by its public hash with the seed {sampling.seed!r}: samples with this seed have the same keys"
    return words


def _weight(sampling: Ppswor | Priority) -> str:
    """Return the weight of a key of frequency i, as a formula."""
    weight = "i" if sampling.cap is None else f"min(i, {sampling.cap})"
    return weight if sampling.power == 1 else f"{weight}^{text(sampling.power)}"


def explain_discovery(discovery: Discovery) -> str:
    """State how the keys of users without a contribution bound were found.

    >>> print(explain_discovery(Discovery("one-key", 1, full=26)))
    each user gave one of their keys; a key that 26 users had given took no more, so that others gave rarer keys
    >>> print(explain_discovery(Discovery("many-keys", 64)))
    each user gave up to 64 of their keys
    """
    if discovery.method == "none":
        return "no key was discovered: known keys alone were counted"
    if discovery.method == "one-key":
        found = (
            f"each user gave one of their keys; a key that {discovery.full:,} users had given took no more, so that "
            "others gave rarer keys"
        )
    else:
        found = f"each user gave up to {discovery.keys:,} of their keys"
    if discovery.prior:
        found += "; the keys of an earlier release came first"
    if discovery.look is not None:
        found += f"; a look at how many keys users have came before, for epsilon {text(discovery.look.epsilon)}"
    return found


def explain_choice(filled: Sequence[Filled], keys: int | None = None) -> str:
    """State which ways of discovery were compared, which was chosen, and how to choose it without a comparison.

    With the number of `keys` that were found, it also says about how many the other way would have found, unless noise
    may have decided.

    >>> ways = Filled(1, 21, 2_100, Fraction("0.002")), Filled(32, 134, 34_840, Fraction("0.008"))
    >>> print(explain_choice(ways, keys=104))
    one key of each user could fill about 100 keys (with noise of 34), up to 32 keys of each about 260 (with noise of
    42), measured for epsilon 0.01; the second was chosen, since it fills more; the other would have found about 40
    keys, not 104; --discover many-keys (discover="many-keys") keeps to this way
    """
    one, many = filled
    chose_one = fuller(filled) is one
    chosen = one if chose_one else many
    other = many if chose_one else one
    place = "first" if chose_one else "second"
    method = "one-key" if chose_one else "many-keys"
    spent = text(one.epsilon + many.epsilon)
    words = [
        f"one key of each user could fill about {_capacity_words(one, ' keys')}, up to {many.keys:,} keys of each "
        f"about {_capacity_words(many)}, measured for epsilon {spent}",
        f"the {place} was chosen, since it fills more",
    ]
    noise = math.hypot(_deviation(one), _deviation(many))
    is_clear = chosen.capacity - other.capacity >= _CLEAR * noise
    if not is_clear:
        words.append(
            "they differ by no more than noise may, so that another run may choose the other way"
        )
    elif keys is not None:
        expected = keys * other.capacity / chosen.capacity
        words.append(f"the other would have found about {expected:,.0f} keys, not {keys:,}")
    words.append(f'--discover {method} (discover="{method}") keeps to this way')
    return "; ".join(words)


def _capacity_words(way: Filled, unit: str = "") -> str:
    """Return a filled capacity and the standard deviation of its noise, in words."""
    return f"{way.capacity:,.0f}{unit} (with noise of {_deviation(way):,.0f})"


def _deviation(way: Filled) -> float:
    """Return the standard deviation of a filled capacity, in keys: that of Laplace noise is sqrt(2) scales."""
    return math.sqrt(2) * float(way.scale) / way.full


def explain_counts(counts: Counts) -> str:
    """State how the users of keys were counted.

    >>> print(explain_counts(Counts((), clipped=0.228)))
    numbers are about all users who have a key, with Gaussian noise; about 22.8 % of them, averaged over keys, were
    clipped and put back
    """
    noisy = "numbers are about all users who have a key, with Gaussian noise"
    if not counts.clipped:
        return f"{noisy}; none were clipped"
    percent = max(100 * counts.clipped, 0.0)  # the share is noisy, and may be negative
    return f"{noisy}; about {percent:.3g} % of them, averaged over keys, were clipped and put back"


def explain_amount(clipped: Clipped) -> str:
    """State what was summed, which columns hold the sums, and how much lies beyond the clip.

    >>> from dpsample.accounting.amounts import Amount
    >>> price = Amount("price", Fraction(0), Fraction(100))
    >>> print(explain_amount(Clipped(price, beyond=(0.0, 0.5), beyond_errors=(0.0, 0.1))))
    sums of 'price', from 0 to 100 for each user and key, with Gaussian noise, are sum_price_clipped and its interval;
    sum_price_low to sum_price_high includes values from 0 to 800: those above 100 add about 0.5 for each user and key,
    at most about 0.696; what is beyond this range is in no interval
    """
    amount = clipped.amount
    return (
        f"{amount}, with Gaussian noise, are {amount.clipped} and its interval; {amount.name}_low to "
        f"{amount.name}_high includes {explain_beyond(clipped)}; what is beyond this range is in no interval"
    )


def explain_beyond(clipped: Clipped) -> str:
    """State how much lies beyond the ends of a clip, or that this could not be measured, with its upper bound.

    >>> from dpsample.accounting.amounts import Amount
    >>> print(explain_beyond(Clipped(Amount(None, Fraction(0), Fraction(5)), beyond=(0, 1), beyond_errors=(0, 2))))
    rows up to 40: how much those beyond 5 add could not be measured, at most about 4.92 for each user and key
    """
    amount = clipped.amount
    if amount.column is None:
        beyond_clip = _beyond(f"beyond {int(amount.high):,}", clipped.above)
        return f"rows {amount.wide_range}: {beyond_clip}"
    sides = []
    if amount.low:
        sides.append(_beyond(f"below {text(amount.low)}", clipped.below))
    if amount.high:
        sides.append(_beyond(f"above {text(amount.high)}", clipped.above))
    return f"values {amount.wide_range}: {'; '.join(sides)}"


def _beyond(where: str, beyond: Beyond) -> str:
    """State how much lies beyond one end of a clip."""
    if not beyond.error:  # no key was reported
        return f"nothing is known of those {where}"
    most = f"at most about {shown_number(beyond.most)}"
    if beyond.seen:
        return f"those {where} add about {shown_number(beyond.each)} for each user and key, {most}"
    return f"how much those {where} add could not be measured, {most} for each user and key"


def explain_kept(max_keys: int, kept: Kept | None = None) -> str:
    """State that numbers are of the keys that users kept, and which share of all keys these are, if it was measured.

    >>> print(explain_kept(50))
    numbers are of the keys that users kept, up to 50 each: where users have more keys, they are too low
    >>> print(explain_kept(2, Kept(Total(4100, Fraction(1), Fraction(2)), Total(5900, Fraction(1), Fraction(18)))))
    numbers are of the keys that users kept, up to 2 each: users kept about 41 % of their keys (95 %: 40.7 to 41.3 %),
    of about 10,000 in all (95 %: 9,927 to 10,073), where each user counts with up to 20; this corrects sums over all
    keys, not single keys, which may have lost more or less
    """
    words = f"numbers are of the keys that users kept, up to {max_keys:,} each"
    if kept is None:
        return f"{words}: where users have more keys, they are too low"
    return f"{words}: {kept}; this corrects sums over all keys, not single keys, which may have lost more or less"


def explain_possible(privacy: Privacy) -> str:
    """State from how many users on any method of this privacy could report a key, from public parameters alone.

    >>> print(explain_possible(Privacy(1, 1e-6)))
    no method with this epsilon and delta for users reports a key of fewer than 14 users with probability 1/2 or more
    """
    least = frequency_reaching(0.5, KeepAll(), Privacy(privacy.epsilon, privacy.delta))
    return (
        "no method with this epsilon and delta for users reports a key of fewer than "
        f"{least:,} users with probability 1/2 or more"
    )


def explain_protected(max_keys: int | None = None, unit: str | None = None) -> str:
    """State the unit of privacy of a release; users without a bound on their keys are named by `unit`.

    >>> print(explain_protected())
    each element: one counted occurrence of a key (in aggregated data one unit of frequency, not one row)
    >>> print(explain_protected(50))
    each user (all rows of one user identifier), who counts in up to 50 keys, once in each
    >>> print(explain_protected(unit="user"))
    each user (all rows of one user identifier), with all of their keys
    """
    if max_keys is None and unit == "user":
        return "each user (all rows of one user identifier), with all of their keys"
    if max_keys is None:
        return "each element: one counted occurrence of a key (in aggregated data one unit of frequency, not one row)"
    keys = "1 key" if max_keys == 1 else f"up to {max_keys:,} keys, once in each"
    return f"each user (all rows of one user identifier), who counts in {keys}"


def explain_reading(reading: Reading) -> str:
    """Return how keys were computed, and which rows were read, as a clause.

    >>> from dpsample.accounting.reading import Reading
    >>> print(explain_reading(Reading({"query": "lower(query)"}, "country = 'DE'")))
    read as query = lower(query), of the rows where country = 'DE', chosen without looking at the data
    """
    return f"read as {reading}, chosen without looking at the data"


def explain_part(part: Part, max_keys: int | None = None) -> str:
    """State which part of the dataset was read, and that users are protected within it.

    >>> print(explain_part(Part("day", "2026-11-14"), 50))
    rows with day = 2026-11-14 alone; a user is protected within one day
    """
    rows = f"rows with {part}"
    if not part.vouched:
        rows += " alone"
    if max_keys is None:
        return rows
    return f"{rows}; a user is protected within one {part.name}"


def explain_privacy(privacy: Privacy, max_keys: int | None = None, unit: str | None = None) -> str:
    """State epsilon, delta and the unit of privacy, and that releases add up."""
    return (
        f"{explain_spent(privacy)}, for {explain_protected(max_keys, unit)}, all of "
        "it spent on this release; every further release of the same data adds to it"
    )


def explain_spent(privacy: Privacy) -> str:
    """State epsilon and delta; first the zCDP or GDP that they follow from.

    >>> print(explain_spent(Privacy(1, 1e-6)))
    epsilon 1, delta 1e-06
    """
    if privacy.definition is not None:
        return str(privacy)
    return f"epsilon {text(privacy.epsilon)}, delta {text(privacy.delta)}"


def explain_per_key(per_key: PerKey) -> str:
    """State the share that each key has of a user's privacy.

    >>> print(explain_per_key(Privacy("0.0335281", "1e-8")))
    epsilon 0.0335, delta 1e-08
    """
    if isinstance(per_key, Privacy):
        return f"epsilon {float(per_key.epsilon):.3g}, delta {float(per_key.delta):.2g}"
    return str(per_key)


def explain_total(total: Total) -> str:
    """State a private total, its interval and its cost.

    >>> print(explain_total(Total(5000, Fraction(1, 20), Fraction(1))))
    5,000, with 95 % probability from 4,940 to 5,060; it cost epsilon 0.05
    """
    low, high = total.interval()
    return f"{total.value:,}, with 95 % probability from {low:,} to {high:,}; it cost epsilon {text(total.epsilon)}"


def explain_size(size: RealizedSize) -> str:
    """State how tau was chosen."""
    return (
        f"tau was chosen for about {size.wanted:,} sampled keys at most, from a private total of weights "
        f"({float(size.weights.value):,.0f}) that cost epsilon {text(size.weights.epsilon)}"
    )


def visibility(sampling: Sampling, privacy: PerKey) -> list[tuple[Fraction, int | None]]:
    """Return the lowest frequencies that are reported with probability 10, 50 (the detection threshold) and 99 %."""
    return [(level, frequency_reaching(float(level), sampling, privacy)) for level in LEVELS]


def explain_visibility(sampling: Sampling, privacy: PerKey, key: str = "a key") -> str:
    """State the frequencies that are reported with probability 10, 50 and 99 %.

    >>> print(explain_visibility(KeepAll(), Privacy(1, 1e-6)))
    a key is reported with probability 10 % from frequency 13 on, 50 % from 14, 99 % from 18
    """
    reached = []
    for level, frequency in visibility(sampling, privacy):
        if frequency is not None:
            reached.append((f"{float(100 * level):g} %", f"{frequency:,}"))
    if not reached:
        return "no key is reported with a probability of 10 % or more"
    (lowest, first), *higher = reached
    levels = [f"{lowest} from frequency {first} on"]
    levels += [f"{level} from {frequency}" for level, frequency in higher]
    seeds = "" if sampling.seed is None else ", over random seeds"
    return f"{key} is reported with probability {', '.join(levels)}{seeds}"


def explain_tokens(grid: int) -> str:
    """State which numbers tokens are.

    >>> explain_tokens(8), explain_tokens(1)
    ('in steps of 1/8', 'whole numbers')
    """
    return "whole numbers" if grid == 1 else f"in steps of 1/{grid}"


def explain_mechanism(sampling: Sampling, per_key: PerKey) -> str:
    """State when a key is reported.

    >>> print(explain_mechanism(KeepAll(), Privacy(1, 1e-6)))
    a key is reported with a probability that grows with its frequency
    """
    if isinstance(per_key, KeyNoise):
        return "a key is reported if its frequency, less bounded noise, is at least 1"
    if isinstance(sampling, SampleAndHold):
        return "a key is reported if its count, less bounded noise, is at least 1"
    return "a key is reported with a probability that grows with its frequency"


def explain_reporting(terms: "Terms") -> str:
    """State which frequencies are reported with probability 10, 50 and 99 %, and what is counted as frequency."""
    sampling = terms.sampling
    known = terms.known
    if known is not None and known.only:
        return f"each of {known.keys:,} known keys is reported, also with 0, and no other key"
    words = explain_visibility(sampling, terms.per_key, "a key" if known is None else "another key")
    if known is not None:
        words = f"each of {known.keys:,} known keys is reported, also with 0; {words}"
    if sampling.least > 1:
        words += f"; no key of fewer than {sampling.least:,} {terms.unit}s is reported"
    if terms.unit == "user":
        words += f"; frequency here is the {terms.kind.frequency}"
    return words


@dataclass(frozen=True)
class Strength:
    """What epsilon and delta allow an attacker, in numbers that need no mathematics.

    factor  by which one element or user may change the probability of any output, up to delta
    guess   the largest probability to guess right whether it is in the data, instead of 1/2
    one_in  1 / delta, rounded down
    """

    factor: float
    guess: float
    one_in: int

    @staticmethod
    def of(privacy: Privacy) -> "Strength":
        """Return these numbers for a privacy.

        The best test of presence errs on both sides with probabilities that add up to 2 (1 - delta) / (1 + factor).

        >>> Strength.of(Privacy(1, 1e-6))
        Strength(factor=2.718281828459045, guess=0.731058847..., one_in=1000000)
        """
        epsilon = float(privacy.epsilon)
        delta = float(privacy.delta)
        factor = math.exp(
            min(epsilon, 700.0)
        )  # the largest power of e that floats hold is near 709
        guess = min(1 - (1 - delta) / (1 + factor), 1.0)
        return Strength(factor, guess, math.floor(1 / privacy.delta))


def explain_strength(privacy: Privacy, unit: str) -> list[str]:
    """State how far epsilon and delta limit an attacker: by a factor, in a guess, and by delta.

    >>> print(*explain_strength(Privacy(1, 1e-6), "user"), sep="; ")
    with one user more or less in the data, any set of outputs has a probability of at most 2.719 times what it was,
    which is exp(epsilon), plus delta, which is 1 in 1,000,000; someone who knows all other users, and guesses whether
    one user is in the data, is right with a probability of at most 73.2 %, instead of 50 %; delta is a limit on
    probabilities, not on what is revealed: outputs that break the factor are together at most 1 in 1,000,000 likelier
    than the factor allows, and what such an output reveals has no limit
    """
    strength = Strength.of(privacy)
    factor = shown_number(round_up(strength.factor, 3))
    delta = f"1 in {strength.one_in:,}"
    right = f"{round_up(100 * strength.guess, 1):g} %"
    return [
        f"with one {unit} more or less in the data, any set of outputs has a probability of at most {factor} times "
        f"what it was, which is exp(epsilon), plus delta, which is {delta}",
        f"someone who knows all other {unit}s, and guesses whether one {unit} is in the data, is right with a "
        f"probability of at most {right}, instead of 50 %",
        "delta is a limit on probabilities, not on what is revealed: outputs that break the factor are together at "
        f"most {delta} likelier than the factor allows, and what such an output reveals has no limit",
    ]


def sentence(words: str) -> str:
    """Return words as a sentence.

    >>> sentence("a key is rare")
    'A key is rare.'
    """
    return f"{words[0].upper()}{words[1:]}."


def round_up(bound: float, digits: int) -> float:
    """Round an upper bound up to a number of decimal places, so that it still holds.

    >>> round_up(2.71828, 3), round_up(1e300, 3)
    (2.719, 1e+300)
    """
    return math.ceil(bound * 10**digits) / 10**digits if bound < 1e12 else bound
