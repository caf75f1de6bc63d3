"""A small release, for the examples in docstrings: words, without any data behind them."""

from fractions import Fraction

import pyarrow as pa

from dpsample.accounting.totals import Total
from dpsample.answers.release import Release
from dpsample.privacy import Privacy
from dpsample.release.bought import Bought
from dpsample.release.kinds import Tokens
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import KeepAll

_TERMS = Terms(
    Privacy(1, "1e-6"),
    ("word",),
    Tokens(KeepAll(), per_key=Privacy("0.95", "1e-6"), grid=16),
    Bought(total=Total(9000, epsilon=Fraction(1, 20), sensitivity=Fraction(1))),
)
_CELLS = {"cat": 79848, "catfish": 4964, "cow": 12640, "dog": 33612, "dogma": 888, "eel": 816}

release = Release(
    pa.table({"word": list(_CELLS), "token": [cell / 16 for cell in _CELLS.values()]}), _TERMS
)
