"""Questions to a release, answered from the release alone.

selection    the keys of a question, their weights and their groups
expressions  which SQL expressions are allowed, and how much memory they may take
sums         sums, numbers of keys and means
quantiles    quantiles of the frequencies
ranking      top k, ranks and comparisons
remainder    the elements of keys that were not reported
result       an answer of several rows
"""
