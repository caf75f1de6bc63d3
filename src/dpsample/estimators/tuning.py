"""Tuning: every number of the default estimator that was chosen rather than derived.

A `Calibration` carries its tuning, so that every cache is keyed by it. `TUNING` is what all questions use. Sizes of
work that change no result (blocks, cache lengths) are not here.

Chosen by benchmark, or by coverage, means: the value was set by hand, by comparing errors (`benchmarks/accuracy.py`) or
coverage (`benchmarks/accuracy.py --coverage`) of a few candidates, in the commit in brackets; no record of the
candidates was kept. `benchmarks/tuning.py` measures what half and double the value do to error and coverage; the last
lines of each comment sum it up, and docs/tuning.md has the table and the settings.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """The tuned numbers of the default estimator and of its predicted error.

    >>> from dataclasses import replace
    >>> replace(TUNING, bias_penalty=25.0) == TUNING
    False
    """

    # --- the table of a scheme (calibration)

    # Spacing of the table's frequencies and of the bins of tokens, in 1/epsilon.
    # A fourteenth of a token's standard deviation, so that interpolation errors vanish [ed19b54].
    # Half, double: no effect measured.
    table_spacing: float = 0.1
    # Least number of table frequencies in the support of a token; it binds if delta is about as large as epsilon.
    # No record of the choice; without it such schemes had no estimate [614fa2b].
    # Half, double: no effect measured.
    least_support_points: int = 16
    # Numbers in the table, at most. Beyond it (a very small epsilon) answers are by mle.
    # 160 MB of doubles [0bd62cd].
    # Half, double: no effect measured.
    table_limit: int = 20_000_000
    # Relative amount by which pi must fall short of the growth that privacy allows for growth to count as slower.
    # Far above rounding errors, far below any real change of growth [809b9bb].
    # Half, double: no effect measured.
    growth_tolerance: float = 1e-6
    # Share pi / q from which on a sampled key counts as reported, so that posterior means need no correction.
    # Chosen by benchmark [ddb5f73].
    # Half, double: no effect measured.
    settled_share: float = 0.999
    # Range behind the calibration threshold, in supports of a token, in which pi / q may still unsettle the table.
    # Later stretches, where q reaches 1 for a small tau, hardly bind [809b9bb].
    # Half, double: no effect measured.
    unsettled_supports: int = 4
    # Standard deviation of a token, times epsilon: weights of frequencies follow from it.
    # That of Laplace noise of scale 1/epsilon, rounded: sqrt(2) [ddb5f73].
    # Half, double: no effect measured.
    token_deviation: float = 1.4
    # Weight of a squared bias against a variance, if all reported keys had that bias.
    # Chosen by benchmark: the bias stays small against the standard error wherever keys are [ed19b54].
    # Half, double: no effect measured.
    bias_penalty: float = 50.0
    # Multiples of it among which sums over all keys choose by the width of their interval, with bounded noise.
    # Wide enough for sums (0.1) and for numbers of keys from a far frequency on (0.0001), by benchmark.
    # Half, double: not measured.
    normal_noise_penalties: tuple[float, ...] = (1.0, 0.1, 0.01, 0.001, 0.0001)
    # Number of keys for which values are made where biases are balanced: few, so that values stay smooth.
    # Sharper ones shorten intervals little, and oscillate where reported keys may be rare ones; by benchmark.
    # Half, double: error 0.999, 1.032 (farthest 0.85, 1.23); covered 100.0, 99.9 %.
    balanced_keys: float = 0.03
    # Powers of the frequency: biases cancel out over keys of which numbers fall with it. Zipf's law with exponent 1.
    # Two or three powers made no difference to the nine shapes of data, and more variance; by benchmark.
    # Half, double: error 1.021, 0.979 (farthest 1.22, 1.28); covered 98.5, 99.9 %.
    balanced_powers: tuple[float, ...] = (2.0,)
    # Deviations of the noise below the threshold: keys that rare, if they are reported, add nothing on average.
    # Without them, many keys of one low frequency shifted sums by up to ten standard errors; by coverage.
    # Half, double: error 0.977, 1.178 (farthest 1.40, 1.59); covered 99.9, 91.2 %.
    balanced_deviations: tuple[float, ...] = (2.0, 3.0)
    # Share of the sizes of biases from the threshold on that may not cancel out.
    # By coverage: 0.23 was needed where all frequencies are multiples of a number, 0.1 elsewhere.
    # Half, double: error 0.733, 1.517 (farthest 0.60, 1.80); covered 99.8, 100.0 %.
    unbalanced_share: float = 0.25
    # Weight of squared biases in the variance. Biases are the same in each release, unlike errors.
    # By coverage of held-out data: with 1, sums over 5 keys held in 88 %.
    # Half, double: error 0.955, 1.076 (farthest 0.88, 1.20); covered 99.9, 99.9 %.
    unbalanced_variance: float = 3.0
    # The same for the variance and its slope, as a multiple.
    # Chosen by coverage: a biased standard error costs more than a noisy one [895ee97].
    # Half, double: no effect measured.
    variance_penalty_factor: float = 10.0
    # Keys per power of ten at which token values are computed; numbers of reported keys are rounded up to these.
    # Two, so that few tables serve all tallies [ddb5f73].
    # Half, double: no effect measured.
    key_counts_per_decade: float = 2.0
    # Least of these numbers.
    # No record of the choice [600c5b4].
    # Half, double: no effect measured.
    least_key_count: float = 100.0
    # Share of the largest column below which a bin of tokens counts as empty; and the ridge of the normal equations.
    # Rounding errors of doubles, with a margin [ddb5f73].
    # Half, double: no effect measured.
    empty_bin: float = 1e-14
    # Half, double: no effect measured.
    ridge: float = 1e-12

    # --- the variance of a sum (calibrated, functional)

    # Frequencies beyond the table, and tokens at each, between which values and variances are interpolated.
    # No record of the choice: a trade of time against exactness [8ad2e17].
    # Half, double: no effect measured.
    variance_frequencies: int = 12
    # Half, double: no effect measured.
    variance_tokens: int = 512
    # Distance from a jump or kink of the summed function, in 1/epsilon, within which it has a bias; and its points.
    # No record of the choice: a trade of time against exactness [8fe8a69].
    # Half, double: no effect measured.
    kink_reach: float = 8.0
    # Half, double: no effect measured.
    kink_points: int = 33
    # Least ratio of the calibrated estimate of a variance to its posterior mean.
    # Chosen by coverage [895ee97].
    # Half, double: error 1.000, 1.000 (farthest 1.00, 1.00);
    # covered 97.2, 97.3 %; guaranteed 33, 33 %, covered 94.5, 94.5 %.
    variance_floor: float = 0.2
    # Square of the effective number of keys at which the calibrated variance and its posterior mean weigh alike.
    # Chosen by coverage with few keys [4d5634b].
    # Half, double: no effect measured.
    variance_blend: float = 6.0
    # Reporting probability up to which an unreported key counts in full toward the variance.
    # The detection threshold [895ee97].
    # Half, double: error 1.000, 1.000 (farthest 1.00, 1.00);
    # covered 97.4, 97.2 %; guaranteed 25, 33 %, covered 95.0, 94.5 %.
    certain_miss: float = 0.5
    # Frequencies above the least reported one, in 1/epsilon, up to which an unreported key may be; and points.
    # Two standard deviations of a token [895ee97].
    # Half, double: no effect measured.
    unreported_reach: float = 3.0
    # Half, double: no effect measured.
    unreported_points: int = 129

    # --- what is guaranteed (intervals)

    # The least frequency of an answer, above the threshold: frequencies at least, and in 1/epsilon.
    # Chosen by coverage where most keys are below the threshold: at it, errors are biased by up to 50 deviations.
    # Half, double: error 1.037, 0.955 (farthest 1.32, 0.58);
    # covered 95.6, 95.9 %; guaranteed 92, 100 %, covered 95.9, 95.9 %.
    least_margin: int = 2
    # Half, double: error 1.002, 0.998 (farthest 1.11, 0.84);
    # covered 95.9, 95.9 %; guaranteed 100, 100 %, covered 95.9, 95.9 %.
    least_margin_scale: float = 0.5
    # The same for bounded noise, which is bell-shaped: two of its deviations.
    # By coverage: one deviation held in 95 % as well, but rests more on what rare keys add.
    # Half, double: error 1.317, 0.654 (farthest 2.74, 0.19); covered 100.0, 100.0 %.
    least_margin_of_noise: float = 2.83
    # Least effective number of keys of the standard error.
    # Chosen by coverage; the usual rule of thumb for a normal approximation [076467e].
    # Half, double: error 1.000, 1.000 (farthest 1.00, 1.00);
    # covered 97.2, 97.2 %; guaranteed 33, 25 %, covered 94.5, 95.0 %.
    least_effective_keys: float = 30.0
    # Least effective number of keys of the calibrated variance, before it is blended.
    # Chosen by coverage [4d5634b].
    # Half, double: no effect measured.
    least_variance_keys: float = 3.0
    # Largest share of the variance that an unreported key may have.
    # Chosen by coverage [076467e].
    # Half, double: error 1.000, 1.000 (farthest 1.00, 1.00);
    # covered 97.2, 97.2 %; guaranteed 25, 33 %, covered 95.0, 94.5 %.
    largest_unreported_share: float = 0.02
    # Largest extrapolation, in standard errors, that does not cost the guarantee.
    # A bias of 0.25 standard errors costs a 95 % interval 0.7 percentage points of coverage (normal law) [ed19b54].
    # Half, double: no effect measured.
    negligible_extrapolation: float = 0.25
    # Upper bound of the keys below a bound that were counted above it, as a multiple of their estimate.
    # Chosen by coverage [f4b2fdd].
    # Half, double: error 1.000, 1.000 (farthest 1.00, 1.00);
    # covered 93.0, 97.2 %; guaranteed 33, 33 %, covered 94.5, 94.5 %.
    overcount_factor: float = 2.0
    # Bias below the calibration threshold, in keys, that counts as none.
    # Above rounding errors [f4b2fdd].
    # Half, double: no effect measured.
    rounding_bias: float = 1e-9

    # --- extrapolation below the calibration threshold (extrapolation)

    # Centres of the kernels that estimate densities, in multiples of the calibration threshold.
    # Chosen by benchmark [ddb5f73].
    # Half, double: error 1.034, 0.928 (farthest 2.59, 0.52);
    # covered 97.3, 97.5 %; guaranteed 21, 33 %, covered 93.1, 94.5 %.
    kernel_centres: tuple[float, ...] = (1.1, 1.45, 1.9)
    # Ratio of the density at the threshold to that at each kernel, at most.
    # A power law of exponent 3 passes; a spike at the threshold does not [ddb5f73].
    # Half, double: error 1.002, 1.001 (farthest 1.04, 1.01);
    # covered 97.2, 97.2 %; guaranteed 33, 33 %, covered 94.5, 94.5 %.
    kernel_density_ratios: tuple[float, ...] = (1.0, 2.0, 4.0)
    # Half-width of a kernel, in the logarithm of the frequency.
    # Chosen by benchmark: smooth kernels have a tenth of the error of sharp ones [d501648].
    # Half, double: error 1.051, 1.123 (farthest 1.58, 7.50);
    # covered 97.2, 97.6 %; guaranteed 33, 17 %, covered 94.5, 92.0 %.
    kernel_width: float = 0.4
    # Least half-width of a kernel, in 1/epsilon.
    # Narrower ones cannot tell frequencies apart; chosen by benchmark [d501648].
    # Half, double: no effect measured.
    kernel_resolution: float = 2.5
    # The bias penalty of a kernel, as a multiple: variance matters more there.
    # Chosen by benchmark [d501648].
    # Half, double: no effect measured.
    kernel_penalty_factor: float = 0.02
    # Standard errors by which extrapolated densities and slopes stay below their estimates.
    # Chosen by benchmark [ddb5f73].
    # Half, double: error 1.041, 0.902 (farthest 1.36, 0.41);
    # covered 97.2, 97.2 %; guaranteed 33, 33 %, covered 94.5, 94.5 %.
    extrapolation_caution: float = 0.7
    # Largest power with which a density may fall toward frequency 0.
    # Chosen by benchmark [ed19b54].
    # Half, double: no effect measured.
    steepest_power: float = 4.0
    # Largest change of that power between kernels; a sharper one is an end of the data, not a trend.
    # Chosen by benchmark [d501648].
    # Half, double: no effect measured.
    sharpest_bend: float = 2.0

    # --- quantiles and ranks (spectrum, cumulative, questions)

    # Points of the posterior of a token beyond the table; their total, at most; and points of the tokens' noise.
    # No record of the choice: trades of time and memory against exactness [895ee97, 9cda22b].
    # Half, double: no effect measured.
    posterior_points: int = 33
    # Half, double: no effect measured.
    posterior_limit: int = 1 << 22
    # Half, double: no effect measured.
    noise_points: int = 2048
    # Keys added to the error of a cumulative count, since the normal law is too narrow for a single key.
    # Chosen by coverage with few keys [d6faab2].
    # Half, double: error 0.992, 1.018 (farthest 0.96, 1.12);
    # covered 100.0, 100.0 %; guaranteed 27, 27 %, covered 100.0, 100.0 %.
    single_key_allowance: float = 0.2
    # Rounding error of a share times a number of keys.
    # Far above that of doubles [895ee97].
    # Half, double: no effect measured.
    rounding_keys: float = 1e-6
    # Least allowance for the noise of tokens in a quantile, in standard deviations of that noise.
    # Chosen by coverage: real data are not the uniform prior [3b75c45].
    # Half, double: error 0.921, 1.163 (farthest 0.74, 3.70);
    # covered 100.0, 100.0 %; guaranteed 27, 27 %, covered 100.0, 100.0 %.
    least_noise_deviations: float = 0.5
    # Distance from the calibration threshold, in the same deviations, below which a lower end is the least frequency.
    # Chosen by coverage [895ee97].
    # Half, double: no effect measured.
    threshold_noise_deviations: float = 1.0
    # Least effective number of keys of a cumulative count by which a quantile interval is narrowed.
    # Chosen by coverage [f4b2fdd].
    # Half, double: error 0.999, 1.219 (farthest 0.99, 3.48);
    # covered 100.0, 100.0 %; guaranteed 27, 27 %, covered 100.0, 100.0 %.
    least_cumulative_keys: float = 30.0
    # Least variance of a cumulative count, as a share of its mean square.
    # Chosen by coverage [f4b2fdd].
    # Half, double: error 1.000, 1.002 (farthest 1.00, 1.04);
    # covered 100.0, 100.0 %; guaranteed 27, 27 %, covered 100.0, 100.0 %.
    cumulative_variance_floor: float = 0.2
    # Keys below which no interval of a quantile is guaranteed.
    # As `least_effective_keys` [3b75c45].
    # Half, double: error 1.000, 1.000 (farthest 1.00, 1.00);
    # covered 100.0, 100.0 %; guaranteed 27, 7 %, covered 100.0, 100.0 %.
    least_quantile_keys: float = 30.0
    # Frequencies added to the support of a token when the competitors for a rank are chosen.
    # Supports are longer than `support_length` only where pi is not yet constant; more costs time alone [006369f].
    ranking_margin: int = 32

    # --- the predicted error of a plan (planning.errors)

    # Frequencies in the support of a token, in a quick table; and bins of tokens, beyond which it is coarser.
    # A page can follow a slider, and errors are mostly within 3 % of the exact table (`predicted`) [8d50994, 168d0ff].
    # Half, double: error 1.007, 0.995 (farthest 1.05, 0.96).
    quick_table_rows: int = 130
    # Half, double: error 1.004, 1.000 (farthest 1.03, 1.00).
    quick_table_bins: int = 320
    # Largest spacing of a quick table, in 1/epsilon.
    # No record of the choice [8d50994].
    # Half, double: no effect measured.
    quick_table_spacing: float = 0.5
    # Nodes of the Gauss-Hermite quadrature in each of three directions.
    # No record of the choice [600c5b4].
    # Half, double: no effect measured.
    quadrature_nodes: int = 5
    # Support of a token beyond which all tables are quick.
    # `calibrated` itself ends at about half of it [600c5b4].
    # Half, double: no effect measured.
    longest_exact_support: int = 6_000
    # Spacing of the frequencies at which mle is evaluated, in 1/epsilon; their number below and above that range.
    # Errors are within 1.5 % of the exact ones, or within 35 % below 0.002 (`predicted`) [600c5b4].
    # Half, double: no effect measured.
    mle_knot_spacing: float = 0.5
    # Half, double: no effect measured.
    mle_outer_knots: int = 10
    # Spacing of the tokens at which mle is evaluated, in 1/epsilon.
    # No record of the choice [600c5b4].
    # Half, double: no effect measured.
    mle_token_spacing: float = 0.1


TUNING = Tuning()
