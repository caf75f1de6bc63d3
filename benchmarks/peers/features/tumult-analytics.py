"""What Tumult Analytics can do, each by a snippet that runs."""

from typing import Any

from snippets import run
from spark_session import session

spark_session = session()

import pandas as pd  # noqa: E402 - the session sets the Python of the workers
from tmlt.analytics import (  # noqa: E402
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    MaxRowsPerID,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)

FRAME = spark_session.createDataFrame(
    pd.DataFrame(
        {
            "user": [n // 2 for n in range(4000)],
            "key": [n % 4 for n in range(4000)],
            "value": [float(n % 10) for n in range(4000)],
        }
    )
)
KEYS = KeySet.from_dict({"key": [0, 1, 2, 3, 99]})


def private(budget: Any = None) -> Session:
    builder = Session.Builder().with_privacy_budget(budget or ApproxDPBudget(1, 1e-6)).with_id_space("people")
    builder = builder.with_private_dataframe("t", FRAME, protected_change=AddRowsWithID("user", "people"))
    second = FRAME.withColumnRenamed("value", "other")
    return builder.with_private_dataframe("u", second, protected_change=AddRowsWithID("user", "people")).build()


def bounded() -> QueryBuilder:
    return QueryBuilder("t").enforce(MaxGroupsPerID("key", 2)).enforce(MaxRowsPerGroupPerID("key", 1))


def ask(query: Any, budget: Any = None) -> int:
    budget = budget or ApproxDPBudget(1, 1e-6)
    number: int = private(budget).evaluate(query, budget).count()
    return number


def finds_keys() -> None:
    assert ask(bounded().get_groups(["key"])) == 4


def known_keys() -> None:
    assert ask(bounded().groupby(KEYS).count()) == 5


def users() -> None:
    assert ask(bounded().groupby(KEYS).count_distinct(["user"])) == 5


def sums() -> None:
    assert ask(bounded().groupby(KEYS).sum("value", 0, 10)) == 5


def means() -> None:
    assert ask(bounded().groupby(KEYS).average("value", 0, 10)) == 5


def quantiles() -> None:
    assert ask(bounded().groupby(KEYS).median("value", 0, 10)) == 5


def variance() -> None:
    assert ask(bounded().groupby(KEYS).variance("value", 0, 10)) == 5


def joins() -> None:
    joined = QueryBuilder("t").join_private("u", join_columns=["user", "key"]).enforce(MaxRowsPerID(4))
    assert ask(joined.groupby(KEYS).count()) == 5


def zcdp() -> None:
    assert ask(bounded().groupby(KEYS).count(), RhoZCDPBudget(1)) == 5


def ledger() -> None:
    one = private()
    one.evaluate(bounded().groupby(KEYS).count(), ApproxDPBudget(1, 0))
    try:
        one.evaluate(bounded().groupby(KEYS).count(), ApproxDPBudget(1, 0))
    except Exception:
        return
    raise AssertionError("a second release of the same budget was made")


def spark() -> None:
    finds_keys()


def reads_files() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        FRAME.write.parquet(f"{folder}/data")
        data = spark_session.read.parquet(f"{folder}/data")
        one = Session.from_dataframe(ApproxDPBudget(1, 1e-6), "t", data, protected_change=AddRowsWithID("user"))
        assert one.evaluate(bounded().groupby(KEYS).count(), ApproxDPBudget(1, 0)).count() == 5


run(finds_keys, known_keys, users, sums, means, quantiles, variance, joins, zcdp, ledger, spark, reads_files)
