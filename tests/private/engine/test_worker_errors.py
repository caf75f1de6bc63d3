"""Errors of dpsample on a worker: each is raised for real, and recognised on the driver by its words.

Python sends the text of a worker's error to the driver, and nothing else of it. So a message that is reworded would
become "the Spark job failed" unless its entry in the list is mended. This needs no cluster.
"""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsample import CustomSampling, DpsampleError, InvalidValue, Privacy, SystemFailure
from dpsample.files.metadata import failures
from dpsample.private.engine.spark.errors import refusal
from dpsample.private.randomness import SecretCoins
from dpsample.private.sanitizer import Sanitizer
from dpsample.scheme.tokens import check_grid

pytest.importorskip("pyspark")
pytestmark = pytest.mark.chance("certain: the errors are raised, whatever is drawn")

SCHEME = "the scheme must state a probability for every frequency"


def never_sampled() -> None:
    """A sample that has a key of frequency 1, which this scheme never samples."""
    sanitizer = Sanitizer(CustomSampling([0, 1]), Privacy(1, "1e-6"))
    sanitizer(np.array([1]), SecretCoins())


def too_fine() -> None:
    check_grid(1024, 2**60)


def not_a_probability() -> None:
    CustomSampling(lambda i: 2).q([1])


def descending() -> None:
    CustomSampling(lambda i: 1 / i).q([1, 2])


def beyond_the_sequence() -> None:
    CustomSampling([0.5]).q([2])


def no_folder() -> None:
    target = Path("/no-such-folder/part-0.parquet")
    with failures(target):
        target.read_bytes()


def full_disk() -> None:
    with failures(Path("/out/part-0.parquet")):
        raise OSError(28, "No space left on device")


RAISED = [
    (never_sampled, InvalidValue, "the sample has a key that this scheme never samples"),
    (too_fine, InvalidValue, "a frequency times the grid is not below 2**63"),
    (not_a_probability, InvalidValue, SCHEME),
    (descending, InvalidValue, SCHEME),
    (beyond_the_sequence, InvalidValue, SCHEME),
    (no_folder, SystemFailure, "a worker could not write into the folder"),
    (full_disk, SystemFailure, "a worker could not write into the folder"),
]


@pytest.mark.parametrize(("work", "kind", "words"), RAISED, ids=lambda value: getattr(value, "__name__", None))
def test_an_error_of_a_worker_is_recognised(work: Callable[[], Any], kind: type[DpsampleError], words: str) -> None:
    with pytest.raises(DpsampleError) as raised:
        work()
    sent = "".join(traceback.format_exception(raised.value))
    spark_error = RuntimeError(f"An exception was thrown from the Python worker:\n{sent}")
    recognised = refusal(spark_error, ["k"])
    assert type(recognised) is kind
    assert str(recognised).startswith(words)
