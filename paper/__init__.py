"""The paper's figures and claims, computed by our code, beside what the paper states.

reported     series of the figures on which keys are reported
estimated    series of the figures on bias, error and variance
ordered      series on the order of tokens; the paper has no such figure
breakpoints  Algorithm 5 at all real tokens, as printed and as corrected
claims       the paper's claims, what we measure, and whether they hold
figures      what each figure shows, and what follows from it
data         real data sets
page         one page with all of it
build        writes everything into a folder
"""

from paper.build import build
from paper.claims import CLAIMS, Claim
from paper.figures import FIGURES, Figure
from paper.finding import Finding

__all__ = ["CLAIMS", "FIGURES", "Claim", "Figure", "Finding", "build"]
