"""What is spent, and the proof of it.

composition   the optimal composition theorem: what k mechanisms may reveal together
many_keys     what each of a user's keys gets: the best of several methods, and its proof
noise_search  the search for bounded noise, in floats, before it is proved
gaussian      the same for budgets that are stated as zCDP or GDP: Gaussian noise, and its proof
discovery     users without a contribution bound: what discovery and counts spend, and their proof
filled        how many keys each way of discovery could fill, with noise: it chooses the way
amounts       rows and sums of columns, which are counted beside users, and their clips
clipped       what these clips took, as it was measured, and what follows for each key
lengths       in how many units the vectors of users are counted
vectors       Gaussian noise on vectors of bounded length: counts and weights of users
losses        privacy loss distributions, which convolve: what mechanisms cost exactly
normal        how far intervals of normal errors extend
renyi         privacy as a curve of Rényi divergences, which add up
totals        private totals, and samples of a chosen size, which a share of epsilon buys
dropped       how many keys users have beyond their contribution bound, measured privately
budget        what a release's privacy is spent on
filters       the budget of a Rényi ledger at each order, and what stays within it
known         a public list of keys, each of which is reported
parts         parts of a dataset that do not overlap, and cost the maximum
ledger        a dataset's budget over many releases: reserve, confirm, cancel, verify
balance       a ledger as it was read: what is spent, of which part, and what is left
rules         what releases may spend together, what they have spent, and what is left
charges       what one release spends, on what, and what became of it
ledger_file   the lines of a ledger: chained, locked, replaced atomically
proof         that the stated terms of a release are private
stated        each part as terms state it, compared with what would be drawn
proof_page    the page of a proof: a verdict, what was not proved, and the numbers
independent   the certificate of a release, handed to a checker that is proved sound
"""
