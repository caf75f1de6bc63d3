"""Private weighted samples and histograms of key-frequency data.

A dataset is a bag of elements, each with a key. dpsample tells which keys are in it, and about how often, under
(epsilon, delta)-differential privacy for each element, or for each user. Data flow one way:

    source -> sample -> sanitize -> release

    privacy     Privacy(epsilon, delta), exact and checked
    composition what the keys of one user may reveal together, and what each of them gets
    budget      what a release's privacy is spent on, and the totals that a part of it buys
    sizes       samples of a chosen size
    ledger      a dataset's budget over many releases
    scheme      the mathematics: sampling, reporting probabilities, token laws, certificates
    source      where elements live, and which columns are the key
    objects     Python objects as Arrow
    engine      moves data, knows no mathematics; DuckDB is the embedded one, Spark the distributed one
    randomness  the only door to randomness
    bounding    each user keeps so many keys
    noise       discrete Laplace noise, drawn exactly
    keyed       coins for work that may be done twice
    sanitizer   frequencies and coins -> which keys are reported, with which token
    samples     a weighted sample with its scheme; NOT private
    releases    the only thing that may be published
    terms       what it was made with
    measures    what is summed over keys: a function of the frequency
    estimators  token -> estimate of the frequency; a tally of tokens -> a sum with its error
    accuracy    exact bias, variance and coverage of a method, for given frequencies
    baselines   other methods, to compare with
    predicted   the accuracy of the default estimator, without simulation
    frequencies how many keys have each frequency: made up, from a histogram, or counted
    outlook     what is to be expected of a release; the reporting curve
    planner     which epsilon, and what it brings, before any budget is spent
    planned     a plan in words, and the command or the Python that makes the release
    explore     the planner as a page with sliders, served to this machine only
    selection   which keys a question is about, with which weight, in which groups
    expressions SQL that can touch nothing but the columns it is given
    statistics  sums, numbers of keys, means and quantiles from a release
    ranking     top k, ranks and comparisons from a release
    remainder   how many elements the reported keys do not cover
    answers     what questions return, where it is more than one estimate
    request     what a release is to be, checked before any data are read
    run         release, sample, sanitize: the stages put together
    spark       the same on a cluster; imported on demand
    paper       the paper's figures and claims, from the code above
    charts      how charts look
    pages       what our HTML pages share: one document each, no network, no trust in text
    report      a release as a page, from the release alone
    explain     what a release is, in plain words
    shown       how rows are shown
    proof       all that a release's privacy rests on, on one page
    files       tables with metadata, in files that appear whole or not at all
    exact       how numbers are read and written exactly
    errors      what is raised, and when
    cli         the `dpsample` command
"""

from dpsample.errors import DpsampleError, InvalidValue, PrivacyViolation, PrivacyWarning, SystemFailure
from dpsample.ledger import Ledger, new_ledger, read_ledger
from dpsample.privacy import Privacy
from dpsample.releases import Release, read_release
from dpsample.run import release, release_to_file, sample, sanitize
from dpsample.samples import Sample, read_sample
from dpsample.scheme.sampling import CustomSampling, KeepAll, Ppswor, Priority, Sampling
from dpsample.sizes import SampleSize
from dpsample.source import Source

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
    "SampleSize",
    "Sampling",
    "Source",
    "SystemFailure",
    "__version__",
    "new_ledger",
    "read_ledger",
    "read_release",
    "read_sample",
    "release",
    "release_to_file",
    "sample",
    "sanitize",
]
