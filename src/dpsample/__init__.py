"""Private weighted samples and histograms of key-frequency data.

A dataset is a bag of elements, each with a key. dpsample tells which keys are in it, and about how often, under
(epsilon, delta)-differential privacy for each element, or for each user. Data flow one way:

    source -> sample -> sanitize -> release -> question -> page

    privacy       Privacy(epsilon, delta), exact and checked
    definitions   privacy stated as zCDP or GDP, and what follows from one definition for another
    exact         how numbers are read and written exactly
    balls         real functions with proved bounds, in ball arithmetic
    errors        what is raised, and when
    extras        packages that some features need, and the refusal to work without them
    interrupts    signals such as Ctrl-C, held while a step must not be cut in two
    sql           how names are written in SQL
    lazy          libraries that are loaded when they are first used
    scheme        the mathematics: sampling, reporting probabilities, token laws, certificates
    accounting    what is spent, and the proof of it: composition, budgets
    ledger        the file of what a dataset's releases spent, its rules, and what is left
    private       EVERYTHING that may see private data or secret coins: sources, engines, randomness, runs
    spark         releases of data on a cluster; imported on demand
    release       what every release has: its terms, its kind and its rows
    answers       Release, the only publishable object, and what can be asked of it, or of several
    estimators    token -> estimate of the frequency; a tally of tokens -> a sum with its error
    comparison    the accuracy of methods, and other methods to compare with
    planning      which epsilon, and what it brings, before any budget is spent
    presentation  words, tables, charts and pages
    files         tables with metadata, in atomic files and folders
    testing       releases for tests of applications, marked as NOT private
    cli           the `dpsample` command
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsample.accounting.totals import SampleSize
    from dpsample.answers.changes import changes
    from dpsample.answers.release import Release, read_release
    from dpsample.answers.several import combine
    from dpsample.errors import (
        DpsampleError,
        InvalidValue,
        PrivacyViolation,
        PrivacyWarning,
        SystemFailure,
    )
    from dpsample.ledger.balance import Ledger
    from dpsample.ledger.ledger import new_ledger, read_ledger
    from dpsample.privacy import Privacy
    from dpsample.private.count import count_frequencies
    from dpsample.private.run import release, release_to_file, sample, sanitize
    from dpsample.private.sample import Sample, read_sample
    from dpsample.private.sources.source import Source
    from dpsample.private.stream.stream import Stream, read_stream
    from dpsample.scheme.custom import CustomSampling
    from dpsample.scheme.holding import SampleAndHold
    from dpsample.scheme.registered import register_sampling
    from dpsample.scheme.sampling import KeepAll, Ppswor, Priority, Sampling
    from dpsample.scheme.soft_cap import SoftCap

__version__ = "0.1.0"

__all__ = [
    "CustomSampling",
    "DpsampleError",
    "InvalidValue",
    "KeepAll",
    "Ledger",
    "Ppswor",
    "Priority",
    "Privacy",
    "PrivacyViolation",
    "PrivacyWarning",
    "Release",
    "Sample",
    "SampleAndHold",
    "SampleSize",
    "Sampling",
    "SoftCap",
    "Source",
    "Stream",
    "SystemFailure",
    "__version__",
    "changes",
    "combine",
    "count_frequencies",
    "new_ledger",
    "read_ledger",
    "read_release",
    "read_sample",
    "read_stream",
    "register_sampling",
    "release",
    "release_to_file",
    "sample",
    "sanitize",
]

# Public names are loaded when they are first used: reading one release needs a tenth of what all commands need.
_HOMES = {
    "CustomSampling": "dpsample.scheme.custom",
    "DpsampleError": "dpsample.errors",
    "InvalidValue": "dpsample.errors",
    "KeepAll": "dpsample.scheme.sampling",
    "Ledger": "dpsample.ledger.balance",
    "Ppswor": "dpsample.scheme.sampling",
    "Priority": "dpsample.scheme.sampling",
    "Privacy": "dpsample.privacy",
    "PrivacyViolation": "dpsample.errors",
    "PrivacyWarning": "dpsample.errors",
    "Release": "dpsample.answers.release",
    "Sample": "dpsample.private.sample",
    "SampleAndHold": "dpsample.scheme.holding",
    "SampleSize": "dpsample.accounting.totals",
    "Sampling": "dpsample.scheme.sampling",
    "SoftCap": "dpsample.scheme.soft_cap",
    "Source": "dpsample.private.sources.source",
    "Stream": "dpsample.private.stream.stream",
    "SystemFailure": "dpsample.errors",
    "changes": "dpsample.answers.changes",
    "combine": "dpsample.answers.several",
    "count_frequencies": "dpsample.private.count",
    "new_ledger": "dpsample.ledger.ledger",
    "read_ledger": "dpsample.ledger.ledger",
    "read_release": "dpsample.answers.release",
    "read_sample": "dpsample.private.sample",
    "read_stream": "dpsample.private.stream.stream",
    "register_sampling": "dpsample.scheme.registered",
    "release": "dpsample.private.run",
    "release_to_file": "dpsample.private.run",
    "sample": "dpsample.private.run",
    "sanitize": "dpsample.private.run",
}


if not TYPE_CHECKING:  # checkers of types look at the imports above

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module 'dpsample' has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return all names, also those that are not loaded yet."""
    return sorted([*globals(), *_HOMES])


def _keep_function_release() -> None:
    """Let `dpsample.release` be the function, although there is a package of that name.

    When Python imports a package for the first time, it sets an attribute of that name here. So the package is imported
    now, and the attribute deleted: then `__getattr__` above supplies the function when `dpsample.release` is used.
    """
    import_module("dpsample.release")
    globals().pop("release", None)


_keep_function_release()
