"""The start of the `dpsample` command, and of `python -m dpsample`: signals are watched before modules are imported."""

import sys

from dpsample.interrupts import signal_that_came, watch


def main() -> None:
    """Run the command."""
    try:
        watch()
        from dpsample.cli import main as run

        run()
    except KeyboardInterrupt:  # while modules were imported
        sys.stderr.write("dpsample: interrupted; no output was written\n")
        last = signal_that_came()
        sys.exit(130 if last is None else 128 + last)


if __name__ == "__main__":
    main()
