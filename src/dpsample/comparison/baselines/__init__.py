"""What PWS is compared with: other methods, which run, and their exact accuracy.

They exist for comparison only. `draw` takes its randomness from the caller, in floating point, so none of them is
certified: do not publish what they return. Those for elements state `reported` and `errors` for
`dpsample.comparison.accuracy`. Those for users' sets of keys find keys, without counts.

    stability   stability-based histogram (SbH), and the sampled one: Laplace noise and a cutoff
    threshold   sample-and-threshold: a sample of elements and a threshold, no noise
    nonprivate  weighted sampling without privacy
    set_union   set union of users' keys: weighted Gaussian, DP-SIPS, Policy Gaussian, greedy
"""

from dpsample.comparison.baselines.nonprivate import NonPrivate
from dpsample.comparison.baselines.set_union import DpSips, PolicyGaussian, PolicyGreedy, WeightedGaussian
from dpsample.comparison.baselines.stability import StabilityHistogram
from dpsample.comparison.baselines.threshold import SampleAndThreshold

__all__ = [
    "DpSips",
    "NonPrivate",
    "PolicyGaussian",
    "PolicyGreedy",
    "SampleAndThreshold",
    "StabilityHistogram",
    "WeightedGaussian",
]
