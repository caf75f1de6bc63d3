"""What is spent, and the proof of it.

composition  what the keys of one user may reveal together, and what each of them gets
renyi        privacy as a curve of Rényi divergences, which add up
totals       private totals, and samples of a chosen size, which a share of epsilon buys
budget       what a release's privacy is spent on
filters      the budget of a Rényi ledger at each order, and what stays within it
parts        parts of a dataset that do not overlap, and cost the maximum
ledger       a dataset's budget over many releases: reserve, confirm, cancel, verify
balance      a ledger as it was read: what is spent, of which part, and what is left
rules        what releases may spend together, what they have spent, and what is left
charges      what one release spends, on what, and what became of it
ledger_file  the lines of a ledger: chained, locked, replaced atomically
proof        all that a release's privacy rests on, on one page
"""
