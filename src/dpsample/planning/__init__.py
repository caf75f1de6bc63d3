"""Before a release: what a setting would report, and which epsilon reaches a goal. No budget is spent.

    frequencies  how many keys have each frequency: by a formula, from a histogram, or counted
    earlier      the frequencies that an earlier release lets estimate
    setting      the options of a planned release, without its data
    command      the command, and the Python, that make a planned release
    forecast     frequencies and a setting -> what is to be expected of that release
    errors       the error of the default estimator, predicted without simulation
    users        users without a contribution bound: ways to find their keys, and what any method could report
    goals        grids of settings, and the smallest epsilon that reaches a goal
    text         what `dpsample plan` prints, and the command or the Python that makes the release
    users_text   the same for users without a contribution bound
    explore      the planner as a page with sliders, served to this machine only

Frequencies of private data (`dpsample.count_frequencies`) are private, and so is a plan of them: do not publish it. The
privacy guarantee does not cover an epsilon that was chosen by looking at the data. Choose it by public or made-up
frequencies where you can.
"""

from dpsample.comparison.reporting_curve import Curve, curve
from dpsample.planning.earlier import estimated_frequencies
from dpsample.planning.forecast import Expected, Forecast, forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.goals import Goal, default_delta, recommended, settings, smallest_epsilon
from dpsample.planning.setting import Setting

__all__ = [
    "Curve",
    "Expected",
    "Forecast",
    "Frequencies",
    "Goal",
    "Setting",
    "curve",
    "default_delta",
    "estimated_frequencies",
    "forecast",
    "recommended",
    "settings",
    "smallest_epsilon",
]
