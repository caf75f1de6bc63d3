"""The privacy label of a release: nine fields, in sentences, from the release alone. The report shows them."""

from dpsample.answers.release import Release
from dpsample.exact import text
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


def label_of(release: Release) -> dict[str, str]:
    """Return the nine fields of the label, each in a few sentences.

    >>> from dpsample.answers.example import release
    >>> list(label_of(release))
    ['privacy parameters', 'unit of privacy', 'utility', 'mechanism', 'hyperparameters', 'deployment model',
    'empirical metrics', 'interpretation', 'other']
    >>> label_of(release)["unit of privacy"]
    'Each element: one counted occurrence of a key (in aggregated data one unit of frequency, not one row).'
    """
    terms = release.terms
    fields = {
        "privacy parameters": _parameters(terms),
        "unit of privacy": _unit(terms),
        "utility": [f"{len(release):,} keys were reported", *_utility(terms)],
        "mechanism": _mechanism(terms),
        "hyperparameters": _hyperparameters(terms),
        "deployment model": _deployment(terms),
        "empirical metrics": [
            "no attack was tried on this release",
            f"{VOUCHED}; run dpsample verify for the proof, and for what it does not cover",
        ],
        "interpretation": explain_strength(terms.privacy, terms.unit),
        "other": [
            f"key columns: {', '.join(map(printable, terms.keys))}",
            *_not_protected(terms),
            f"made with dpsample {printable(terms.dpsample)}",
        ],
    }
    return {name: " ".join(map(sentence, clauses)) for name, clauses in fields.items()}


def _parameters(terms: Terms) -> list[str]:
    spent = [*terms.facts(visibility=False).words(Topic.WARNING)]
    spent += [f"spent: {explain_spent(terms.privacy)}"]
    spent += [
        f"of it, {spending.words} cost epsilon {text(spending.epsilon)}" for spending in terms.spent
    ]
    if terms.max_keys is not None:
        spent.append(f"each key has {explain_per_key(terms.per_key)}")
    return spent


def _unit(terms: Terms) -> list[str]:
    parts = [printable(words) for words in terms.facts().words(Topic.PART)]
    return [explain_protected(terms.max_keys, terms.unit), *parts]


def _utility(terms: Terms) -> list[str]:
    facts = terms.facts()
    totals = [f"the data have a total of about {words}" for words in facts.words(Topic.TOTAL)]
    return [*facts.words(Topic.SEEN, Topic.COUNTED, Topic.SUMMED, Topic.KEPT), *totals]


def _mechanism(terms: Terms) -> list[str]:
    steps = terms.facts().words(Topic.SAMPLED, Topic.FOUND, Topic.CHOSEN, Topic.REPORTED)
    tokens = [] if terms.grid is None else [_TOKEN]
    return [*steps, *tokens, _EXACT]


def _hyperparameters(terms: Terms) -> list[str]:
    bound = (
        []
        if terms.max_keys is None
        else [f"contribution bound: {terms.max_keys:,} keys of each user"]
    )
    chosen = terms.facts().words(Topic.TOKENS, Topic.SIZE)
    return [
        *bound,
        *chosen,
        "the guarantee assumes that parameters were chosen without looking at the data",
    ]


def _deployment(terms: Terms) -> list[str]:
    entered = "names no ledger of the dataset"
    if terms.ledger is not None:
        entered = f"is entry {terms.ledger} of the ledger of the dataset"
    return [
        "central: the publisher has the data, and publishes one release of them",
        "every further release of the same data adds to what is spent",
        f"this release {entered}",
    ]


def _not_protected(terms: Terms) -> list[str]:
    """State what the release does not protect."""
    unit = "a person with two identifiers is two users"
    if terms.unit == "element":
        unit = "a person with several elements is protected for each of them, not for all together"
    return [unit, "the names and types of the key columns, and these parameters, are public"]
