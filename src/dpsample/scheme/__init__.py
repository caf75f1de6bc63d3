"""The mathematics: frequencies in, probabilities out. No data, no files, no randomness.

sampling          q: the probability that a key of a frequency is sampled
soft_cap          the same, by frequency up to about a cap
custom            the same, by any q of one's own
registered        the same, by a function that files name
holding           the same along a stream: sample and hold
reporting         pi: the largest probability that a key is reported, end to end, from q and the privacy
law               the interface of the laws of one key: pi, and tokens
bisection         the first number at which a condition holds
per_key           what each key of a user has of the privacy: an (epsilon, delta), or one of the next three
noise             bounded noise: the token law for many keys of one user
renyi_steps       pi for many keys of one user, keys only
composed_steps    pi for one key of a user, keys only, beside Gaussian noise on other numbers
coordinated       a sample by a public hash: the first frequency at which a key is kept, and laws over a random seed
tail_map          the map from pi to laws of tokens, row by row or column by column
tokens            the law of the token, in floats, for many frequencies
scheme            sampling, privacy and grid: all that the law of a token follows from
held              pi and the token law of keys that were held along a stream, in integers
token_columns     the probability of one token at all frequencies
invert            the token that a frequency and a uniform number draw
coarsening        a scheme at every k-th frequency, for predictions
integer           the laws in integers, which a sanitizer draws from
certificate       an exact check of those integers against (epsilon, delta)
certify_held      the same check for keys that were held along a stream
certificate_text  the integers as text, for another program to check
lemma             a bound of the delta that the integers spend, for every frequency at once
likelihood        the frequency under which a token is likeliest, and the interval of frequencies
ordinal           how well tokens keep the order of the frequencies
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsample.scheme.certificate import Certificate, certify, certify_table
    from dpsample.scheme.custom import CustomSampling
    from dpsample.scheme.holding import SampleAndHold
    from dpsample.scheme.integer import IntegerLaw, integer_law, integer_laws
    from dpsample.scheme.likelihood import likeliest_frequencies
    from dpsample.scheme.ordinal import concordance, concordance_with_all, kendall_tau
    from dpsample.scheme.reporting import (
        closed_form,
        frequency_reaching,
        reporting_probabilities,
        steps_to_one,
    )
    from dpsample.scheme.sampling import KeepAll, Ppswor, Priority, Sampling
    from dpsample.scheme.scheme import Scheme
    from dpsample.scheme.soft_cap import SoftCap
    from dpsample.scheme.tokens import TokenLaw, default_grid, token_law, token_laws

__all__ = [
    "Certificate",
    "CustomSampling",
    "IntegerLaw",
    "KeepAll",
    "Ppswor",
    "Priority",
    "SampleAndHold",
    "Sampling",
    "Scheme",
    "SoftCap",
    "TokenLaw",
    "certify",
    "certify_table",
    "closed_form",
    "concordance",
    "concordance_with_all",
    "default_grid",
    "frequency_reaching",
    "integer_law",
    "integer_laws",
    "kendall_tau",
    "likeliest_frequencies",
    "reporting_probabilities",
    "steps_to_one",
    "token_law",
    "token_laws",
]

# A release needs neither certificates nor the order of keys, so that names are loaded when they are first used.
_HOMES = {
    "Certificate": "dpsample.scheme.certificate",
    "CustomSampling": "dpsample.scheme.custom",
    "IntegerLaw": "dpsample.scheme.integer",
    "KeepAll": "dpsample.scheme.sampling",
    "Ppswor": "dpsample.scheme.sampling",
    "Priority": "dpsample.scheme.sampling",
    "SampleAndHold": "dpsample.scheme.holding",
    "Sampling": "dpsample.scheme.sampling",
    "Scheme": "dpsample.scheme.scheme",
    "SoftCap": "dpsample.scheme.soft_cap",
    "TokenLaw": "dpsample.scheme.tokens",
    "certify": "dpsample.scheme.certificate",
    "certify_table": "dpsample.scheme.certificate",
    "closed_form": "dpsample.scheme.reporting",
    "concordance": "dpsample.scheme.ordinal",
    "concordance_with_all": "dpsample.scheme.ordinal",
    "default_grid": "dpsample.scheme.tokens",
    "frequency_reaching": "dpsample.scheme.reporting",
    "integer_law": "dpsample.scheme.integer",
    "integer_laws": "dpsample.scheme.integer",
    "kendall_tau": "dpsample.scheme.ordinal",
    "likeliest_frequencies": "dpsample.scheme.likelihood",
    "reporting_probabilities": "dpsample.scheme.reporting",
    "steps_to_one": "dpsample.scheme.reporting",
    "token_law": "dpsample.scheme.tokens",
    "token_laws": "dpsample.scheme.tokens",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'dpsample.scheme' has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
