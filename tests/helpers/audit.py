"""An audit from outside: are releases of neighbouring datasets as hard to tell apart as they claim?

A statistical tester that sees releases only, no mathematics of ours. It is a histogram tester, as DP-Auditorium has one
(Kong, Munoz Medina, Ribero and Syed, "DP-Auditorium: a large-scale library for auditing differential privacy", 2024),
in our own words. For datasets D and D' of which one has an element, or a user, more:

    1. Release both many times. Half of the outcomes choose the event: the values that D shows much more often than D',
       as many of them as promise the largest bound in step 2.
    2. The other half test it. With exact bounds of Clopper and Pearson, the claim is refuted if
       lower(Pr[D in event]) - exp(epsilon) upper(Pr[D' in event]) > delta; and with D and D' exchanged.

The bounds hold with probability 1 - 1e-9 each, whatever the laws are, so a true claim is refuted with odds of at most
2e-9 in each direction: 8e-8 for the 20 pairs below.

A dataset has many keys of one frequency, each of which is one outcome: keys are drawn independently (which other tests
check), so a release of 400,000 keys is 400,000 releases of one. Pairs of keys are outcomes for a user who has two.
Totals are one outcome for each release.

Power: a delta of 0.0122 instead of 0.01 is refuted with probability 0.99 (tested). The cheats at the end, releases that
are less private than they claim, must all be refuted: each is by some seven standard deviations, so one escapes with
odds below 1e-10. Small deltas are out of reach of any such test; these are proved.

Then come the checks of `audit_checks.py`, which need no such statistics: repeated releases have other noise, and so
on.

Run it with `make audit`, which installs the package in an environment of its own. It needs about a minute and a half.
"""

import math
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent))  # with -I, a script's own folder is left out

import audit_checks
import dpsample
from dpsample import KeepAll, Ppswor, Priority, Privacy, Sample, Sampling
from dpsample.private.engine.duckdb import DuckDB

Outcomes = NDArray[np.int64]  # one number for each release, or for each key of a large one

CLAIM = Privacy("0.5", "0.01")
ODDS = 1e-9  # that one bound does not hold
KEYS = 400_000
PAIRS = 100_000
TOTALS = 300


@dataclass(frozen=True)
class Verdict:
    """The largest delta that is certain, up to the odds, at the claimed epsilon, and the claimed one."""

    delta: float
    claimed: float

    @property
    def refuted(self) -> bool:
        """Whether the claim is false, up to the odds."""
        return self.delta > self.claimed


def audit(one: Outcomes, other: Outcomes, claim: Privacy) -> Verdict:
    """Test a claim from outcomes of neighbouring datasets, in both directions."""
    E = math.exp(claim.epsilon)
    return Verdict(max(certain_delta(one, other, E), certain_delta(other, one, E)), float(claim.delta))


def certain_delta(one: Outcomes, other: Outcomes, E: float) -> float:
    """A lower bound of Pr[one in T] - E Pr[other in T], for an event T that is chosen from half of the outcomes."""
    values, counts = np.unique(one[::2], return_counts=True)
    places = np.searchsorted(values, other[::2]).clip(0, len(values) - 1)
    others = np.bincount(places[values[places] == other[::2]], minlength=len(values))
    order = np.argsort(others / counts, kind="stable")
    p, q = np.cumsum(counts[order]) / len(one[::2]), np.cumsum(others[order]) / len(other[::2])
    excess = (
        p - E * q - 6 * np.sqrt(p / len(one[1::2])) - 6 * E * np.sqrt(q / len(other[1::2]))
    )  # 6: about what `ODDS` is
    event = values[order[: int(excess.argmax()) + 1]]
    hits, false = (int(np.isin(half, event).sum()) for half in (one[1::2], other[1::2]))
    return lower_bound(hits, len(one[1::2])) - E * upper_bound(false, len(other[1::2]))


def lower_bound(count: int, n: int) -> float:
    """A probability that is at most the true one, with odds of error `ODDS`: Clopper and Pearson's."""
    return float(stats.beta.ppf(ODDS, count, n - count + 1)) if count else 0.0


def upper_bound(count: int, n: int) -> float:
    """A probability that is at least the true one, with odds of error `ODDS`."""
    return float(stats.beta.isf(ODDS, count + 1, n - count)) if count < n else 1.0


# ---- releases, end to end


def tokens(release: dpsample.Release, keys: int) -> Outcomes:
    """The token of each key in units of the grid, 0 if it is not reported; of keys only, 1 if it is.

    Of counted users, what was measured in steps of a fifth of its error, cut off, from 1 on.
    """
    found = np.zeros(keys, np.int64)
    if release.terms.counts is not None:
        measured, error = (release.table[name].to_numpy() for name in ("measured", "standard_error"))
        found[release.table["key"].to_numpy()] = np.clip(np.rint(5 * measured / error), -20, 20).astype(np.int64) + 21
        return found
    cells = 1 if release.grid is None else np.rint(release.table["token"].to_numpy() * release.grid).astype(np.int64)
    found[release.table["key"].to_numpy()] = cells
    return found


def by_element(frequency: int, sampling: Sampling, privacy: Privacy, keys_only: bool = False) -> Outcomes:
    """Outcomes of keys of one frequency."""
    if frequency == 0:
        return np.zeros(KEYS, np.int64)  # a key that is not in the data
    table = pa.table({"key": np.arange(KEYS), "n": np.full(KEYS, frequency)})
    options: dict[str, Any] = {"privacy": privacy, "sampling": sampling, "keys_only": keys_only}
    return tokens(dpsample.release(table, "key", "n", **options), KEYS)


def by_user(
    frequency: int, more: bool, sampling: Sampling, privacy: Privacy, protect: bool = True, **discovery: Any
) -> Outcomes:
    """Outcomes of pairs of keys with so many users each, and one more who has both."""
    keys = np.repeat(np.arange(2 * PAIRS), frequency)
    users = np.arange(len(keys)) + PAIRS
    if more:
        keys, users = np.append(keys, np.arange(2 * PAIRS)), np.append(users, np.arange(2 * PAIRS) // 2)
    table = pa.table({"key": keys, "user": users})
    options: dict[str, Any] = {"user": "user", "max_keys_per_user": 2} if protect else {}
    if discovery:
        options = {"user": "user", "discover": "one-key", **discovery}
    release = dpsample.release(table, "key", privacy=privacy, sampling=sampling, **options)
    whole = -(-tokens(release, 2 * PAIRS) // (release.grid or 1))  # few values, for there are pairs of them
    return whole[::2] * 1000 + whole[1::2]


def by_known(frequency: int, privacy: Privacy) -> Outcomes:
    """Outcomes of known keys of one frequency, which are all reported, also with 0."""
    keys = np.arange(KEYS)
    other = pa.table({"key": np.array([KEYS]), "n": np.array([1])})
    table = other if frequency == 0 else pa.table({"key": keys, "n": np.full(KEYS, frequency)})
    release = dpsample.release(table, "key", "n", privacy=privacy, keys=pa.table({"key": keys}), only_known=True)
    found = np.empty(KEYS, np.int64)
    found[release.table["key"].to_numpy()] = np.rint(release.table["token"].to_numpy() * release.grid).astype(np.int64)
    return found


def by_total(elements: int, privacy: Privacy, engine: DuckDB) -> Outcomes:
    """Noisy totals of a small dataset."""
    found = []
    for _ in range(TOTALS):
        release = dpsample.release({"a": elements}, privacy=privacy, total="0.9", keys_only=True, engine=engine)
        assert release.total is not None
        found.append(int(release.total.value) - elements // 2)
    return np.array(found)


def by_sample(frequency: int, drawn: Sampling, stated: Sampling, privacy: Privacy) -> Outcomes:
    """Outcomes of keys that were sampled in one way and are sanitized as if it had been another."""
    if frequency == 0:
        return np.zeros(KEYS, np.int64)
    table = pa.table({"key": np.arange(KEYS), "n": np.full(KEYS, frequency)})
    sample = dpsample.sample(table, "key", "n", sampling=drawn)
    return tokens(dpsample.sanitize(Sample(sample.table, stated, "key"), privacy=privacy), KEYS)


def claims() -> dict[str, Callable[[], tuple[Outcomes, Outcomes]]]:
    """Pairs of neighbouring datasets, whose releases claim `CLAIM`."""

    def element(i: int, sampling: Sampling, keys_only: bool = False) -> Callable[[], tuple[Outcomes, Outcomes]]:
        return lambda: (by_element(i, sampling, CLAIM, keys_only), by_element(i - 1, sampling, CLAIM, keys_only))

    def user(i: int, sampling: Sampling) -> Callable[[], tuple[Outcomes, Outcomes]]:
        return lambda: (by_user(i, True, sampling, CLAIM), by_user(i, False, sampling, CLAIM))

    def discovered(i: int, keys_only: bool) -> Callable[[], tuple[Outcomes, Outcomes]]:
        return lambda: (
            by_user(i, True, KeepAll(), CLAIM, keys_only=keys_only),
            by_user(i, False, KeepAll(), CLAIM, keys_only=keys_only),
        )

    def total() -> tuple[Outcomes, Outcomes]:
        with DuckDB() as engine:
            return by_total(101, CLAIM, engine), by_total(100, CLAIM, engine)

    def many_keys() -> tuple[Outcomes, Outcomes]:
        options: dict[str, Any] = {"discover": "many-keys", "keys_only": True}
        with_one = by_user(20, True, KeepAll(), CLAIM, **options)
        return with_one, by_user(20, False, KeepAll(), CLAIM, **options)

    def known() -> tuple[Outcomes, Outcomes]:
        return by_known(1, CLAIM), by_known(0, CLAIM)

    zcdp = Privacy.zcdp("0.02", "0.01")  # at most epsilon 0.41, so within the claim

    def by_zcdp() -> tuple[Outcomes, Outcomes]:
        return by_element(1, KeepAll(), zcdp), by_element(0, KeepAll(), zcdp)

    schemes = (KeepAll(), Ppswor("0.1"), Priority("0.05"))
    return {
        **{f"an element more at frequency {i}, {s}": element(i, s) for i in (1, 2, 7, 20) for s in schemes},
        "an element more at frequency 5, keys only": element(5, KeepAll(), keys_only=True),
        "a user more in two keys of 3 users": user(3, KeepAll()),
        "a user more in two keys of 4 users, discovered": discovered(4, keys_only=True),
        "a user more in two keys of 6 users, discovered and counted": discovered(6, keys_only=False),
        "a user more in two keys of 20 users, each giving many": many_keys,
        "an element more of a known key that is not in the data": known,
        f"an element more at frequency 1, {zcdp.definition}": by_zcdp,
        "an element more in a total": total,
    }


def cheats() -> dict[str, Callable[[], tuple[Outcomes, Outcomes]]]:
    """Releases that are less private than they claim, in one way each."""

    def total() -> tuple[Outcomes, Outcomes]:
        with DuckDB() as engine:
            return by_total(101, Privacy(10, "0.01"), engine), by_total(100, Privacy(10, "0.01"), engine)

    keep, larger, wider = KeepAll(), Privacy("0.5", "0.0135"), Privacy("0.6", "0.01")
    return {
        "a delta of 0.0135": lambda: (by_element(1, keep, larger), by_element(0, keep, larger)),
        "an epsilon of 0.6": lambda: (by_element(7, keep, wider), by_element(6, keep, wider)),
        "a sample of all keys that says it is one of few": lambda: (
            by_sample(2, keep, Ppswor("0.1"), CLAIM),
            by_sample(1, keep, Ppswor("0.1"), CLAIM),
        ),
        "users who are protected as elements are": lambda: (
            by_user(3, True, keep, CLAIM, protect=False),
            by_user(3, False, keep, CLAIM, protect=False),
        ),
        "a total with hardly any noise": total,
    }


def main() -> int:
    """Test all claims, all cheats, and the checks; return 1 if one is not as it should be."""
    if not Path(dpsample.__file__).is_relative_to(sysconfig.get_path("purelib")):
        print("The audit is one of the installed package. Run it with `make audit`.", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore", dpsample.PrivacyWarning)  # a cheat has a large delta
    wrong = 0
    for expected, cases in ((False, claims()), (True, cheats())):
        print("Less private than they claim:" if expected else f"Claims of {CLAIM}:")
        for name, draw in cases.items():
            verdict = audit(*draw(), CLAIM)
            wrong += verdict.refuted is not expected
            result = "refuted" if verdict.refuted else "not refuted"
            print(f"  {name}: delta is at least {max(verdict.delta, 0.0):.4f}, {result}", flush=True)
    print("From outside:")
    wrong += failed(audit_checks.CHECKS)
    print("As it should be." if not wrong else f"{wrong} of these are not as they should be.")
    return int(wrong > 0)


def failed(checks: Iterable[Callable[[], None]]) -> int:
    """Run checks and print what they find; return how many do not hold."""
    wrong = 0
    for check in checks:
        try:
            check()
            result = "yes"
        except audit_checks.WrongError as error:
            result = f"NO: {error}"
            wrong += 1
        print(f"  {check.__name__.replace('_', ' ')}: {result}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
