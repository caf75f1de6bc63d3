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

_WORDS = ["cat", "catfish", "cow", "dog", "dogma", "eel"]
_TOKENS = [4990.5, 310.25, 790.0, 2100.75, 55.5, 51.0]
_TABLE = pa.table({"word": _WORDS, "token": _TOKENS})
_PER_KEY = Privacy("0.95", "1e-6")
_KIND = Tokens(KeepAll(), _PER_KEY, grid=16)
# of the privacy that keys leave, the total spends the rest
_TOTAL = Total(9000, epsilon=Fraction(1, 20), sensitivity=Fraction(1))
_TERMS = Terms(Privacy(1, "1e-6"), ("word",), _KIND, Bought(total=_TOTAL))

release = Release(_TABLE, _TERMS)
