"""Locks of open files. The operating system lets go of one when its process ends, however it ends.

On POSIX systems a lock is that of `flock`: it belongs to the file, not to its name. So whoever waited for a file that
was replaced meanwhile has the lock of the old one, and must look whether the name still leads to it.
"""

import portalocker


def lock(fd: int) -> bool:
    """Wait for a file's lock; False where the file system has none."""
    try:
        portalocker.lock(fd, portalocker.LockFlags.EXCLUSIVE)
    except portalocker.LockException:
        return False
    return True


def try_lock(fd: int) -> bool:
    """Take a file's lock; False if somebody else has it. An OSError says that the file system has none."""
    try:
        portalocker.lock(fd, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
    except portalocker.AlreadyLocked:
        return False
    except portalocker.LockException as error:
        code = getattr(error.args[0], "errno", None) or 0
    else:
        return True
    raise OSError(code, "no lock")
