"""Private weighted samples and histograms of key-frequency data.

A dataset is a bag of elements, each with a key. dpsample tells which keys are in it, and about how often, under
(epsilon, delta)-differential privacy for each element.

    privacy     Privacy(epsilon, delta), exact and checked
    scheme      the mathematics: sampling, reporting probabilities, token laws, certificates
    exact       how numbers are read and written exactly
    errors      what is raised, and when
    cli         the `dpsample` command
"""

from dpsample.errors import DpsampleError, InvalidValue, PrivacyViolation, PrivacyWarning
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import CustomSampling, KeepAll, Ppswor, Priority, Sampling

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
    "Sampling",
    "__version__",
]
