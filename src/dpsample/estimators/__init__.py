"""From tokens to estimates. Post-processing: it sees a release's tokens and scheme, nothing else.

mle                  maximum likelihood, the paper's: biased, and of moderate variance
biased_down          on average never above the truth
unbiased             no bias, enormous variance: for study
inverse_probability  of a sample that is not private: for comparison
"""

from dpsample.estimators.biased_down import biased_down
from dpsample.estimators.inverse_probability import inverse_probability
from dpsample.estimators.mle import mle
from dpsample.estimators.tally import Tally
from dpsample.estimators.unbiased import unbiased

__all__ = ["Tally", "biased_down", "inverse_probability", "mle", "unbiased"]
