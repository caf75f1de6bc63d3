"""What SmartNoise SQL can do, each by a snippet that runs."""

import pandas as pd
import snsql

from snippets import run

DATA = pd.DataFrame(
    {
        "user": [n // 2 for n in range(4000)],
        "key": [n % 4 for n in range(4000)],
        "value": [float(n % 10) for n in range(4000)],
    }
)
COLUMNS = {
    "user": {"type": "int", "private_id": True},
    "key": {"type": "int"},
    "value": {"type": "float", "lower": 0.0, "upper": 10.0},
}
METADATA = {"": {"d": {"t": {"max_ids": 2, "censor_dims": True, **COLUMNS}}}}


def answer(query: str) -> list[list[float]]:
    reader = snsql.from_df(DATA, privacy=snsql.Privacy(epsilon=1.0, delta=1e-6), metadata=METADATA)
    rows: list[list[float]] = reader.execute(query)[1:]
    return rows


def finds_keys() -> None:
    assert len(answer("SELECT key, COUNT(DISTINCT user) AS n FROM d.t GROUP BY key")) == 4


def sql() -> None:
    assert len(answer("SELECT key, COUNT(*) AS n FROM d.t WHERE value > 2 GROUP BY key ORDER BY n DESC LIMIT 2")) == 2


def users() -> None:
    rows = answer("SELECT key, COUNT(DISTINCT user) AS n FROM d.t GROUP BY key")
    assert sum(row[1] for row in rows) < 5000


def sums() -> None:
    assert len(answer("SELECT key, SUM(value) AS s FROM d.t GROUP BY key")) == 4


def means() -> None:
    assert len(answer("SELECT key, AVG(value) AS s FROM d.t GROUP BY key")) == 4


def variance() -> None:
    assert len(answer("SELECT key, VAR(value) AS s FROM d.t GROUP BY key")) == 4


def joins() -> None:
    assert answer("SELECT COUNT(*) FROM d.t AS a JOIN d.t AS b ON a.user = b.user")


def ledger() -> None:
    reader = snsql.from_df(DATA, privacy=snsql.Privacy(epsilon=1.0, delta=1e-6), metadata=METADATA)
    for _ in range(50):
        try:
            reader.execute("SELECT key, COUNT(*) AS n FROM d.t GROUP BY key")
        except Exception:
            return
    raise AssertionError("50 releases were made: it adds up what was spent, and refuses nothing")


def intervals() -> None:
    reader = snsql.from_df(DATA, privacy=snsql.Privacy(epsilon=1.0, delta=1e-6), metadata=METADATA)
    assert reader.execute("SELECT COUNT(*) AS n FROM d.t", accuracy=True)


run(finds_keys, sql, users, sums, means, variance, joins, ledger, intervals)
