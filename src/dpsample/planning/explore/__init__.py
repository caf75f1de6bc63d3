"""The planner as a page with sliders, served to this machine only.

    choices     the positions of the sliders, and the setting of each combination of positions
    state       positions -> numbers and words to show; nearby positions are computed ahead
    page        the page; explore.js requests what it shows, explore.css has the styles that other pages lack
    users       the same for users without a contribution bound: a few epsilons, computed while the page is open
    users_page  its page; users.js requests what it shows
    server      serves the page to this machine only, at an address that cannot be guessed, until it is idle

The page computes nothing: it shows what Python answers. What it shows of private data is private.
"""

from dpsample.planning.explore.choices import Choices, Place
from dpsample.planning.explore.server import Server
from dpsample.planning.explore.state import Explorer
from dpsample.planning.explore.users import UsersExplorer

__all__ = ["Choices", "Explorer", "Place", "Server", "UsersExplorer"]
