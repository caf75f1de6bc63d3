"""What PWS is compared with: the exact accuracy of other methods.

They exist for comparison only: each states `reported` and `errors` for `dpsample.comparison.accuracy`.

    stability   stability-based histogram (SbH), and the sampled one: Laplace noise and a cutoff
    threshold   sample-and-threshold: a sample of elements and a threshold, no noise
    nonprivate  weighted sampling without privacy
"""

from dpsample.comparison.baselines.nonprivate import NonPrivate
from dpsample.comparison.baselines.stability import StabilityHistogram
from dpsample.comparison.baselines.threshold import SampleAndThreshold

__all__ = [
    "NonPrivate",
    "SampleAndThreshold",
    "StabilityHistogram",
]
