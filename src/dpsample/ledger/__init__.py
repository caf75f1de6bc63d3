"""A dataset's budget over many releases: a file that anybody can check.

ledger   a ledger: begin it, reserve a part of the budget, confirm or cancel it, read and check the file
file     the lines of a ledger: chained, locked, replaced atomically
balance  a ledger as it was read: its entries, the budget that is spent by each part, and what is left
rules    how releases add up, and which release the budget still allows
charges  the cost of one release, its purpose, and whether it was confirmed
filters  the budget of a Rényi ledger at each order, and which sums of curves stay within it

Nothing here reads a release: `answers.entered` compares releases with their entries.
"""
