"""What diffprivlib can do, each by a snippet that runs."""

import numpy as np
from diffprivlib import BudgetAccountant, tools
from diffprivlib.models import GaussianNB

from snippets import run

VALUES = np.random.default_rng(0).uniform(0, 10, 1000)


def known_keys() -> None:
    assert len(tools.histogram(VALUES, epsilon=1, bins=12, range=(0, 12))[0]) == 12


def aggregated() -> None:
    counts, _ = tools.histogram([0, 1], epsilon=1, bins=2, range=(0, 2), weights=[1000, 1000])
    assert counts.min() > 500


def sums() -> None:
    assert tools.sum(VALUES, epsilon=1, bounds=(0, 10)) > 0


def means() -> None:
    assert 0 < tools.mean(VALUES, epsilon=1, bounds=(0, 10)) < 10


def quantiles() -> None:
    assert 0 <= tools.quantile(VALUES, 0.5, epsilon=1, bounds=(0, 10)) <= 10


def variance() -> None:
    assert tools.var(VALUES, epsilon=1, bounds=(0, 10)) > 0


def models() -> None:
    data = VALUES.reshape(-1, 2)
    model = GaussianNB(epsilon=5, bounds=(0, 10)).fit(data, (data[:, 0] > 5).astype(int))
    assert len(model.predict(data)) == 500


def ledger() -> None:
    accountant = BudgetAccountant(epsilon=1, delta=0)
    tools.mean(VALUES, epsilon=1, bounds=(0, 10), accountant=accountant)
    try:
        tools.mean(VALUES, epsilon=1, bounds=(0, 10), accountant=accountant)
    except Exception:
        return
    raise AssertionError("a second release of the same budget was made")


run(known_keys, aggregated, sums, means, quantiles, variance, models, ledger)
