"""A release of users without a contribution bound, in the order in which it happens.

    assign    each user gives one unit to one of their keys
    choose    a look at how many keys users have; then one key of each user or many, by what they fill
    total     the number of pairs of a user and a key, with noise
    give      the keys that users give: one each, or many
    report    keys are reported by the number of users who gave them
    count     the users of the reported keys are counted, and amounts are summed, with noise

Each stage depends on the data and on what those before it published, and on nothing else (docs/theory.md, section 10).
"""

from fractions import Fraction

import pyarrow as pa

from dpsample.accounting.choice import capacity_cap
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.known import Known
from dpsample.accounting.totals import Total
from dpsample.private.assignment import Assigned
from dpsample.private.drawing import Counting, Drawing, DrawnRelease
from dpsample.private.noise import noisy_total
from dpsample.private.sources.source import Source
from dpsample.private.users.choose import Choice, choose
from dpsample.private.users.counts import count_users
from dpsample.private.users.rows import rows_of, wanted_keys
from dpsample.release.bought import NOTHING, Bought
from dpsample.release.kinds import Counted, KeysOnly, Kind
from dpsample.release.terms import Terms
from dpsample.scheme.reporting import frequency_reaching


def draw_users(drawing: Drawing) -> DrawnRelease:
    """Draw a release that protects users, who may have any number of keys."""
    if drawing.only_known:
        return count_known(drawing)
    source = unlisted_rows(drawing)
    given = assign(drawing, source)
    choice = choose(drawing, given)
    bought = Bought(total=buy_total(drawing, given, choice))
    gave = give(drawing, source, given, choice)
    reported = report(drawing, gave, choice, bought)
    if not drawing.request.setting.users.counts:
        return reported
    found = reported.table()
    if gave is not given.source:
        drawing.forget(gave)  # before pairs are read again
    return count(drawing, found, choice, bought, given)


def unlisted_rows(drawing: Drawing) -> Source:
    """Return the rows of keys that are not known already: these are discovered."""
    source, known = drawing.request.source, drawing.known
    return source if known is None else drawing.engine.restricted(source, known, outside=True)


def assign(drawing: Drawing, source: Source) -> Assigned:
    """Let each user in turn give one unit to the first of their keys that is not full."""
    request, budget = drawing.request, drawing.request.setting.users
    full = capacity_cap(budget.one_key(), request.setting.sampling)
    # pairs are compared next, and counted at the end, unless known keys are counted with them
    keep = bool(budget.filled) or (bool(budget.counts) and drawing.known is None)
    drawing.progress.begin("assigning users")
    given = drawing.engine.assigned(source, full, drawing.coins, request.prior, keep_pairs=keep)
    drawing.keep(given.source)
    return given


def buy_total(drawing: Drawing, given: Assigned, choice: Choice) -> Total | None:
    """Buy a total of the keys of all users, if the budget has a share for it.

    Each user counts with the largest number of keys that the look shows a notable number of users to have.
    """
    budget, look = drawing.request.setting.users, choice.discovery.look
    if not budget.total:
        return None
    assert look is not None  # a total is bought after a look
    stated = Total(0, budget.privacy.share(budget.total), Fraction(look.most))
    return noisy_total(given.kept(look.most), stated, drawing.coins.fresh())


def give(drawing: Drawing, source: Source, given: Assigned, choice: Choice) -> Source:
    """Return the keys that users give: those of the assignment, or many keys of each user, chosen at random."""
    if choice.discovery.method == "one-key":
        return given.source
    many = drawing.engine.bounded(source, choice.discovery.keys, drawing.coins, rereads=False)
    return drawing.keep(many)


def report(drawing: Drawing, gave: Source, choice: Choice, bought: Bought) -> DrawnRelease:
    """Report keys by the number of users who gave them; without numbers."""
    sampling = drawing.request.setting.sampling
    kind = KeysOnly(sampling, choice.per_key, discovery=choice.discovery)
    counting = Counting(gave, drawing.keys, sampling)
    return drawing.draw_keys(drawing, counting, _terms(drawing, kind, bought))


def count(
    drawing: Drawing,
    reported: pa.Table,
    choice: Choice,
    bought: Bought,
    given: Assigned | None = None,
) -> DrawnRelease:
    """Count the users of reported and known keys, and sum their amounts, with noise."""
    request, known = drawing.request, drawing.known
    sampling, budget = request.setting.sampling, request.setting.users
    drawing.progress.begin("counting users")
    threshold = frequency_reaching(0.5, sampling, choice.per_key) or 1
    wanted = wanted_keys(drawing.engine, reported, known, threshold, sampling.least)
    keys = wanted.table.select(drawing.keys.names)
    after = given if known is None else None  # the pairs of known keys were not put aside
    measured = count_users(
        drawing.engine, request.source, keys, wanted.least, budget, drawing.coins, after
    )

    kind = Counted(sampling, choice.per_key, choice.discovery, measured.counts)
    record = None if known is None else Known(known.num_rows, only=drawing.only_known)
    terms = _terms(drawing, kind, bought, record)
    rows = rows_of(wanted, measured).select(list(terms.columns))
    return DrawnRelease(terms, rows.schema, iter(rows.to_batches()))


def count_known(drawing: Drawing) -> DrawnRelease:
    """Count the users of known keys alone: none is discovered."""
    nothing = Choice(Discovery("none", 0), drawing.request.setting.users.privacy)
    return count(drawing, drawing.keys.empty_table(), nothing, NOTHING)


def _terms(drawing: Drawing, kind: Kind, bought: Bought, known: Known | None = None) -> Terms:
    request = drawing.request
    return Terms(
        request.setting.users.privacy,
        request.source.key,
        kind,
        bought,
        known,
        request.part,
        reading=request.source.reading,
    )
