"""What PWS is compared with: other methods, which run, and their exact accuracy.

They exist for comparison only. `draw` takes its randomness from the caller, in floating point, so none of them is
certified: do not publish what they return. Those for elements state `reported` and `errors` for
`dpsample.comparison.accuracy`.

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
