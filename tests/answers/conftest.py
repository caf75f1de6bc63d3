"""Fixtures of these tests."""

from shops import shops as shops
