"""Run the snippets of a peer: each is a function whose name is a feature, and raises if the peer does not have it.

`FEATURES` are the columns of the table. It needs the standard library alone: it runs in the environments of peers.
"""

import json
import warnings
from collections.abc import Callable

FEATURES = {
    "finds_keys": "finds keys that nobody listed",
    "known_keys": "counts keys of a public list, also those that nobody has",
    "aggregated": "takes data that are aggregated already",
    "users": "enforces a bound on the keys of each user",
    "unbounded_users": "protects users without a bound on their keys",
    "sums": "sums of a column, by key",
    "means": "means of a column",
    "quantiles": "quantiles of a column",
    "variance": "variance of a column",
    "sql": "SQL queries",
    "joins": "joins of two private tables",
    "models": "private machine learning",
    "intervals": "an interval, or an error, for each count",
    "sample": "a weighted sample of keys",
    "zcdp": "zCDP or Gaussian budgets",
    "ledger": "refuses a release beyond a budget",
    "ledger_file": "keeps the budget in a file, over processes",
    "reads_files": "reads Parquet files itself",
    "spark": "runs on Spark",
    "stream": "counts along a stream, in one pass",
    "certificate": "verifies the privacy of a released file",
}


def run(*snippets: Callable[[], None]) -> None:
    """Call each snippet, and print the outcomes as one line of JSON: "yes", or the error."""
    warnings.simplefilter("ignore")
    outcome = {}
    for snippet in snippets:
        assert snippet.__name__ in FEATURES, snippet.__name__
        try:
            snippet()
            outcome[snippet.__name__] = "yes"
        except Exception as error:
            outcome[snippet.__name__] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    print(json.dumps(outcome))
