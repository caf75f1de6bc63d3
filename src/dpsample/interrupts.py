"""Interrupts: Ctrl-C and SIGTERM are held while a step must not be cut in two, and passed on after it.

Python runs the handler of a signal between any two steps of the main thread, also within its own locks: after a lock
was taken, and before the `with` that gives it back. If the handler raises there, as it does for Ctrl-C, the lock is
taken for good, and a thread that needs it never ends: not the one that was to report its result, and so not the run.
That is why nothing may be raised while the main thread starts another thread, or waits for one. Steps that belong
together are held for the same reason, such as giving a file its name and entering it in a ledger.

    held      for a block: signals that come are noted, and handled after it
    watched   runs a command, and returns its exit code: 130 after Ctrl-C, 143 after SIGTERM, whatever else it raised
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ALARM = getattr(signal, "SIGALRM", None)  # Windows has none
_AGAIN = 0.02  # seconds until an interrupt that was lost is raised again: Python is elsewhere then
_Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def held() -> Iterator[Sequence[int]]:
    """Hold signals for a block: yield the list of those that came so far; their handlers are called after the block.

    A signal whose handler is not Python's is not held. In other threads than the main one nothing is held, since
    handlers are called in the main one alone.

    >>> usual = signal.signal(signal.SIGINT, lambda signum, frame: print("handled"))
    >>> with held() as came:
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("complete;", len(came), "signal came")
    complete; 1 signal came
    handled
    >>> _ = signal.signal(signal.SIGINT, usual)
    """
    came: list[int] = []
    handlers: dict[int, _Handler] = {}

    def note(signum: int, frame: FrameType | None) -> None:
        came.append(signum)

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    try:
        for signum in _held_signals():
            handler = signal.getsignal(signum)
            if callable(handler):
                handlers[signum] = handler
                signal.signal(signum, note)
        yield came
    finally:
        _restore(handlers)
        for that_came in came:
            handlers[that_came](that_came, None)


def _held_signals() -> list[signal.Signals]:
    """Return the signals that are held: Ctrl-C, SIGTERM, and the alarm by which `watch` raises them again."""
    if _ALARM is not None and signal.getsignal(_ALARM) is _raise:
        return [*_SIGNALS, _ALARM]
    return list(_SIGNALS)


def _restore(handlers: dict[int, _Handler]) -> None:
    """Give all signals their handlers back, even if one of these raises meanwhile."""
    if handlers:
        rest = dict(handlers)
        signum, handler = rest.popitem()
        try:
            signal.signal(signum, handler)
        finally:
            _restore(rest)


class Interrupted(KeyboardInterrupt):
    """Python kills itself for a plain KeyboardInterrupt that passed through a late import, even if it was handled."""


_came: list[signal.Signals] = []  # while a command is watched


def watched(command: Callable[[], int], told: Callable[[BaseException | None], int]) -> int:
    """Run a command, and return its exit code; after a signal that of `told`, whatever became of the signal.

    The first signal raises `Interrupted` in the command. A second one does not, since the first may be cleaning up; any
    further one raises again. `told` takes the error that ended the command, if any, and tells the user.
    """
    watch()
    code = 0
    problem: BaseException | None = None
    try:
        try:
            code = command()
        finally:
            _ignore()
    except BaseException as error:
        if not _came and not isinstance(error, KeyboardInterrupt):
            raise
        problem = error
    return code if problem is None and not _came else told(problem)


def watch() -> None:
    """Let signals raise `Interrupted` from now on, also again where Python would ignore it."""
    if _ALARM is not None:
        signal.signal(_ALARM, _raise)
    for signum in _SIGNALS:
        signal.signal(signum, _interrupt)
    if hasattr(signal, "pthread_sigmask"):  # those that `restart` has kept waiting come now
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    usual = sys.unraisablehook

    def raise_again(unraisable: Any) -> None:
        """Python ignores what is raised where it cannot be, as when an object is deleted: raise it again later."""
        if isinstance(unraisable.exc_value, Interrupted) and _ALARM is not None:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        else:
            usual(unraisable)

    sys.unraisablehook = raise_again


def restart(arguments: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Put another program into the place of this one; a signal that comes meanwhile waits for `watch` in the new one.

    An alarm that was set for this program would kill the new one, which does not expect it.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    if _ALARM is not None:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if _came:  # while modules were imported
        raise Interrupted
    os.execve(arguments[0], arguments, environment)


def signal_that_came() -> signal.Signals | None:
    """Return the signal that came last to the command that is watched; None before one came."""
    return _came[-1] if _came else None


def _interrupt(signum: int, frame: FrameType | None) -> None:
    _came.append(signal.Signals(signum))
    if len(_came) != 2:
        _raise(signum, frame)


def _raise(signum: int, frame: FrameType | None) -> None:
    """Raise the interrupt; while a module is imported, do it later.

    An extension module that is half imported may break whatever comes after it, also the end of Python.
    """
    if _is_importing(frame) and _ALARM is not None:
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
    else:
        raise Interrupted


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame, or one that called it, is of the import of a module."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _ignore() -> None:
    """Let nothing be raised any more: the command has come to its end."""
    for signum in _SIGNALS:
        signal.signal(signum, signal.SIG_IGN)
    if _ALARM is not None:
        signal.signal(_ALARM, signal.SIG_IGN)
