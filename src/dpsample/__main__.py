"""`python -m dpsample` is the `dpsample` command."""

from dpsample.cli import main

main()
