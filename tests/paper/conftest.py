"""Fixtures of these tests."""

from paper_tables import tables as tables
