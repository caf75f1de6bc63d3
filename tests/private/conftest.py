"""Fixtures of tests of engines."""

from pairings import pairing as pairing
from pairings import sorted_once as sorted_once
