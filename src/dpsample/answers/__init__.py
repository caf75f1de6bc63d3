"""Questions to a release, answered from the release alone.

arguments      the checks of what questions are given
selection      the keys of a question, their weights and their groups
expressions    which SQL expressions are allowed, and how much memory they may take
tokens         where questions to releases with tokens, or of keys only, are answered
reported       what the reported keys of a question have: the first line of every total
sums           sums, numbers of keys and means
quantiles      quantiles of the frequencies
ranking        top k, ranks and comparisons
single_keys    the frequencies of single keys, and the scheme of each
coordinated    what changed between two coordinated releases, and which keys both have
unreported     what is known of a key that was not reported
remainder      the elements of keys that were not reported
held           questions to releases of streams
known          questions to releases with tokens and known keys
counted        questions to releases of counted users
amounts        sums of rows and columns of counted users, and ratios
counted_order  their order: quantiles, top k, ranks and comparisons
counted_keys   the keys of such a question, and what is known of each
result         an answer of several rows
"""
