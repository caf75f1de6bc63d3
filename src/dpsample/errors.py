"""What dpsample raises.

    Exception
    └── DpsampleError            everything below
        ├── InvalidValue         an argument breaks a rule (also a ValueError)
        └── PrivacyViolation     a check of a privacy guarantee failed

    UserWarning
    └── PrivacyWarning           allowed, but hardly what anybody wants

Every message says the rule, what was found, and the remedy, in that order, on one line. None shows
a key or a frequency of private data.
"""


class DpsampleError(Exception):
    """Base of all errors that dpsample raises on purpose."""


class InvalidValue(DpsampleError, ValueError):  # noqa: N818 - named for what is wrong
    """An argument breaks a rule."""

    def __init__(self, rule: str, found: str, remedy: str) -> None:
        super().__init__(f"{rule}; found {found}; {remedy}")


class PrivacyViolation(DpsampleError):  # noqa: N818
    """A scheme does not keep the (epsilon, delta) that it was checked against."""


class PrivacyWarning(UserWarning):
    """Privacy parameters that are allowed, but protect very little."""
