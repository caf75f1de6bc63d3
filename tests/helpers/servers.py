"""A PostgreSQL server of the tests' own: a new data folder, a socket in it, no port, nothing kept."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from typing import Any

PASSWORD = "hunter2-password"  # the server trusts its socket; this one is to be looked for in messages


def binaries() -> str | None:
    """The folder with initdb and pg_ctl, if there is one."""
    found = shutil.which("pg_ctl")
    if found is not None:
        return os.path.dirname(os.path.realpath(found))
    installed = glob("/usr/lib/postgresql/*/bin/pg_ctl")
    return os.path.dirname(max(installed)) if installed else None


@contextmanager
def postgresql() -> Iterator[str]:
    """Run a server, and give its URI, with a user and a password in it."""
    programs = binaries()
    assert programs is not None, "no PostgreSQL server binary"
    folder = tempfile.mkdtemp(prefix="dpsample-pg-")
    user = _user()
    if user:
        os.chown(folder, user["user"], user["group"])
    data = os.path.join(folder, "data")

    def run(program: str, *arguments: str) -> None:
        command = [os.path.join(programs, program), "-D", data, *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=600, **user)

    try:
        run("initdb", "--username=tester", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        options = f"-c fsync=off -c listen_addresses='' -c unix_socket_directories='{folder}'"
        # the log takes the server's output, or pg_ctl would seem to run as long as the server does
        run("pg_ctl", "-w", "-t", "600", "-l", os.path.join(folder, "log"), "-o", options, "start")
        try:
            yield f"postgresql://tester:{PASSWORD}@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: whom to run it as instead."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
