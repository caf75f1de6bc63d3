"""The door to randomness: fresh, uniform, never repeated."""

import multiprocessing
import pickle
from multiprocessing.connection import Connection

import numpy as np
import pytest

from dpsample.private.randomness import SecretCoins
from given_coins import GivenCoins

pytestmark = pytest.mark.chance("odds 4e-8: two of 2**20 uniform words of 64 bits coincide; all else is far rarer")


def test_two_secrets_share_no_word() -> None:
    # two of 2 * 10**5 uniform 64-bit words coincide with odds of 1e-9
    words = np.concatenate([SecretCoins().first(100_000), SecretCoins().first(100_000)])
    assert len(np.unique(words)) == len(words)


def test_a_stream_does_not_repeat_itself() -> None:
    coins = SecretCoins()
    words = np.concatenate([coins.first(n) for n in (1, 3, 0, 50_000, 50_000)])
    assert len(np.unique(words)) == len(words) == 100_004


def test_pieces_of_a_long_request_differ() -> None:
    words = SecretCoins().first((1 << 20) + 10)
    assert len(np.unique(words)) == len(words)  # odds of a false alarm: 2**40 / 2**65 = 3e-8


def test_every_bit_is_fair() -> None:
    # each bit's number of ones in n words is binomial(n, 1/2); |z| > 7 has odds of 2.6e-12, times 64 bits
    n = 1 << 20
    words = SecretCoins().first(n)
    ones = np.array([int(((words >> np.uint64(b)) & np.uint64(1)).sum()) for b in range(64)])
    assert np.abs((ones - n / 2) / np.sqrt(n / 4)).max() < 7


def test_more_bits_have_the_asked_length_and_differ() -> None:
    coins = SecretCoins()
    coins.first(1)
    more = [coins.more(0, 100) for _ in range(1000)]
    assert max(more).bit_length() <= 100
    assert len(set(more)) == 1000
    assert max(more).bit_length() > 90  # odds of a false alarm: 2**-10000


def _child(coins: SecretCoins, pipe: Connection) -> None:
    pipe.send(coins.first(1000))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process with threads
def test_a_forked_process_draws_its_own() -> None:
    context = multiprocessing.get_context("fork")
    coins = SecretCoins()
    here, there = context.Pipe()
    child = context.Process(target=_child, args=(coins, there))
    child.start()
    theirs = here.recv()
    child.join()
    assert not set(theirs.tolist()) & set(coins.first(1000).tolist())


def test_a_pickled_copy_draws_its_own() -> None:
    coins = SecretCoins()
    copies = [pickle.loads(pickle.dumps(coins)) for _ in range(2)]
    words = np.concatenate([own.first(100) for own in (coins, *copies)])
    assert len(np.unique(words)) == 300  # nor are those of two copies the same
    assert repr(coins) == "SecretCoins()"


def test_given_coins_are_served_in_order_and_run_out() -> None:
    coins = GivenCoins(np.arange(5, dtype=np.uint64), rest=0b1011)
    assert coins.first(2).tolist() == [0, 1]
    assert coins.first(3).tolist() == [2, 3, 4]
    assert coins.more(0, 2) == 0b11
    with pytest.raises(IndexError):
        coins.first(1)
