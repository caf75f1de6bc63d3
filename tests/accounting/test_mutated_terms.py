"""What a release states is refused, or it is private: mutations of the metadata of every kind, against an oracle.

`stated_costs` adds up what each stated part costs, from the definitions. Whatever `verify` signs must not cost more
than it states. And nothing that a file states ends with an error that is not dpsample's own.
"""

import functools
import itertools
import json
import warnings
from typing import Any

import pytest

import stated_costs
from dpsample import KeepAll, Ppswor, Priority, Privacy, SampleSize
from dpsample.accounting.budget import Budget
from dpsample.accounting.totals import RealizedSize, Total
from dpsample.errors import DpsampleError, PrivacyWarning
from dpsample.private.tokens import kind_of, terms_of
from dpsample.release.bought import Bought
from dpsample.release.proof import proof
from dpsample.release.terms import Terms
from dpsample.scheme.certificate import certify, certify_keys
from mutations import Mutations, written
from places import VECTORS
from vectors import register_halves

FOLDER = VECTORS
EACH = 280  # mutations of each kind of release: 10,000 in all
OUTSIDE = ("file", "checksum")  # fields that are not terms
register_halves()


def stated_in_files() -> dict[str, dict[str, Any]]:
    """The metadata of one release of each kind, as files have them."""
    forms = {}
    for sidecar in sorted(FOLDER.glob("release-1-*.csv.json")):
        form = json.loads(sidecar.read_text())
        forms[sidecar.name.removeprefix("release-1-").removesuffix(".csv.json")] = form
    for folder in sorted(FOLDER.glob("release-1-*.parts")):
        forms[folder.name] = json.loads((folder / "_dpsample.json").read_text())
    return {name: {key: form[key] for key in form if key not in OUTSIDE} for name, form in forms.items()}


def sized(budget: Budget, size: SampleSize, value: int) -> Terms:
    """The terms of a sample of a chosen size."""
    weights = Total(0, budget.spent_on(size.share), size.sensitivity * budget.changes, size.unit)
    weights = Total(value * size.unit if size.unit < 1 else value, weights.epsilon, weights.sensitivity, size.unit)
    kind = kind_of(budget, size.sampling(weights), keys_only=False, grid=None)
    return Terms(budget.privacy, ("key",), kind, Bought(RealizedSize(size.size, weights)))


def planned() -> dict[str, dict[str, Any]]:
    """The metadata of kinds of which there is no file."""
    one, ten = Privacy(1, "1e-6"), Privacy("1", "1e-3")
    zcdp, gdp = Privacy.zcdp("0.2", "1e-3"), Privacy.gdp("0.5", "1e-3")
    roots, squares = SampleSize(50, "ppswor", "1/2"), SampleSize(50, "priority", "3/2", cap=30)
    made = {
        "size by roots": sized(Budget(one, size=roots.share), roots, 1 << 22),
        "size by powers": sized(Budget(ten, 3, size=squares.share), squares, 1 << 24),
        "zcdp of users": terms_of(Budget(zcdp, 4), KeepAll(), ["key"]),
        "gdp of users, sampled": terms_of(Budget(gdp, 2), Ppswor("0.1"), ["key"]),
        "zcdp, keys only": terms_of(Budget(zcdp, 2), Priority("0.1", seed="2026"), ["key"], keys_only=True),
        "at least, users": terms_of(Budget(ten, 3), KeepAll(7), ["key"]),
        "sampled steps": terms_of(Budget(ten, 20), Ppswor("0.1"), ["key"], keys_only=True),
    }
    return {name: terms.to_json(3) for name, terms in made.items()}


FORMS = {**stated_in_files(), **planned()}


@pytest.fixture(autouse=True)
def _certificates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheme of a key is certified once for its parameters: most mutations change others."""
    monkeypatch.setattr(proof, "certify", CERTIFY)
    monkeypatch.setattr(proof, "certify_keys", CERTIFY_KEYS)


CERTIFY = functools.lru_cache(maxsize=4096)(certify)
CERTIFY_KEYS = functools.lru_cache(maxsize=4096)(certify_keys)


def signed(form: dict[str, Any]) -> bool:
    """Whether what is stated is read and proved; every refusal is one of dpsample's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        try:
            found = proof.prove_release(Terms.from_json(form))
            str(found)
            found.to_json()
        except DpsampleError:
            return False
    return True


@pytest.mark.parametrize("kind", FORMS)
def test_a_release_as_it_was_made_is_signed_and_private(kind: str) -> None:
    assert signed(FORMS[kind])
    stated_costs.check_private(FORMS[kind])


@pytest.mark.parametrize("kind", FORMS)
def test_what_is_signed_is_private(kind: str) -> None:
    donors = list(FORMS.values())
    for mutated in itertools.islice(Mutations(FORMS[kind], donors, f"terms: {kind}"), EACH):
        form = written(mutated)
        if signed(form):
            stated_costs.check_private(form)


def test_ten_thousand_mutations_are_made() -> None:
    assert EACH * len(FORMS) >= 10_000
