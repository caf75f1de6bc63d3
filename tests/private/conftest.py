"""Fixtures of tests of engines."""

from days import engine as engine
from pairings import pairing as pairing
from pairings import sorted_once as sorted_once
