"""The figures: what each shows, what the paper says about it, and what we find.

`FIGURES` has them in the paper's order. A figure's series is a table ``panel, line, x, y``. `finding` computes the text
beside the figure from that table, so text, chart and CSV cannot disagree.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpsample.comparison.reporting_curve import OPEN, PWS, SBH, TIGHT
from dpsample.scheme.sampling import Floats
from paper.charts import Panel
from paper.estimated import ESTIMATORS, SAMPLED, bias, first_within, nrmse, variance
from paper.finding import CORRECTED, FAILS, HOLDS, Finding
from paper.ordered import ALGORITHM_4, ALGORITHM_5, LOSS, by_pairs
from paper.reported import Spread, by_delta, by_frequency, by_frequency_sampled, by_tau, zipf

DataSets = Mapping[str, Spread]


@dataclass(frozen=True)
class Figure:
    """One figure: `series` makes its table, `axes` the panel of a title, and `finding` the text from the table."""

    name: str
    title: str
    paper: str
    parameters: str
    says: str
    series: Callable[[bool, DataSets], pa.Table]
    axes: Callable[[str], Panel]
    finding: Callable[[pa.Table], Finding]
    columns: int = 3
    needs_data: bool = False

    def panels(self, table: pa.Table) -> list[Panel]:
        """Return the panels of a table, in order."""
        return [self.axes(title) for title in dict.fromkeys(table["panel"].to_pylist())]


def curve(table: pa.Table, panel: str, line: str) -> tuple[Floats, Floats]:
    """Return x and y of one line."""
    chosen = np.array(table["panel"].to_pylist()) == panel
    chosen &= np.array(table["line"].to_pylist()) == line
    return table["x"].to_numpy()[chosen], table["y"].to_numpy()[chosen]


def titles(table: pa.Table, start: str = "") -> list[str]:
    """Return the titles of the panels that begin with a text."""
    return [title for title in dict.fromkeys(table["panel"].to_pylist()) if title.startswith(start)]


def _zipf_unsampled(quick: bool, _: DataSets) -> pa.Table:
    n = 10**5 if quick else 10**6
    return by_delta({f"Zipf, α = {alpha}": zipf(n, alpha) for alpha in (1, 2)}, quick)


def _zipf_sampled(quick: bool, _: DataSets) -> pa.Table:
    return by_tau({f"Zipf, α = {alpha}": zipf(10**5, alpha) for alpha in (0.5, 1, 2)}, quick)


def _above(table: pa.Table) -> Finding:
    panels = titles(table, "ε")
    above = all((curve(table, p, PWS)[1] >= curve(table, p, SBH)[1] - 1e-9).all() for p in panels)
    ratios = [curve(table, p, "PWS ÷ SbH") for p in titles(table, "Ratio")]
    low = ", ".join(f"{y[x == i][0]:.2f} at {i}" for x, y in ratios[1:] for i in (1, 2, 3))
    most = " and ".join(f"{y.max():.1f}" for _, y in ratios)
    text = f"PWS is above SbH at every frequency: {_yes(above)}. At ε = 0.01 the ratio is {low}; it grows to {most}."
    return Finding(text, HOLDS if above else FAILS)


def _gains(table: pa.Table) -> Finding:
    ratios = {name: y for name in titles(table) for y in [curve(table, "Ratio of PWS to SbH", name)[1]] if len(y)}
    ends = [100 * (f - 1) for y in ratios.values() for f in (y.min(), y.max())]
    each = "; ".join(f"{name}: {100 * (y.min() - 1):.1f} to {100 * (y.max() - 1):.0f} %" for name, y in ratios.items())
    text = f"Gain of PWS over SbH as δ falls from 1 to 1e-8: {each}."
    verdict = HOLDS if min(ends) >= 20 and max(ends) <= 300 else CORRECTED if min(ends) > -1e-6 else FAILS
    return Finding(text, verdict, f"the range is {min(ends):.1f} to {max(ends):.0f} %")


def _meets_q(table: pa.Table) -> Finding:
    parts, good = [], True
    for panel in titles(table):
        i, q = curve(table, panel, OPEN)
        pws, sbh = curve(table, panel, PWS)[1], curve(table, panel, SBH)[1]
        good &= bool((sbh <= pws * (1 + 1e-9)).all() and (pws <= q * (1 + 1e-9)).all())
        parts.append(f"{panel}: {i[pws > 0.99 * q][0]:.0f} and {i[sbh > 0.99 * q][0]:.0f}")
    text = f"Frequency from which on PWS and sampled SbH report 99 % of what is sampled: {'; '.join(parts)}."
    return Finding(text, HOLDS if good else FAILS)


def _gains_sampled(table: pa.Table) -> Finding:
    parts, least = [], []
    for name in [title for title in titles(table) if not title.startswith("Gain")]:
        tau, pws = curve(table, name, PWS)
        gain, tight = (100 * (pws / curve(table, name, other)[1] - 1) for other in (SBH, TIGHT))
        least.append(gain[tau >= 0.001].min())
        parts.append(f"{name}: {gain[0]:.1f} % ({tight[0]:.0f} %) at τ = 10, at least {least[-1]:.1f} % for τ ≥ δ")
    text = f"Gain over sampled SbH (with the tight cutoff): {'; '.join(parts)}."
    return Finding(text, CORRECTED if min(least) > -1e-6 else FAILS, "the gain is at least the one that we find")


def _bias(table: pa.Table) -> Finding:
    parts, good = [], True
    for panel in titles(table, "PWS, MLE"):
        x, sbh = curve(table, panel, "sampled SbH, any τ")
        starts = []
        for line in dict.fromkeys(table["line"].to_pylist()):
            if line.startswith("τ"):
                at = first_within(0.1, curve(table, panel, line)[1])
                starts.append(f"{x[at - 1]:.0f} ({line})")
                good &= x[at - 1] <= x[first_within(0.1, sbh) - 1]
        parts.append(f"{panel}: {', '.join(starts)}; SbH {x[first_within(0.1, sbh) - 1]:.0f}")
    text = f"Frequency from which on the bias is within 10 %: {'. '.join(parts)}. {_not_monotone(table)}"
    return Finding(text, HOLDS if good else FAILS)


def _not_monotone(table: pa.Table) -> str:
    """Where the bias does not fall with the frequency, without sampling."""
    x, mle = curve(table, "PWS, MLE, ε = 0.1", "τ = 1")
    over = int(mle.argmax())
    high = x >= 200
    lower = curve(table, "PWS, biased down, ε = 0.1", "τ = 1")[1][high]
    under = int(lower.argmin())
    return (
        f"It does not fall steadily: at ε = 0.1 without sampling, MLE crosses 0 and is {100 * mle[over]:.1f} % too "
        f"high at frequency {x[over]:.0f}; the biased-down estimate swings, and is {-100 * lower[under]:.0f} % too low "
        f"at {x[high][under]:.0f}, beyond the detection threshold."
    )


def _errors(table: pa.Table) -> Finding:
    parts, good = [], True
    for panel in titles(table):
        tau, ours = curve(table, panel, "PWS, MLE")
        theirs = curve(table, panel, SAMPLED)[1]
        best, worst = int(ours.argmin()), int((ours / theirs).argmax())
        good &= bool(ours[0] < theirs[0] and 0 < best < len(ours) - 1)
        parts.append(
            f"{panel}: MLE {ours[0]:.4f} at τ = 1, best {ours[best]:.4f} at τ = {tau[best]:.2g}; sampled SbH "
            f"{theirs[0]:.3f} at τ = 1; MLE at most {(ours / theirs)[worst]:.3f} of sampled SbH (τ = {tau[worst]:.2g})"
        )
    return Finding("; ".join(parts) + ".", HOLDS if good else FAILS)


def _variances(table: pa.Table) -> Finding:
    parts, good = [], True
    for panel in titles(table, "Normalised"):
        y, open_ = curve(table, panel, "PWS, MLE")[1], curve(table, panel, OPEN)[1]
        times = (y / open_).max() if len(open_) else np.nan
        good &= bool(y.max() < 1 if not len(open_) else times < 10)
        parts.append(
            f"{panel.split(', ')[1]}: {f'{times:.2f} times that of the sample' if len(open_) else f'{y.max():.2f}'}"
        )
    text = f"Largest normalised variance of PWS (MLE): {'; '.join(parts)}."
    return Finding(text, HOLDS if good else CORRECTED, "the variance is at most the one that we find")


def _order(table: pa.Table) -> Finding:
    def ahead(panel: str) -> float:
        """By how much anything is above Algorithm 5."""
        best = curve(table, panel, ALGORITHM_5)[1]
        return max(float((curve(table, panel, other)[1] - best).max()) for other in (ALGORITHM_4, SBH, TIGHT))

    free = max(map(ahead, [*titles(table, "Pairs"), *titles(table, "Kendall’s τ, no")]))
    sampled = max(map(ahead, titles(table, "Kendall’s τ, ppswor")))
    epsilon, loss = curve(table, LOSS, ALGORITHM_4)
    text = (
        f"Without sampling nothing is above Algorithm 5 by more than {max(free, 0):.0e}; with ppswor, sampled SbH "
        f"has a rank correlation larger by up to {max(sampled, 0):.4f}: it reports fewer rare keys. If keys "
        "of high frequency are mostly not sampled, a reported key of low frequency is ordered above them. Algorithm 5 "
        "is the best of the schemes with its reporting probabilities. Integer tokens (Algorithm 4) lose up to "
        f"{loss[0]:.1e} of a pair at ε = {epsilon[0]:g} and {loss[-1]:.1e} at ε = {epsilon[-1]:g}."
    )
    verdict = FAILS if free > 1e-3 else CORRECTED if sampled > 1e-3 else HOLDS
    return Finding(text, verdict, "all methods compared have the same reporting probabilities")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _share(title: str, x: str) -> Panel:
    if title.startswith("Ratio"):
        return Panel(title, x, "ratio of reported keys", log_x=True)
    if title.startswith("Gain"):
        return Panel(title, x, "gain in reported keys, percent", log_x=True, log_y=True)
    return Panel(title, x, "share of keys reported", log_x=True, log_y=True)


def _by_frequency(title: str) -> Panel:
    if title.startswith("Ratio"):
        return Panel(title, "frequency of the key", "ratio of probabilities", log_x=True, log_y=True)
    return Panel(title, "frequency of the key", "probability of being reported")


def _by_order(title: str) -> Panel:
    if title.startswith("Pairs"):
        return Panel(title, "smaller frequency of the pair", "probability of the right order")
    if title.startswith("Kendall"):
        return Panel(title, "epsilon", "expected rank correlation", log_x=True)
    return Panel(title, "epsilon", "probability lost", log_x=True, log_y=True)


_TAU, _DELTA = "sampling threshold τ", "delta"
_FREQUENCY = "frequency of the key"
_ALL = (
    Figure(
        "reporting",
        "Reporting probability of each frequency, without sampling",
        "Figure 1",
        "No sampling; (ε, δ) = (0.1, 0.01) and (0.01, 1e-6).",
        "PWS reaches 1 earlier than SbH, and is well above it before. At low frequencies, their ratio is about twice "
        "the frequency.",
        lambda quick, _: by_frequency(quick),
        _by_frequency,
        _above,
        2,
    ),
    Figure(
        "zipf",
        "Share of keys reported as delta falls, Zipf frequencies",
        "Figure 2",
        "No sampling; ε = 0.1, δ from 1 to 1e-8; frequencies floor((n / rank)^α), n = 10⁶ (10⁵ with --quick).",
        "PWS reports 20 to 300 % more keys than SbH, and all keys at δ = 1.",
        _zipf_unsampled,
        lambda title: _share(title, _DELTA),
        _gains,
    ),
    Figure(
        "real",
        "Share of keys reported as delta falls, real data",
        "Figure 3",
        "No sampling; ε = 0.1, δ from 1 to 1e-8. The paper has words of news headlines and degrees in a network of "
        "questions; these are data that any machine can get. `--data` draws your own.",
        "Results are similar to those of Zipf frequencies.",
        lambda quick, data: by_delta(data, quick),
        lambda title: _share(title, _DELTA),
        _gains,
        needs_data=True,
    ),
    Figure(
        "sampled-reporting",
        "Reporting probability of each frequency, with sampling",
        "Figure 4",
        "Threshold ppswor; ε = 0.1, δ = 0.001; τ = 0.1, 0.01, 0.001.",
        "Both methods finally report all that is sampled. PWS does so at a lower frequency, and reports much more "
        "below it.",
        lambda quick, _: by_frequency_sampled(quick),
        lambda title: Panel(
            title, _FREQUENCY, "probability of being reported", log_x=True, log_y=True, span_y=(1e-5, 1.2)
        ),
        _meets_q,
    ),
    Figure(
        "zipf-sampled",
        "Share of keys reported as the sample shrinks, Zipf frequencies",
        "Figure 5",
        "Threshold ppswor; ε = 0.1, δ = 0.001; τ from 10 down to 1e-5; frequencies floor((n / rank)^α), n = 10⁵.",
        "Gains over sampled SbH are at least 230 % (α = 0.5), 97 % (α = 1) and 37 % (α = 2), and PWS approaches the "
        "sample that is not private when τ approaches δ.",
        _zipf_sampled,
        lambda title: _share(title, _TAU),
        _gains_sampled,
    ),
    Figure(
        "real-sampled",
        "Share of keys reported as the sample shrinks, real data",
        "Figures 6 and 7",
        "Threshold ppswor; ε = 0.1, δ = 0.001; τ from 10 down to 1e-5.",
        "Results are similar to those of Zipf frequencies.",
        lambda quick, data: by_tau(data, quick),
        lambda title: _share(title, _TAU),
        _gains_sampled,
        2,
        needs_data=True,
    ),
    Figure(
        "bias",
        "Bias of the estimate for one key",
        "Figure 8, top",
        "Priority sampling; δ = 2⁻²⁰; ε = 0.1 and 0.5. Bias is a share of the frequency.",
        "The bias falls with the frequency. PWS has a lower bias than SbH; it falls with τ and vanishes as τ "
        "approaches δ. The bias of SbH does not depend on τ.",
        lambda quick, _: bias(quick),
        lambda title: Panel(title, _FREQUENCY, "bias / frequency", span_y=(-1.05, 0.25)),
        _bias,
        len(ESTIMATORS),
    ),
    Figure(
        "nrmse",
        "Error of an estimated sum as the sample shrinks",
        "Figure 8, bottom",
        "Priority sampling; δ = 2⁻²⁰; 1,000 keys of each frequency from 1 to 200. Root of the mean squared error, as a "
        "share of the sum. Errors below 0.001 are not drawn. “PWS, calibrated” is simulated, 60 times (10 with "
        "--quick), so it is off by about 9 % (22 %) itself. At ε = 0.1 it has a peak at τ = 0.001, because these data "
        "end at 200: there the extrapolation below frequency 93 looks at keys up to 263, finds none beyond 200, and "
        "takes this for a density that falls. With keys up to 300 there is no peak (docs/theory.md, section 7).",
        "Without sampling (τ = 1), the error of PWS (MLE) is well below that of SbH. It is smallest in the middle, "
        "where bias and variance balance.",
        lambda quick, _: nrmse(quick),
        lambda title: Panel(title, _TAU, "error / sum", log_x=True, log_y=True, span_y=(1e-3, 1)),
        _errors,
    ),
    Figure(
        "variance",
        "Variance of the estimate for one key",
        "Figure 9",
        "Priority sampling; δ = 2⁻²⁰; ε = 0.1; τ = 1, 0.001, 0.00001. Normalised: divided by the squared frequency.",
        "Without sampling, the normalised variance is below 1. With sampling, it is of the order of the variance of "
        "the sample that is not private.",
        lambda quick, _: variance(quick),
        lambda title: Panel(
            title, _FREQUENCY, "variance / frequency²" if title.startswith("N") else "variance", log_y=True
        ),
        _variances,
    ),
    Figure(
        "order",
        "How well tokens keep the order of the frequencies",
        "not in the paper",
        "δ = 1e-6. Top: pairs of keys 1/ε apart, without sampling. Bottom: mean over all pairs of different "
        "frequencies from 1 to 200 (60 with --quick), and the largest loss of a pair against Algorithm 5.",
        "Corollary 5.1: no private method orders any pair with a larger probability than Algorithm 5.",
        lambda quick, _: by_pairs(quick),
        _by_order,
        _order,
        2,
    ),
)
FIGURES: dict[str, Figure] = {figure.name: figure for figure in _ALL}
