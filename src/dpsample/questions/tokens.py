"""Questions to a release with tokens, or of keys only: where each is answered. `counted` has the same names."""

from dpsample.questions.quantiles import quantiles
from dpsample.questions.ranking import compare, each_key, rank, top
from dpsample.questions.remainder import other
from dpsample.questions.sums import count_keys, mean, total
from dpsample.questions.unreported import unreported_key

__all__ = ["compare", "count_keys", "each_key", "mean", "other", "quantiles", "rank", "top", "total", "unreported_key"]
