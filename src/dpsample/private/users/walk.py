"""The walk of a release of users without a contribution bound (docs/theory.md, section 10, proves each stage).

Rows, units and keys that users give are private. What leaves the run is what the last column says, each drawn with
coins of its own:

    step       spends                            coins                           publishes
    assign     nothing                           salts of two orders             nothing
    choose     shares "look" and "filled"        fresh, discrete Laplace noise   how keys are discovered
    total      share "total"                     fresh, discrete Laplace noise   pairs of a user and a key
    give       nothing                           of each user and key            nothing
    report     what the others leave             of each key                     the discovered keys
    count      share "counts" of mu**2           fresh, Gaussian noise           their users, and amounts

Each step depends on the data and on what those before it published, and on nothing else. What a budget has no share for
is not measured, and not drawn.
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

# keys are discovered "from about" the number of users at which they are reported with this probability
_EVEN_CHANCE = 0.5


def draw_users(drawing: Drawing) -> DrawnRelease:
    """Draw a release that protects users, who may have any number of keys."""
    if drawing.only_known:
        return count_known(drawing)
    source = unlisted_rows(drawing)
    assigned = assign(drawing, source)
    choice = choose(drawing, assigned)
    bought = Bought(total=buy_total(drawing, assigned, choice))
    given = give(drawing, source, assigned, choice)
    reported = report(drawing, given, choice, bought)
    if not drawing.request.options.users.counts:
        return reported
    discovered = reported.table()
    if given is not assigned.source:
        drawing.forget(given)  # before pairs are read again
    return count(drawing, discovered, choice, bought, assigned)


def unlisted_rows(drawing: Drawing) -> Source:
    """Return the rows of keys that are not known already: these keys are discovered."""
    source = drawing.request.source
    if drawing.known is None:
        return source
    return drawing.engine.restricted(source, drawing.known, outside=True)


def assign(drawing: Drawing, source: Source) -> Assigned:
    """Let each user in turn give one unit to the first of their keys that is not full."""
    request = drawing.request
    budget = request.options.users
    full = capacity_cap(budget.one_key(), request.options.sampling)
    # pairs are read again to compare what is filled, and to count users, unless known keys are counted with them
    counts_these_pairs = bool(budget.counts) and drawing.known is None
    keep_pairs = bool(budget.filled) or counts_these_pairs
    drawing.progress.begin("assigning users")
    assigned = drawing.engine.assigned(source, full, drawing.coins, request.prior, keep_pairs)
    drawing.keep(assigned.source)
    return assigned


def buy_total(drawing: Drawing, assigned: Assigned, choice: Choice) -> Total | None:
    """Buy a total of the keys of all users, if the budget has a share for it.

    Each user counts with up to `look.most` keys, the largest number that the look shows a notable number of users to
    have. So one user changes the total by at most that number.
    """
    budget = drawing.request.options.users
    if not budget.total:
        return None
    look = choice.discovery.look
    assert look is not None  # `ReleaseOptions` refuses a total without a look
    stated = Total(0, budget.privacy.share(budget.total), Fraction(look.most))
    return noisy_total(assigned.kept(look.most), stated, drawing.coins.fresh())


def give(drawing: Drawing, source: Source, assigned: Assigned, choice: Choice) -> Source:
    """Return the keys that users give: those of the assignment, or many keys of each user, chosen at random."""
    if choice.discovery.method == "one-key":
        return assigned.source
    many = drawing.engine.bounded(source, choice.discovery.keys, drawing.coins, rereads=False)
    return drawing.keep(many)


def report(drawing: Drawing, given: Source, choice: Choice, bought: Bought) -> DrawnRelease:
    """Report keys by the number of users who gave them; this release has keys without numbers."""
    sampling = drawing.request.options.sampling
    kind = KeysOnly(sampling, choice.per_key, discovery=choice.discovery)
    counting = Counting(given, drawing.keys, sampling)
    terms = _terms(drawing, kind, bought)
    return drawing.draw_keys(drawing, counting, terms)


def count(
    drawing: Drawing,
    discovered: pa.Table,
    choice: Choice,
    bought: Bought,
    assigned: Assigned | None = None,
) -> DrawnRelease:
    """Count the users of discovered and known keys, and sum their amounts, with noise.

    Pairs that were put aside with `assigned` are not read again; with known keys they lack those of the list.
    """
    sampling = drawing.request.options.sampling
    budget = drawing.request.options.users
    drawing.progress.begin("counting users")
    detected_from = frequency_reaching(_EVEN_CHANCE, sampling, choice.per_key) or 1
    wanted = wanted_keys(drawing.engine, discovered, drawing.known, detected_from, sampling.least)
    keys = wanted.table.select(drawing.keys.names)
    source = drawing.request.source
    after = assigned if drawing.known is None else None
    counted = count_users(drawing.engine, source, keys, wanted.least, budget, drawing.coins, after)

    kind = Counted(sampling, choice.per_key, choice.discovery, counted.counts)
    terms = _terms(drawing, kind, bought, _known_terms(drawing))
    rows = rows_of(wanted, counted).select(list(terms.columns))
    return DrawnRelease(terms, rows.schema, iter(rows.to_batches()))


def count_known(drawing: Drawing) -> DrawnRelease:
    """Count the users of known keys alone: none is discovered, and the whole budget is for the counts."""
    nothing_discovered = drawing.keys.empty_table()
    choice = Choice(Discovery("none", 0), drawing.request.options.users.privacy)
    return count(drawing, nothing_discovered, choice, NOTHING)


def _known_terms(drawing: Drawing) -> Known | None:
    """Return the terms of the list of known keys, if there is one."""
    if drawing.known is None:
        return None
    return Known(drawing.known.num_rows, only=drawing.only_known)


def _terms(drawing: Drawing, kind: Kind, bought: Bought, known: Known | None = None) -> Terms:
    """Return the terms of this release, of the kind that its rows have."""
    request = drawing.request
    privacy = request.options.users.privacy
    read = request.source
    return Terms(privacy, read.key, kind, bought, known, request.part, reading=read.reading)
