"""Before a release: what a setting would bring, and which epsilon reaches a goal. No budget is spent.

    frequencies  how many keys have each frequency: made up, from a histogram, or counted
    setting      what a release is to be, without its data
    forecast     frequencies and a setting -> what is to be expected of that release
    errors       the error of the default estimator, predicted without simulation
    goals        grids of settings, and the smallest epsilon that reaches a goal
    text         a plan in words, and the command or the Python that makes the release
    explore      the planner as a page with sliders, served to this machine only

Frequencies of private data (`dpsample.count_frequencies`) are private, and so is what is planned by them: do not
publish it. An epsilon that was chosen by looking at the data is not covered by the privacy guarantee; choose by public
or made-up frequencies where you can.
"""

from dpsample.comparison.reporting_curve import Curve, curve
from dpsample.planning.forecast import Expected, Outlook, outlook
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.goals import Goal, default_delta, settings, smallest_epsilon
from dpsample.planning.setting import Setting

__all__ = [
    "Curve",
    "Expected",
    "Frequencies",
    "Goal",
    "Outlook",
    "Setting",
    "curve",
    "default_delta",
    "outlook",
    "settings",
    "smallest_epsilon",
]
