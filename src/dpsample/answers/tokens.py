"""Questions to a release with tokens, or of keys only: where each is answered. `counted` has the same names."""

from dpsample.answers.token_quantiles import quantiles
from dpsample.answers.token_order import compare, each_key, rank, top
from dpsample.answers.remainder import other
from dpsample.answers.token_sums import count_keys, mean, total
from dpsample.answers.unreported import unreported_key

__all__ = ["compare", "count_keys", "each_key", "mean", "other", "quantiles", "rank", "top", "total", "unreported_key"]
