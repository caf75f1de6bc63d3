"""From tokens to estimates. Post-processing: it sees a release's tokens and scheme, nothing else.

tally                what a question sees of the keys that it selects
measures             what is summed over keys: a function of the frequency
tuning               every number that was chosen rather than derived
calibration          the token laws of a scheme, and corrections of token values
functional           token values without bias above the calibration threshold
extrapolation        what keys below the calibration threshold add to a sum
sum_functionals      the token values of a sum and of its error
calibrated           the default: a tally -> a sum, above the threshold and below it
reported             sums over the keys that were reported
layers               token values of coordinated samples, for differences of sums
deviations           the error of a mean
intervals            the width of a confidence interval of a sum
notes                what is claimed of an answer, and apart from it the advice
estimate             a tally -> a sum with its error, by any estimator
spectrum             a tally -> how many keys have each frequency: for ranks and quantiles
cumulative           numbers of keys up to each frequency: for quantiles of many keys
mle                  maximum likelihood, the paper's: biased, and of moderate variance
biased_down          on average never above the truth
unbiased             no bias, enormous variance: for study
inverse_probability  of a sample that is not private: for comparison
"""

from dpsample.estimators.biased_down import biased_down
from dpsample.estimators.estimate import ESTIMATORS, Estimate, estimate
from dpsample.estimators.inverse_probability import inverse_probability
from dpsample.estimators.mle import mle
from dpsample.estimators.spectrum import Spectrum, spectrum
from dpsample.estimators.tally import Tally
from dpsample.estimators.unbiased import unbiased

__all__ = [
    "ESTIMATORS",
    "Estimate",
    "Spectrum",
    "Tally",
    "biased_down",
    "estimate",
    "inverse_probability",
    "mle",
    "spectrum",
    "unbiased",
]
