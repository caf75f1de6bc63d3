"""Functions that carry the secret are sent inline: Spark writes larger ones to a file of the driver."""

from typing import Any, TypeVar

from pyspark import cloudpickle

from dpsample.errors import InvalidValue

_T = TypeVar("_T")

# The most bytes of a function: half of what Spark sends inline by default (spark.broadcast.UDFCompressionThreshold,
# 1 MiB), since Spark packs it once more. A larger one would be written to a file, with the secret in it.
LARGEST = 1 << 19


def sent_inline(kernel: _T) -> _T:
    """Return a function that carries the secret, or refuse it if it is too large to be sent inline."""
    dumps: Any = cloudpickle.dumps
    if len(dumps(kernel)) > LARGEST:
        raise InvalidValue(
            f"the scheme takes more than {LARGEST:,} bytes, too many to be sent to workers together with the secret",
            "state q by fewer values, or by a function, or use an engine on one machine",
        )
    return kernel
