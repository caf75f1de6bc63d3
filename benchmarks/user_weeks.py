"""Weeks of counted users: how often the intervals of seven daily releases together hold.

    python benchmarks/user_weeks.py [--quick]

Numbers of users follow Zipf's law, with Poisson days; a key is reported with the probability of its law, and its number
is measured with the noise of counts. Only coins differ between weeks. `even` has nothing else. In `uneven`, clipping
took a share from the keys of a group, and each key loses more or less than its group, alike on all days: the errors
that keys state have this part. Printed are shares of 95 % intervals that hold, over all weeks:

    top       of the 20 keys of the top list, at the level that it states
    in top    the listed keys that are truly among the top 20, and the mean of the probabilities that are stated
    groups    of sums by group, over reported keys: user-days in the releases that report them
    changes   of the listed changes from one week to the next, in which a tenth of the keys changed by half
    false     the share of listed changes of keys that did not change
"""

import argparse

import numpy as np
import pyarrow as pa

from dpsample import KeepAll, Privacy, Release
from dpsample.accounting.choice import capacity_cap
from dpsample.accounting.counts import COUNT_PARTS, COUNT_SHARE, Counts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.look import Look
from dpsample.accounting.user_budget import LOOK_SHARE, UserBudget
from dpsample.accounting.vectors import VectorNoise
from dpsample.answers.changes import changes
from dpsample.answers.several import Combined
from dpsample.release.kinds import Counted
from dpsample.release.rows import counted
from dpsample.release.terms import Terms
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints

KEYS, DAYS, TOP, GROUPS = 300, 7, 20, 5
DEVIATION = 12.0  # of the noise of a key that is not clipped
SHARED = ((0.0, 0.04), (400.0, 0.02), (1500.0, 0.0))  # least users of a group, and its relative error
BUDGET = UserBudget(Privacy(5, "1e-5"), look=LOOK_SHARE, counts=COUNT_SHARE)
NAMES = np.array([f"key{n:04d}" for n in range(KEYS)])


def terms(uneven: bool) -> Terms:
    """The terms of a day."""
    look = Look((9000, 500, 20, *[0] * (len(Look.EDGES) - 3)), BUDGET.privacy.share(LOOK_SHARE))
    noise = tuple(VectorNoise.of(BUDGET.square * share, BUDGET.aside, 1) for share in COUNT_PARTS.values())
    each = BUDGET.one_key()
    discovery = Discovery("one-key", 1, capacity_cap(each), look)
    counts = Counts(noise, 0.01 if uneven else 0.0, SHARED if uneven else ())
    return Terms(BUDGET.privacy, ("key",), Counted(KeepAll(), each, discovery, counts))


def relative_errors(users: Floats) -> Floats:
    """The relative error of each key that its group states."""
    least, relative = (np.array(column) for column in zip(*SHARED, strict=True))
    return np.asarray(relative[np.searchsorted(least, users, side="right") - 1])


def day(users: Ints, terms: Terms, lost: Floats, generator: np.random.Generator) -> Release:
    """One release: `lost` is by how much the share that a key loses differs from that of its group."""
    seen = np.zeros(KEYS, bool)
    pi = reporting_probabilities(np.maximum(users, 1), terms.sampling, terms.per_key)
    seen = (users > 0) & (generator.random(KEYS) < pi)
    values = users * (1 + lost) + DEVIATION * generator.standard_normal(KEYS)
    errors = np.full(KEYS, DEVIATION)
    if terms.counts is not None and terms.counts.groups:
        errors = np.hypot(DEVIATION, np.maximum(values, 1) * relative_errors(np.maximum(values, 0)))
    table = counted(pa.table({"key": NAMES[seen]}), values[seen], errors[seen])
    return Release(table, terms)


def measure(uneven: bool, weeks: int) -> None:
    """Print a line of numbers."""
    generator = np.random.default_rng(2)
    means = 6000 / np.arange(1, KEYS + 1)
    factors = np.where(np.arange(KEYS) % 10 == 5, 1.5, 1.0)
    days = generator.poisson(np.repeat(means[:, None], DAYS, axis=1))
    later = np.rint(days * factors[:, None]).astype(np.int64)
    truth, change = days.sum(1), (later - days).sum(1)
    stated = terms(uneven)
    held: dict[str, list[bool]] = {name: [] for name in ("top", "groups", "changes", "false", "in top")}
    claimed: list[float] = []
    for _ in range(weeks):
        lost = relative_errors(means) * generator.standard_normal(KEYS) * uneven
        week = Combined([day(users, stated, lost, generator) for users in days.T])
        top = week.top(TOP)
        for (name, estimate), p in zip(top, top.numbers["probability"].to_pylist(), strict=True):
            place = int(name[3:])
            held["top"].append(bool(estimate.low <= truth[place] <= estimate.high))
            held["in top"].append(bool((truth > truth[place]).sum() < TOP))
            claimed.append(p)
        reported = [np.isin(NAMES, release.table["key"].to_numpy(zero_copy_only=False)) for release in week.releases]
        of_reported = (days * np.array(reported).T).sum(1)
        for group, total in week.sum(by=f"(CAST(substr(key, 4) AS INT) % {GROUPS})"):
            true = of_reported[np.arange(KEYS) % GROUPS == group].sum()
            held["groups"].append(bool(total.low <= true <= total.high))
        found = changes(week, Combined([day(users, stated, lost, generator) for users in later.T]))
        for row in found.table.to_pylist():
            place = int(row["key"][3:])
            held["changes"].append(bool(row["low"] <= change[place] <= row["high"]))
            held["false"].append(bool(change[place] == 0))
    shares = "  ".join(f"{name} {np.mean(values):.3f}" for name, values in held.items())
    print(f"{'uneven' if uneven else 'even':7} {weeks} weeks  {shares}  (claimed {np.mean(claimed):.3f})", flush=True)


def main() -> None:
    """Print all numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer weeks")
    weeks = 20 if parser.parse_args().quick else 300
    for uneven in (False, True):
        measure(uneven, weeks)


if __name__ == "__main__":
    main()
