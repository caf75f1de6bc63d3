"""A dataset's budget over many releases: a file that anybody can check.

ledger   a ledger: reserve a part of the budget, confirm or cancel it, read and check the file
file     the lines of a ledger: chained, locked, replaced atomically
balance  a ledger as it was read: what is spent, of which part, and what is left
rules    what releases may spend together, what they have spent, and what is left
charges  what one release spends, on what, and what became of it
filters  the budget of a Rényi ledger at each order, and what stays within it

Nothing here reads a release: `answers.entered` compares releases with their entries.
"""
