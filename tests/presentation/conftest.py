"""Fixtures of these tests."""

from reports import users as users
