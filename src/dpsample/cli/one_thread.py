"""A new start of a command, with one thread for linear algebra."""

import os
import sys

from dpsample.interrupts import restart

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def with_one_thread() -> None:
    """Start this command anew with one thread for linear algebra, unless the environment sets a number.

    The matrices of a forecast are small, so that more threads only cost time. NumPy reads the number once, when it is
    imported.
    """
    stated = [name for name in _ONE_THREAD if name in os.environ]
    if not stated:
        environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1")}
        command = [sys.executable, *sys.orig_argv[1:]]
        restart(command, environment)
