"""What mechanisms spend together, and the proof of it.

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
known         a public list of keys, each of which is reported
parts         parts of a dataset that do not overlap, and cost the maximum
"""
