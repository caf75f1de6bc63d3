"""Answers keep their numbers: those that an earlier version gave, where a law's own properties choose the estimator."""

import numpy as np
import pyarrow as pa
import pytest

from dpsample import Ppswor, Release, SampleAndHold
from dpsample.accounting.budget import Budget
from dpsample.private.tokens import terms_of
from kinds import NAMES, PRIVACY, TOKENS, of_tokens

ROUNDING = 1e-12  # libraries of linear algebra differ by less; a changed estimator, by 1e-9 or more


def stream(tau: str, elements: int) -> Release:
    """A stream's release, whose keys have multiples of `elements`."""
    tokens = [elements * float(round(token)) for token in TOKENS]
    return of_tokens(tokens, sampling=SampleAndHold(tau), grid=1)


def coordinated_users() -> Release:
    """A coordinated sample of users with at most ten keys each: noise is bell-shaped, and seen as a mixture."""
    terms = terms_of(Budget(PRIVACY, 10), Ppswor("0.05", seed="public"), ["key"])
    return Release(pa.table({"key": NAMES, "token": np.round(np.array(TOKENS) + 300)}), terms)


RELEASES = {
    "stream": lambda: stream("0.1", 1),
    "long stream": lambda: stream("0.0001", 1000),  # estimators look at every 156th frequency
    "coordinated users": coordinated_users,
}
PINNED = {  # value, interval, standard error
    ("stream", "frequency"): (1947.2755302862422, 1568.0, 2330.0, 161.25982170719698),
    ("stream", "power:2"): (1095392.2328506205, 1035426.5229081388, 1158658.5562315434, 20888.277368236108),
    ("stream", "power:1.5"): (43484.8632840098, 41559.10745553546, 45419.498600975734, 865.4798667979883),
    ("long stream", "frequency"): (2048456.9933546612, 1952522.0, 2626472.0, 77422.77666709946),
    ("long stream", "power:2"): (1055808669485.0358, 996435640551.538, 1118714649463.9397, 20214228124.161964),
    ("coordinated users", "frequency"): (7682.001239958343, 7553.0, 7818.0, 65.94563331609487),
    ("coordinated users", "keys"): (16.000003449246005, 15.0, 19.0, 0.12692673876762497),
    ("coordinated users", "power:2"): (4492718.163926469, 4348610.939601448, 4641601.19814631, 67273.87602525974),
}


@pytest.mark.parametrize(("name", "of"), PINNED)
def test_sums_keep_their_numbers(name: str, of: str) -> None:
    answer = RELEASES[name]().sum(of=of)
    numbers = (answer.value, answer.low, answer.high, answer.standard_error)
    assert numbers == pytest.approx(PINNED[name, of], rel=ROUNDING, abs=0)
