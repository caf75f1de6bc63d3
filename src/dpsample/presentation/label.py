"""The privacy label of a release: nine fields, in sentences, from the release alone. The report shows them."""

from dpsample.exact import text
from dpsample.presentation.asked import Published
from dpsample.presentation.tables import printable
from dpsample.release.explain import (
    VOUCHED,
    explain_per_key,
    explain_protected,
    explain_spent,
    explain_strength,
    sentence,
)
from dpsample.release.facts import Topic
from dpsample.release.terms import Terms

_EXACT = "every decision compares integers with cryptographic coins, so that no rounding can leak"
_TOKEN = "its token is a random function of its frequency, from which the estimate follows"
_CHOSEN_BLINDLY = "the guarantee assumes that parameters were chosen without looking at the data"
_VERIFIED = f"{VOUCHED}; run dpsample verify for the proof, and for what it does not cover"


def label_of(release: Published) -> dict[str, str]:
    """Return the nine fields of the label, each in a few sentences.

    >>> from dpsample.answers.example import release
    >>> list(label_of(release))
    ['privacy parameters', 'unit of privacy', 'utility', 'mechanism', 'hyperparameters', 'deployment model',
    'empirical metrics', 'interpretation', 'other']
    >>> label_of(release)["unit of privacy"]
    'Each element: one counted occurrence of a key (in aggregated data one unit of frequency, not one row).'
    """
    terms = release.terms
    fields = {}
    fields["privacy parameters"] = _parameters(terms)
    fields["unit of privacy"] = _unit(terms)
    fields["utility"] = [f"{len(release):,} keys were reported", *_utility(terms)]
    fields["mechanism"] = _mechanism(terms)
    fields["hyperparameters"] = _hyperparameters(terms)
    fields["deployment model"] = _deployment(terms)
    fields["empirical metrics"] = ["no attack was tried on this release", _VERIFIED]
    fields["interpretation"] = explain_strength(terms.privacy, terms.unit)
    fields["other"] = _other(terms)
    label = {}
    for name, clauses in fields.items():
        label[name] = " ".join(map(sentence, clauses))
    return label


def _parameters(terms: Terms) -> list[str]:
    clauses = [*terms.facts(visibility=False).words(Topic.WARNING)]
    clauses.append(f"spent: {explain_spent(terms.privacy)}")
    for spending in terms.spent:
        clauses.append(f"of it, {spending.words} cost epsilon {text(spending.epsilon)}")
    if terms.max_keys is not None:
        clauses.append(f"each key has {explain_per_key(terms.per_key)}")
    return clauses


def _unit(terms: Terms) -> list[str]:
    facts = terms.facts()
    parts = map(printable, facts.words(Topic.PART))
    return [explain_protected(terms.max_keys, terms.unit), *parts]


def _utility(terms: Terms) -> list[str]:
    facts = terms.facts()
    clauses = facts.words(Topic.SEEN, Topic.COUNTED, Topic.SUMMED, Topic.KEPT)
    for words in facts.words(Topic.TOTAL):
        clauses.append(f"the data have a total of about {words}")
    return clauses


def _mechanism(terms: Terms) -> list[str]:
    facts = terms.facts()
    steps = facts.words(Topic.SAMPLED, Topic.FOUND, Topic.CHOSEN, Topic.REPORTED)
    tokens = [] if terms.grid is None else [_TOKEN]
    return [*steps, *tokens, _EXACT]


def _hyperparameters(terms: Terms) -> list[str]:
    clauses = []
    if terms.max_keys is not None:
        clauses.append(f"contribution bound: {terms.max_keys:,} keys of each user")
    clauses += terms.facts().words(Topic.TOKENS, Topic.SIZE)
    return [*clauses, _CHOSEN_BLINDLY]


def _deployment(terms: Terms) -> list[str]:
    entered = "names no ledger of the dataset"
    if terms.ledger is not None:
        entered = f"is entry {terms.ledger} of the ledger of the dataset"
    return [
        "central: the publisher has the data, and publishes one release of them",
        "every further release of the same data adds to what is spent",
        f"this release {entered}",
    ]


def _other(terms: Terms) -> list[str]:
    """Return the key columns, what the release does not protect, and the version."""
    columns = ", ".join(map(printable, terms.keys))
    several = "a person with two identifiers is two users"
    if terms.unit == "element":
        several = (
            "a person with several elements is protected for each of them, not for all together"
        )
    return [
        f"key columns: {columns}",
        several,
        "the names and types of the key columns, and these parameters, are public",
        f"made with dpsample {printable(terms.dpsample)}",
    ]
