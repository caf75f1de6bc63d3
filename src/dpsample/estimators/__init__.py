"""From tokens to estimates. Post-processing: it sees a release's tokens and scheme, nothing else.

tally       what a question sees of the keys that it selects
mle         the paper's estimator, token by token
learned     a prior of the frequencies, learned from a tally
estimate    a tally -> a sum with its error
"""

from dpsample.estimators.estimate import ESTIMATORS, Estimate, estimate
from dpsample.estimators.learned import Prior, learn
from dpsample.estimators.mle import mle
from dpsample.estimators.tally import Tally

__all__ = ["ESTIMATORS", "Estimate", "Prior", "Tally", "estimate", "learn", "mle"]
