"""What mechanisms spend together, and the proof of it.

composition   the optimal composition theorem: what k mechanisms may reveal together
many_keys     what each of a user's keys gets: the best of several methods, and its proof
noise_search  the search for bounded noise, in floats, before it is proved
gaussian      the same for budgets that are stated as zCDP or GDP: Gaussian noise, and its proof
discovery     users without a contribution bound: the public record of how their keys were found, and the stages
look          a noisy histogram of how many users have how many keys
filled        how many keys each way of discovery could fill, with noise
choice        the choice by `ask`: one key of each user, or many
counts        the public record of how users of discovered keys were counted
user_budget   how the privacy of such a release is divided among its stages
user_proof    the proof that discovery and counts together spend no more than that
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
reading       how keys were computed from rows, and which rows were read
"""
