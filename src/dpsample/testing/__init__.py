"""Releases for tests of applications: of keys and frequencies that a test states, with fixed coins. NOT private.

releases  makes a release of each kind
fixtures  for pytest: from dpsample.testing.fixtures import release_for_tests

Such a release is a `Release` like any other, and answers the same questions. It is marked in its terms, its label and
its print, and the format of its file is another one: `dpsample test release`. Ledgers and proofs refuse it. Writing and
reading it is refused too, except within `allowed()`. docs/guides/testing-applications.md shows how it is used.

>>> from dpsample import testing
>>> release = testing.release({"cat": 120, "dog": 45, "my rare disease": 1})
>>> release
Test release (NOT private): 2 keys, with estimates of their frequencies
  warning   NOT private: made for tests by dpsample.testing, ...
  privacy   epsilon 1, delta 1e-06, for each element
...
>>> release == testing.release({"cat": 120, "dog": 45, "my rare disease": 1})
True
>>> release.write("release.parquet")
Traceback (most recent call last):
  ...
dpsample.errors.InvalidValue: a release that was made for tests is not private, so it cannot be written; ...
"""

from dpsample.release.made_for_tests import allowed
from dpsample.testing.releases import KINDS, release

__all__ = ["KINDS", "allowed", "release"]
