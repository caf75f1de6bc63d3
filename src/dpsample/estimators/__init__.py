"""From tokens to estimates. Post-processing: it sees a release's tokens and scheme, nothing else."""

from dpsample.estimators.mle import mle

__all__ = ["mle"]
