"""The privacy label of a release: nine fields, in sentences, from the release alone.

The report shows them. `registry_entry` puts them, with what only the publisher knows left to do, into the form that the
public registry of differential privacy deployments asks for (registry.opendp.org, its schema of July 2026).
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpsample.exact import text
from dpsample.presentation.tables import printable
from dpsample.privacy import Privacy
from dpsample.release.explain import (
    VOUCHED,
    bought_words,
    explain_amount,
    explain_choice,
    explain_counts,
    explain_discovery,
    explain_kept,
    explain_part,
    explain_per_key,
    explain_protected,
    explain_reporting,
    explain_sampling,
    explain_size,
    explain_spent,
    explain_strength,
    explain_total,
    sentence,
)
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.noise import KeyNoise

if TYPE_CHECKING:
    from dpsample.answers.release import Release
    from dpsample.release.terms import Terms

TODO = "TODO by the publisher: "


def label_of(release: "Release") -> dict[str, str]:
    """Return the nine fields of the label, each in a few sentences.

    >>> from dpsample.answers.example import release
    >>> list(label_of(release))
    ['privacy parameters', 'unit of privacy', 'utility', 'mechanism', 'hyperparameters', 'deployment model',
    'empirical metrics', 'interpretation', 'other']
    >>> label_of(release)["unit of privacy"]
    'Each element: one counted occurrence of a key (in aggregated data one unit of frequency, not one row).'
    """
    terms = release.terms
    unit = [explain_protected(terms.max_keys, terms.unit)]
    if terms.part is not None:
        unit.append(printable(explain_part(terms.part, terms.max_keys)))
    fields = {
        "privacy parameters": _parameters(terms),
        "unit of privacy": unit,
        "utility": [f"{len(release):,} keys were reported", *_utility(terms)],
        "mechanism": _mechanism(terms),
        "hyperparameters": _hyperparameters(terms),
        "deployment model": [
            "central: the publisher has the data, and publishes one release of them",
            *_account(terms),
        ],
        "empirical metrics": [
            "no attack was tried on this release",
            f"{VOUCHED}; run dpsample verify for the proof, and for what it does not cover",
        ],
        "interpretation": explain_strength(terms.privacy, terms.unit),
        "other": [
            f"key columns: {', '.join(map(printable, terms.keys))}",
            *not_protected(terms),
            f"made with dpsample {printable(terms.dpsample)}",
        ],
    }
    return {name: " ".join(map(sentence, sentences)) for name, sentences in fields.items()}


def _account(terms: "Terms") -> list[str]:
    entered = "names no ledger of the dataset"
    if terms.ledger:
        entered = f"is entry {terms.ledger} of the ledger of the dataset"
    return ["every further release of the same data adds to what is spent", f"this release {entered}"]


def _parameters(terms: "Terms") -> list[str]:
    parts = {
        **({} if terms.discovery is None else bought_words(terms.discovery)),
        "the sample size": terms.size and terms.size.weights,
        "the total": terms.total,
        "the total of dropped keys": terms.dropped,
    }
    spent = [f"of it, {name} cost epsilon {text(part.epsilon)}" for name, part in parts.items() if part]
    own = [f"each key has {explain_per_key(terms.per_key)}"] if terms.max_keys is not None else []
    return [f"spent: {explain_spent(terms.privacy)}", *spent, *own]


def _utility(terms: "Terms") -> list[str]:
    lines = [explain_reporting(terms)]
    if terms.counts is not None:
        lines += [explain_counts(terms.counts), *map(explain_amount, terms.counts.amounts)]
    elif terms.max_keys is not None and not terms.keys_only:
        lines.append(explain_kept(terms.max_keys, terms.kept))
    if terms.total is not None:
        lines.append(f"the data have a total of about {explain_total(terms.total)}")
    return lines


def _mechanism(terms: "Terms") -> list[str]:
    drawn = "with a probability that grows with its frequency"
    if isinstance(terms.per_key, KeyNoise):
        drawn = "if its frequency, less bounded noise, is at least 1"
    elif isinstance(terms.sampling, SampleAndHold):
        drawn = "if its count, less bounded noise, is at least 1"
    found = explain_sampling(terms.sampling) if terms.discovery is None else explain_discovery(terms.discovery)
    lines = [found, f"a key is reported {drawn}"]
    if terms.discovery is not None and terms.discovery.filled:
        lines.insert(1, explain_choice(terms.discovery.filled))
    if terms.grid is not None:
        lines.append("its token is a random function of its frequency, from which the estimate follows")
    return [*lines, "every decision compares integers with cryptographic coins, so that no rounding can leak"]


def _hyperparameters(terms: "Terms") -> list[str]:
    lines = []
    if terms.max_keys is not None:
        lines.append(f"contribution bound: {terms.max_keys:,} keys of each user")
    if terms.grid is not None:
        lines.append("tokens are whole numbers" if terms.grid == 1 else f"tokens are in steps of 1/{terms.grid}")
    if terms.size is not None:
        lines.append(explain_size(terms.size))
    return [*lines, "the guarantee assumes that parameters were chosen without looking at the data"]


def not_protected(terms: "Terms") -> list[str]:
    """State what the release does not protect."""
    unit = (
        "a person with several elements is protected for each of them, not for all together"
        if terms.unit == "element"
        else "a person with two identifiers is two users"
    )
    return [unit, "the names and types of the key columns, and these parameters, are public"]


def registry_entry(release: "Release") -> str:
    """Return the entry of a release for the registry of deployments, as YAML; TODO marks what the publisher adds.

    >>> from dpsample.answers.example import release
    >>> print(registry_entry(release))
    # Entry for the registry of differential privacy deployments, https://registry.opendp.org
    ...
      privacy_loss:
        privacy_unit: "Element-level"
    ...
    """
    label, terms = label_of(release), release.terms
    entry = {
        "url_slug": f"{TODO}a short name for the address",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": f"{TODO}the name of the data product",
                "data_curators": [f"{TODO}who publishes it"],
                "intended_use": f"{TODO}what it is for",
                "data_product_type": "Summary statistics",
                "data_product_region": f"{TODO}the region of the data",
                "description": f"Keys ({', '.join(map(printable, terms.keys))}) that were reported"
                f"{'' if terms.keys_only else ', and about how frequent each is'}. {TODO}what the data are.",
                "publication_date": f"{TODO}YYYY-MM-DD",
                "data_product_sector": f"{TODO}Technology, Healthcare, Education, Government, Energy or Finance",
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"Rows with a key{' and a user' if terms.unit == 'user' else ''} each. "
                f"{TODO}where they come from.",
                "unprotected_quantities": " ".join(map(sentence, not_protected(terms)))
                + f" {TODO}whatever else is published.",
            },
            "privacy_loss": {
                "privacy_unit": _level(terms),
                "privacy_unit_details": f"{label['unit of privacy']} Adjacent datasets differ by one {terms.unit}, "
                "added or removed.",
                "privacy_parameters": _numbers(terms.privacy),
                "privacy_parameters_details": f"{label['privacy parameters']} {label['interpretation']}",
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "The publisher has the data, and publishes a release of them.",
                "actors": f"{TODO}who has the data, and who gets the release",
                "release_type": f"{TODO}One release or Many releases",
                "release_type_details": f"This entry is about one release. {TODO}whether there are others.",
                "data_source_type": f"{TODO}Static or Dynamic",
                "access_type": "Non-interactive",
                "access_type_details": "The release is a file. Questions are answered from it alone.",
            },
            "accounting": {
                "post_processing": "Estimates, intervals and answers follow from the release alone.",
                "composition": "What keys and totals spend by the stated terms adds up to the parameters, by a proof "
                "in exact arithmetic (dpsample verify). " + " ".join(map(sentence, _account(terms))),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"{label['hyperparameters']} {TODO}how the data were "
                "prepared, and how parameters were chosen.",
                "mechanisms": f"{label['mechanism']} {label['utility']} Implemented by dpsample "
                f"{printable(terms.dpsample)}.",
                "justification": f"{TODO}why these parameters",
            },
            "administrative": {
                "sources": f"{TODO}links",
                "notes": label["empirical metrics"],
                "registry_authors": [f"{TODO}who writes this entry"],
            },
        },
    }
    head = (
        "# Entry for the registry of differential privacy deployments, https://registry.opendp.org\n"
        "# It follows from the release. Replace each TODO, which the release cannot know.\n"
    )
    return head + "\n".join(_yaml(entry))


def _level(terms: "Terms") -> str:
    within = "" if terms.part is None or terms.unit == "element" else f", within one {printable(terms.part.name)}"
    return f"{terms.unit.capitalize()}-level{within}"


def _numbers(privacy: Privacy) -> dict[str, float]:
    return {"epsilon": float(privacy.epsilon), "delta": float(privacy.delta)}


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Yield lines of YAML: mappings and lists by indentation, and all else as JSON writes it, which is YAML too."""
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for name, item in items:
        key = "-" if name is None else f"{name}:"
        if isinstance(item, dict | list):
            yield f"{indent}{key}"
            yield from _yaml(item, f"{indent}  ")
        else:
            yield f"{indent}{key} {_scalar(item)}"


def _scalar(value: Any) -> str:
    """Write a text or a number; a float has a point, without which YAML 1.1 reads 1e-08 as text."""
    if isinstance(value, float):
        digits, e, exponent = repr(value).partition("e")
        return f"{digits}{'' if '.' in digits else '.0'}{e}{exponent}"
    return json.dumps(value, ensure_ascii=False)
