"""Options as words: the text of a command line or a settings file, read as arguments of a release, and back.

`read_arguments` is given the stated values by the names of their `Option`s. A name that a command does not have counts
as not stated. `stated_values` returns the values that state the options of a release, without defaults.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from dpsample.accounting.amounts import Amount
from dpsample.accounting.totals import SHARE, SampleSize
from dpsample.errors import InvalidValue
from dpsample.exact import text
from dpsample.privacy import Privacy
from dpsample.release.options import ReleaseOptions, all_options
from dpsample.scheme.sampling import KeepAll, Ppswor, Priority, Sampling
from dpsample.scheme.soft_cap import SoftCap

Stated = Mapping[str, Any]
_BUDGETS = {"epsilon": Privacy, "zcdp": Privacy.zcdp, "gdp": Privacy.gdp}
_WEIGHTED = {"ppswor": Ppswor, "priority": Priority}
_PRIVACY = {"epsilon", "zcdp", "gdp", "delta"}
_SAMPLING = {"scheme", "tau", "power", "cap", "seed", "sample_size", "size_share"}
_TOTAL = {"with_total", "total_share"}
_READ_ANEW = {"sums", "clips", "part", "part_vouched"}  # text that states a value of another form
_OTHER_FORM = (
    _PRIVACY | _SAMPLING | _TOTAL | _READ_ANEW
)  # options that are no argument of the same name


def read_arguments(stated: Stated) -> dict[str, Any]:
    """Return the privacy and the other arguments of `dpsample.release` that these options state."""
    size = read_size(stated)
    arguments = {
        "privacy": read_privacy(stated),
        "sampling": read_sampling(stated) if size is None else None,
        "size": size,
        "total": read_total(stated),
        "sums": read_sums(stated),
        **read_parts(stated),
    }
    same_name = {option.name for option in all_options()} - _OTHER_FORM
    arguments |= {name: stated[name] for name in same_name if name in stated}
    return arguments


def read_privacy(stated: Stated) -> Privacy:
    """Read the budget: one of epsilon, zcdp and gdp, with delta."""
    given = [name for name in _BUDGETS if stated.get(name) is not None]
    if len(given) != 1:
        found = " and ".join(f"`{name}`" for name in given) or "none of them"
        raise InvalidValue(
            f"a budget is stated by one of `epsilon`, `zcdp` and `gdp`, not by {found}",
            "state one, such as `epsilon=1`",
        )
    [name] = given
    return _BUDGETS[name](stated[name], stated["delta"])


def read_size(stated: Stated) -> SampleSize | None:
    """Read the size of a sample, if one is stated."""
    size = stated.get("sample_size")
    scheme = stated["scheme"]
    if size is None:
        return None
    for name in ("seed", "tau"):
        if stated.get(name) is not None:
            raise InvalidValue(
                f"`{name}` cannot be combined with `sample_size`", "leave one of them out"
            )
    if scheme not in _WEIGHTED:
        raise InvalidValue(
            f"`sample_size` cannot be combined with `scheme={scheme}`",
            "write, for example, `scheme=ppswor` `sample_size=10000`",
        )
    return SampleSize(size, scheme, stated["power"], stated["cap"], stated["size_share"])


def read_sampling(stated: Stated) -> Sampling:
    """Read a sampling scheme with its tau."""
    scheme, tau = stated["scheme"], stated["tau"]
    if scheme == "all":
        return _keep_all(stated)
    if tau is None:
        sized = " or `sample_size=10000`" if "sample_size" in stated else ""
        raise InvalidValue(
            f"`scheme={scheme}` needs a sampling threshold", f"add, for example, `tau=1e-4`{sized}"
        )
    if scheme == "soft-cap":
        return _soft_cap(stated)
    return _WEIGHTED[scheme](tau, stated["power"], stated["cap"], stated.get("seed"))


def _keep_all(stated: Stated) -> Sampling:
    """Return the scheme that keeps all keys; options of a sample are refused."""
    for name in ("tau", "seed"):
        if stated.get(name) is not None:
            raise InvalidValue(
                f"`{name}` cannot be combined with `scheme=all`",
                f"add `scheme=ppswor`, or leave `{name}` out",
            )
    return KeepAll()


def _soft_cap(stated: Stated) -> Sampling:
    """Read a soft cap; options that it does not have are refused."""
    if stated["cap"] is None:
        raise InvalidValue(
            "`scheme=soft-cap` needs a cap", "write, for example, `tau=0.01` `cap=20`"
        )
    for name, default in (("power", "1"), ("seed", None)):
        if stated.get(name, default) != default:
            raise InvalidValue(
                f"`{name}` cannot be combined with `scheme=soft-cap`", f"leave `{name}` out"
            )
    return SoftCap(stated["tau"], stated["cap"])


def read_total(stated: Stated) -> Any:
    """Read the share of epsilon for a total, or False."""
    return stated["total_share"] if stated.get("with_total") else False


def read_parts(stated: Stated) -> dict[str, tuple[str, str] | None]:
    """Read the part of the dataset that is released, and the one that is vouched for."""
    return {name: read_part(stated.get(name), name) for name in ("part", "part_vouched")}


def read_part(part: str | None, name: str) -> tuple[str, str] | None:
    """Read COLUMN=VALUE; the value may contain further equals signs."""
    if part is None:
        return None
    column, equals, value = part.partition("=")
    if not column or not equals:
        raise InvalidValue(
            f"`{name}` must be a name and a value, not {part!r}", f"write `{name}=day=2026-11-14`"
        )
    return column, value


def read_sums(stated: Stated) -> dict[str, str] | None:
    """Read the columns to sum, with their clips: COLUMN:CLIP, or COLUMN and CLIP as options of their own."""
    texts, clips = stated["sums"], stated["clips"]
    if clips and len(clips) != len(texts):
        raise InvalidValue(
            f"`sums` and `clips` must go in pairs, not {len(texts)} and {len(clips)}",
            "write `sums=price` `clips=0:100`",
        )
    sums: dict[str, str] = {}
    for written, stated_clip in zip_longest(texts, clips):
        if stated_clip is None:
            column, clip = column_and_clip(written)
        else:
            column = written
            clip = stated_clip
        if not column or not clip:
            raise InvalidValue(
                f"`sums` must name a column and a clip, not {written!r}",
                "write `sums=price:100` or `sums=price:0:100`",
            )
        if column in sums:
            raise InvalidValue(f"`sums` names the column {column!r} twice", "name each column once")
        sums[column] = clip
    return sums or None


def column_and_clip(written: str) -> tuple[str, str]:
    """Divide COLUMN:HIGH or COLUMN:LOW:HIGH. A column may have colons in its name, but for one before a number.

    >>> column_and_clip("price:100"), column_and_clip("price:-5:100"), column_and_clip("a:b:100")
    (('price', '100'), ('price', '-5:100'), ('a:b', '100'))
    """
    before, _, high = written.rpartition(":")
    column, colon, low = before.rpartition(":")
    if colon and _is_number(low):
        return column, f"{low}:{high}"
    return before, high


def _is_number(written: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(written)
    except ValueError:
        return False
    return True


def stated_values(options: ReleaseOptions) -> Iterator[tuple[str, str | bool]]:
    """Yield the name and the value of each option that states this release, except what cannot be written as text.

    >>> dict(stated_values(ReleaseOptions(Privacy(1, "1e-8"), Ppswor("0.01"), total=True)))
    {'epsilon': '1', 'delta': '1e-08', 'scheme': 'ppswor', 'tau': '0.01', 'with_total': True}
    """
    if options.max_keys_per_user is not None:
        yield "max_keys_per_user", str(options.max_keys_per_user)
    yield from _stated_privacy(options.privacy)
    yield from _stated_scheme(options)
    for amount in options.amounts:
        yield _stated_amount(amount)
    if options.total_share:
        yield "with_total", True
        if options.total_share != SHARE:
            yield "total_share", text(options.total_share)
    yield from _stated_directly(options)


def budget_value(privacy: Privacy) -> str:
    """Return the epsilon of a budget, or the rho or mu by which it is stated instead."""
    return text(privacy.epsilon if privacy.definition is None else privacy.definition.value)


def _stated_privacy(privacy: Privacy) -> Iterator[tuple[str, str]]:
    name = "epsilon" if privacy.definition is None else privacy.definition.name
    yield name, budget_value(privacy)
    yield "delta", text(privacy.delta)


def _stated_scheme(options: ReleaseOptions) -> Iterator[tuple[str, str]]:
    """Yield the options that state the sampling scheme, or the size of the sample."""
    size = options.size
    sampling = options.sampling
    if size is not None:
        yield "scheme", size.scheme
        yield "sample_size", str(size.size)
        if size.share != SHARE:
            yield "size_share", text(size.share)
        yield from _stated_weight(size)
    elif isinstance(sampling, Ppswor | Priority):
        yield "scheme", sampling.name
        yield "tau", text(sampling.tau)
        if sampling.seed is not None:
            yield "seed", sampling.seed
        yield from _stated_weight(sampling)
    elif isinstance(sampling, SoftCap):
        yield "scheme", "soft-cap"
        yield "tau", text(sampling.tau)
        yield "cap", str(sampling.cap)
    elif sampling.least > 1:
        yield "at_least", str(sampling.least)


def _stated_weight(scheme: SampleSize | Ppswor | Priority) -> Iterator[tuple[str, str]]:
    """Yield the options that state the weight of a key."""
    if scheme.power != 1:
        yield "power", text(scheme.power)
    if scheme.cap is not None:
        yield "cap", str(scheme.cap)


def _stated_amount(amount: Amount) -> tuple[str, str]:
    if amount.column is None:
        return "rows", amount.written
    return "sums", f"{amount.column}:{amount.written}"


def _stated_directly(options: ReleaseOptions) -> Iterator[tuple[str, str | bool]]:
    """Yield the options that are one field of the same name."""
    if options.keys_only:
        yield "keys_only", True
    if options.discover in ("one-key", "many-keys"):
        yield "discover", options.discover
    if options.count_share is not None:
        yield "count_share", str(options.count_share)
    if options.grid is not None:
        yield "grid", str(options.grid)
