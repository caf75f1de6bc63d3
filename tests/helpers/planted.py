"""Planted bugs: plausible mistakes that break privacy, each of which the tests must catch. `mutants.py` tries them.

Each is one small change of one file under `src/dpsample`: `old` is there exactly once (tested), on a short and stable
line. `tests` are those that catch it, a file or one test of it. Whoever changes such a line changes its entry; a bug
that was found in the product joins the list.
"""

from planted_drawing import DRAWING, Bug
from planted_spending import SPENDING

__all__ = ["BUGS", "Bug"]

BUGS = [*DRAWING, *SPENDING]
