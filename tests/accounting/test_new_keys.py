"""Keys that only one user has, reported by noise with an offset: with some new keys and some others, by exact sums."""

import pytest

from dpsample import Privacy
from dpsample.accounting.many_keys import certify_many_keys
from dpsample.scheme.noise import KeyNoise
from noise_laws import exact_delta, law_of

# made by hand: here one new key beside one that exists costs more than two of either kind
NOISE = KeyNoise.of([1, 5, 13, 38, 13, 5, 1], offset=2)
EPSILON = "0.05"


def cost(new: int, others: int) -> float:
    """The exact delta of so many new keys beside others of 40 users, in the worse direction."""
    pairs = [(law_of(NOISE, i), law_of(NOISE, i - 1)) for i in [1] * new + [40] * others]
    back = [(other, one) for one, other in pairs]
    return max(exact_delta(pairs, EPSILON), exact_delta(back, EPSILON))


@pytest.mark.filterwarnings("ignore:delta = 0")
def test_new_keys_cost_more_beside_others_than_alone() -> None:
    """A certificate that forgets the new keys, or looks at one kind alone, is 6 % below the truth here.

    The certificate adds what both kinds cost, which is more than they cost together.
    """
    mixed = cost(1, 1)
    assert mixed > 1.06 * max(cost(0, 2), cost(2, 0), float(2 * NOISE.new_key))
    proved = float(certify_many_keys(NOISE, 2, Privacy(EPSILON, "0.9")).delta)
    assert mixed <= proved
    assert proved == pytest.approx(float(NOISE.new_key) + cost(0, 1), rel=1e-9)
