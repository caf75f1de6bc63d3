"""What a stored file holds, as plain values; and the sampling by registered functions that some of them need."""

from fractions import Fraction
from typing import Any

import pyarrow as pa

from dpsample import Ledger, Release, Sample, Sampling, register_sampling
from dpsample.exact import text


def register_halves() -> Sampling:
    """Register the function of one of the releases: a reader has to."""
    return register_sampling("halves", lambda i: 1 - Fraction(1, 2 ** min(i, 40)))


def rows_of(table: pa.Table) -> dict[str, Any]:
    """The columns and values of a table, as JSON has them."""

    def shown(value: Any) -> Any:
        return (
            value.hex() if isinstance(value, bytes) else value if isinstance(value, str | int | float) else str(value)
        )

    columns = [[field.name, str(field.type)] for field in table.schema]
    return {"columns": columns, "rows": [[shown(value) for value in row.values()] for row in table.to_pylist()]}


def terms_of(release: Release) -> dict[str, Any]:
    """The terms of a release, field by field."""
    terms = release.terms
    return {
        "privacy": terms.privacy.to_json(),
        "sampling": terms.sampling.to_json(),
        "keys": list(terms.keys),
        "grid": terms.grid,
        "keys_only": terms.keys_only,
        "unit": terms.unit,
        "max_keys": terms.max_keys,
        "per_key": terms.per_key.to_json(),
        "size": terms.bought.size and terms.bought.size.to_json(),
        "total": terms.bought.total and terms.bought.total.to_json(),
        "ledger": terms.ledger,
        "dpsample": terms.dpsample,
        **({} if terms.part is None else {"part": terms.part.to_json()}),
        **({} if terms.bought.dropped is None else {"dropped": terms.bought.dropped.to_json()}),
        **({} if terms.known is None else {"known": terms.known.to_json()}),
        **({} if terms.discovery is None else {"discovery": terms.discovery.to_json()}),
        **({} if terms.counts is None else {"counts": terms.counts.to_json()}),
    }


def answers_of(release: Release) -> dict[str, float]:
    """Answers by maximum likelihood, which is defined once and for all; the default estimator may improve."""
    if release.keys_only or release.terms.counts or release.terms.known:  # the estimator is not chosen
        return {"keys reported": len(release)}
    answers = {
        "sum": release.sum(estimator="mle").value,
        "sum of 1": release.count_keys(estimator="mle").value,
    }
    if release.total is not None:
        low, high = release.total.interval(0.95)
        answers |= {"total": float(release.total.value), "total from": float(low), "total to": float(high)}
    return answers


def entries_of(ledger: Ledger) -> dict[str, Any]:
    """What a ledger says, and what follows for the next release."""
    epsilon, delta, rule = ledger.spent
    return {
        "dataset": ledger.dataset,
        "budget": ledger.budget.to_json(),
        "unit": ledger.unit,
        "each": ledger.each and ledger.each.to_json(),
        "releases": ledger.releases,
        "entries": [[e.privacy.to_json(), e.release, e.time, e.hash] for e in ledger.entries],
        "spent": [text(epsilon), text(delta), rule],
        "head": ledger.head,
        "hashes": ledger.hashes,
        **({} if ledger.account is None else {"account": ledger.account.to_json(), "more": ledger.more}),
        **({} if ledger.parts is None else {"parts": ledger.parts, "largest part": ledger.largest_part}),
    }


def content_of(made: Release | Sample | Ledger) -> dict[str, Any]:
    """All that a file holds, as JSON."""
    if isinstance(made, Ledger):
        return entries_of(made)
    if isinstance(made, Release):
        return {**rows_of(made.table), "terms": terms_of(made), "answers": answers_of(made)}
    stated = {"sampling": made.sampling.to_json(), "keys": list(made.keys), "max_keys": made.max_keys}
    stated |= {} if made.part is None else {"part": made.part.to_json()}
    return {**rows_of(made.table), **stated}
