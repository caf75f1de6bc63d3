"""Private weighted samples and histograms of key-frequency data.

A dataset is a bag of elements, each with a key. dpsample tells which keys are in it, and about how often, under
(epsilon, delta)-differential privacy for each element. Data flow one way:

    source -> sample -> sanitize -> release

    privacy     Privacy(epsilon, delta), exact and checked
    scheme      the mathematics: sampling, reporting probabilities, token laws, certificates
    source      where elements live, and which columns are the key
    engine      moves data, knows no mathematics; DuckDB is the embedded one
    randomness  the only door to randomness
    sanitizer   frequencies and coins -> which keys are reported, with which token
    samples     a weighted sample with its scheme; NOT private
    releases    the only thing that may be published
    measures    what is summed over keys: a function of the frequency
    estimators  token -> estimate of the frequency
    accuracy    exact bias, variance and coverage of a method, for given frequencies
    baselines   other methods, to compare with
    run         release, sample, sanitize: the stages put together
    paper       the paper's figures and claims, from the code above
    charts      how charts look
    explain     what a release is, in plain words
    files       tables with metadata, in files that appear whole or not at all
    exact       how numbers are read and written exactly
    errors      what is raised, and when
    cli         the `dpsample` command
"""

from dpsample.errors import DpsampleError, InvalidValue, PrivacyViolation, PrivacyWarning, SystemFailure
from dpsample.privacy import Privacy
from dpsample.releases import Release, read_release
from dpsample.run import release, release_to_file, sample, sanitize
from dpsample.samples import Sample, read_sample
from dpsample.scheme.sampling import CustomSampling, KeepAll, Ppswor, Priority, Sampling
from dpsample.source import Source

__version__ = "0.1.0"

__all__ = [
    "CustomSampling",
    "DpsampleError",
    "InvalidValue",
    "KeepAll",
    "Ppswor",
    "Priority",
    "Privacy",
    "PrivacyViolation",
    "PrivacyWarning",
    "Release",
    "Sample",
    "Sampling",
    "Source",
    "SystemFailure",
    "__version__",
    "read_release",
    "read_sample",
    "release",
    "release_to_file",
    "sample",
    "sanitize",
]
