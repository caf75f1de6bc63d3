"""The planner as a page on this machine: sliders, and what a release with such a setting would bring.

    choices     where sliders can stand, and the setting that goes with each place
    state       a place -> numbers and words, ready to be shown; those of places nearby are computed ahead
    page        the page; explore.js asks for what is shown, explore.css is what it needs beyond other pages
    server      serves it to this machine only, at an address that nobody can guess, until nobody asks any more

The page computes nothing: it shows what Python answers. What it shows of private data is private.
"""

from dpsample.planning.explore.choices import Choices, Place
from dpsample.planning.explore.server import Server
from dpsample.planning.explore.state import Explorer

__all__ = ["Choices", "Explorer", "Place", "Server"]
