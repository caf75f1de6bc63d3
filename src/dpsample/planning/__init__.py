"""Before a release: what a setting would report, and which epsilon reaches a goal. No budget is spent.

    frequencies  how many keys have each frequency: by a formula, from a histogram, or counted
    earlier      the frequencies that an earlier release lets estimate
    setting      the options of a planned release, without its data
    forecast     frequencies and a setting -> what to expect of that release, next to other methods
    users        the same for users without a contribution bound, by each way to find their keys
    errors       the error of the default estimator, predicted without simulation
    moments      moments of the values of tokens, from which the error of `calibrated` follows
    errors_of_mle  the same of `mle`, where epsilon is too small for `calibrated`
    grid         several settings to plan together
    goals        the smallest epsilon that reaches a goal, and which of several forecasts to release by
    plan         forecasts, and what led to them: what `dpsample plan` prints
    columns      its columns, and what their words mean
    command      the command, or the Python, that makes the release
    page         `explore`: a plan as one page with sliders
    content      the JSON values that this page shows
    charts       its charts, for each position of the sliders

Frequencies of private data (`dpsample.count_frequencies`) are private, and so is a plan of them: do not publish it. The
privacy guarantee does not cover an epsilon that was chosen by looking at the data. Choose it by public or made-up
frequencies where you can.
"""

from dpsample.comparison.reporting_curve import Curve, curve
from dpsample.planning.earlier import estimated_frequencies
from dpsample.planning.forecast import Expected, Forecast, forecast, most_possible
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.goals import Goal, recommended, smallest_epsilon
from dpsample.planning.grid import Grid, default_delta
from dpsample.planning.page import Page, explore
from dpsample.planning.plan import Plan
from dpsample.planning.setting import Setting

__all__ = [
    "Curve",
    "Expected",
    "Forecast",
    "Frequencies",
    "Goal",
    "Grid",
    "Page",
    "Plan",
    "Setting",
    "curve",
    "default_delta",
    "estimated_frequencies",
    "explore",
    "forecast",
    "most_possible",
    "recommended",
    "smallest_epsilon",
]
