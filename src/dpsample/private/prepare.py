"""Prepare: what a release buys with its budget, and what is then drawn. One plan, for all engines.

    Request -> users bounded -> totals bought -> tau chosen -> Terms fixed -> Plan

What remains is how rows are drawn: `run` does it on one machine, `engine.spark.jobs` on a cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.budget import Budget
from dpsample.accounting.discovery import Discovery, Look, UserBudget, capacity_cap, promising_keys
from dpsample.accounting.dropped import TIMES, most_dropped
from dpsample.accounting.filled import Filled, fuller
from dpsample.accounting.known import Known, added_to_known
from dpsample.accounting.parts import Part
from dpsample.accounting.totals import RealizedSize, Total
from dpsample.private.assignment import Assigned
from dpsample.private.checks import check_source, rereads, usable_strategy
from dpsample.private.engine import Engine
from dpsample.private.noise import discrete_laplace
from dpsample.private.progress import Progress
from dpsample.private.randomness import Coins, CoinSource
from dpsample.private.request import Request
from dpsample.private.sources.source import Source
from dpsample.release.bought import NOTHING, Bought
from dpsample.release.kinds import KeysOnly, Kind, kind_with_tokens
from dpsample.release.options import Strategy
from dpsample.release.terms import Terms
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Ints, KeepAll, Sampling


@dataclass(frozen=True)
class Counting:
    """What is counted, and how keys are sampled from it."""

    source: Source  # the elements, or a key for each user who keeps it
    keys: pa.Schema
    sampling: Sampling
    strategy: Strategy = "aggregate"
    counted: Any = None  # all keys with their frequencies, where the engine has put them aside
    sampled: bool = False  # whether the rows are a sample already
    known: pa.Table | None = None  # keys of a public list, each of which is drawn
    only_known: bool = False


@dataclass(frozen=True)
class Plan:
    """What is counted, and the terms under which it is released; with `users`, discovered keys are counted next."""

    counting: Counting
    terms: Terms
    users: UserBudget | None = None
    known: pa.Table | None = None  # known keys, whose users are counted as well
    assigned: Assigned | None = None  # whose pairs were put aside, to be counted and then forgotten


@dataclass(frozen=True)
class Written:
    """What a run has written: the number of keys, their terms, and how the sample was drawn."""

    keys: int
    terms: Terms
    strategy: Strategy


def prepare(engine: Engine, request: Request, coins: CoinSource, progress: Progress | None = None) -> Plan:
    """Bound users, buy totals, choose tau, and fix the terms. What can be refused is refused before any of it."""
    progress = progress or Progress()
    keys = check_source(engine, request)
    if request.discovers:
        return _prepare_discovery(engine, request, coins, keys, progress)
    setting, source = request.setting, request.source
    size, budget = setting.size, setting.budget
    known = None if request.known is None else request.known.table(keys)
    only = request.known is not None and request.known.only
    if known is not None and only and (setting.max_keys_per_user is not None or budget.total):
        source = engine.restricted(source, known, outside=False)
    shares, unbounded = budget.shares, source
    if setting.max_keys_per_user is not None:
        again = rereads(request) or request.strategy == "two-pass"
        progress.begin("bounding users")
        source = engine.bounded(source, setting.max_keys_per_user, coins, rereads=again)
    count_elements = cache(lambda: engine.total(source))  # two totals of elements need one count
    counted, sampling, realized, total, dropped = None, setting.sampling, None, None, None
    if size is not None:
        progress.begin("weighing keys")
        if size.by_frequency:
            weights = count_elements()
        else:
            counted, weights = engine.weighed(source, size.total)
        noisy_weights = noisy_total(weights, budget, size.share, coins.fresh(), size.sensitivity, size.unit)
        sampling, realized = size.sampling(noisy_weights), RealizedSize(size.size, noisy_weights)
    if "total" in shares:
        progress.begin("counting elements")
        total = noisy_total(count_elements(), budget, shares["total"], coins.fresh())
    if "dropped keys" in shares:
        progress.begin("counting the keys of users")
        beyond = engine.dropped(unbounded, budget.changes, most_dropped(budget.changes))
        dropped = noisy_total(beyond, budget, shares["dropped keys"], coins.fresh(), Fraction(TIMES))
    bought = Bought(realized, total, dropped)
    terms = terms_of(budget, sampling, source.key, setting.keys_only, request.grid, bought, request.part)
    if known is not None:
        terms = replace(terms, known=Known(known.num_rows, only, added_to_known(terms.per_key)))
    strategy = usable_strategy(engine, request.source, sampling, request.strategy)
    if setting.max_keys_per_user is None:
        source = request.source
    return Plan(Counting(source, keys, sampling, strategy, counted, known=known, only_known=only), terms)


def _prepare_discovery(
    engine: Engine, request: Request, coins: CoinSource, keys: pa.Schema, progress: Progress
) -> Plan:
    """Look, choose a method, and let users give their keys. What users gave stays with the engine.

    It is one stage: which method was chosen follows from a noisy look, which the release pays for once it appears.
    """
    budget, source = request.setting.users, request.source
    known = None if request.known is None else request.known.table(keys)
    if known is not None and request.known is not None and request.known.only:
        kind = KeysOnly(KeepAll(), budget.privacy, discovery=Discovery("none", 0))
        terms = Terms(budget.privacy, source.key, kind, part=request.part)
        return Plan(Counting(source, keys, KeepAll(), known=known, only_known=True), terms, budget, known)
    if known is not None:
        source = engine.restricted(source, known, outside=True)
    full = capacity_cap(budget.one_key(), request.setting.sampling)
    # pairs are counted at the end, unless known keys are counted with them, and compared before that
    keep = bool(budget.filled) or (bool(budget.counts) and known is None)
    progress.begin("assigning users")
    given = engine.assigned(source, full, coins, request.prior, keep_pairs=keep)
    try:
        return replace(_discovery_plan(engine, request, source, coins, keys, given), known=known)
    except BaseException:
        if given.pairs is not None:
            engine.forget(given.source)
        raise


def _discovery_plan(
    engine: Engine, request: Request, source: Source, coins: CoinSource, keys: pa.Schema, given: Assigned
) -> Plan:
    budget, sampling = request.setting.users, request.setting.sampling
    look, total = None, None
    filled: tuple[Filled, ...] = ()
    most = 1  # keys of each user
    if budget.look:
        look = look_at(given.sizes, budget.privacy.share(budget.look), coins)
        most = promising_keys(budget, look, sampling)
    if budget.filled:
        filled = compare_filled(engine, given, (1, most), budget, sampling, coins)
        most = fuller(filled).keys
    if budget.total:
        assert look is not None
        total = _total_of_keys(given.kept(look.most), look.most, budget, coins)
    counts_pairs = bool(budget.counts) and request.known is None  # the pairs of known keys are not among these
    each: PerKey = budget.one_key()
    if most == 1:
        full = capacity_cap(each, sampling)
        gave = given.source
        discovery = Discovery("one-key", 1, full, look, request.prior is not None, filled)
    else:
        steps = budget.many_keys(most)
        assert steps is not None  # the number of keys was chosen by it
        gave = engine.bounded(source, most, coins, rereads=False)
        each, discovery = steps, Discovery("many-keys", most, look=look, filled=filled)
    kind = KeysOnly(sampling, each, discovery=discovery)
    terms = Terms(budget.privacy, source.key, kind, Bought(total=total), part=request.part)
    users = budget if budget.counts else None
    if most > 1 and not counts_pairs:
        engine.forget(given.source)
    return Plan(Counting(gave, keys, sampling), terms, users, assigned=given if counts_pairs else None)


def compare_filled(
    engine: Engine, given: Assigned, keys: tuple[int, int], budget: UserBudget, sampling: Sampling, coins: CoinSource
) -> tuple[Filled, ...]:
    """Buy what one key of each user fills, and what the other number of keys fills: units, each with its own noise."""
    drawn = coins.fresh()
    ways = []
    for number, epsilon in zip(keys, budget.filled_epsilons, strict=True):
        each = budget.one_key() if number == 1 else budget.many_keys(number)
        assert each is not None  # the number of keys was chosen by it
        full = capacity_cap(each, sampling)
        # with one key of each user, no key has more units than it takes, and nobody has given two
        units = given.units if number == 1 else engine.filled(given, number, full, coins)
        way = Filled(number, full, units, epsilon)
        ways.append(replace(way, units=units + discrete_laplace(way.scale, drawn)))
    return tuple(ways)


def _total_of_keys(truth: int, most: int, budget: UserBudget, coins: CoinSource) -> Total:
    """Buy a private total of the keys of all users, of whom each counts with up to `most`."""
    bought = Total(0, budget.privacy.share(budget.total), Fraction(most))
    return replace(bought, value=truth + discrete_laplace(bought.scale, coins.fresh()))


def look_at(sizes: Ints, epsilon: Fraction, coins: CoinSource) -> Look:
    """Buy a look at how many users have how many keys; of `sizes`, row b has those with up to 2**b."""
    drawn = coins.fresh()
    return Look(tuple(n + discrete_laplace(1 / epsilon, drawn) for n in true_look(sizes)), epsilon)


def true_look(sizes: Ints) -> list[int]:
    """Return the numbers of a look without noise, which are as private as the data."""
    edges = np.minimum(np.searchsorted(Look.EDGES, [1 << b for b in range(len(sizes))]), len(Look.EDGES) - 1)
    return [int(n) for n in np.bincount(edges, sizes, len(Look.EDGES))]


def prepare_sample(
    engine: Engine,
    source: Source,
    max_keys: int | None,
    sampling: Sampling,
    strategy: Strategy,
    coins: CoinSource,
) -> Counting:
    """Bound users, for a sample that is not released yet."""
    keys = engine.check(source)
    chosen = usable_strategy(engine, source, sampling, strategy)
    if max_keys is not None:
        source = engine.bounded(source, max_keys, coins, rereads=chosen == "two-pass")
    return Counting(source, keys, sampling, chosen)


def noisy_total(
    truth: int,
    budget: Budget,
    share: Fraction,
    coins: Coins,
    sensitivity: Fraction = Fraction(1),
    unit: Fraction = Fraction(1),
) -> Total:
    """Buy a private total with a share of epsilon: the true one, in units, plus discrete Laplace noise.

    One element or user changes `budget.changes` frequencies by one each, and each of them the total by `sensitivity`.
    """
    bought = Total(0, budget.spent_on(share), sensitivity * budget.changes, unit)
    value = (truth + discrete_laplace(bought.scale / unit, coins)) * unit
    return replace(bought, value=int(value) if unit == 1 else value)


def terms_of(
    budget: Budget,
    sampling: Sampling,
    keys: Sequence[str],
    keys_only: bool = False,
    grid: int | None = None,
    bought: Bought = NOTHING,
    part: Part | None = None,
) -> Terms:
    """Put together the terms of a release of elements, or of users with a contribution bound."""
    budget = replace(budget, all_keys=isinstance(sampling.sanitized_as, KeepAll), keys_only=keys_only)
    per_key, max_keys = budget.per_key, budget.max_keys
    kind: Kind = KeysOnly(sampling, per_key, max_keys)
    if not keys_only:
        kind = kind_with_tokens(sampling, per_key, grid, max_keys)
    return Terms(budget.privacy, tuple(keys), kind, bought, part=part)
