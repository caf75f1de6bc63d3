"""What can be asked of a release. It is answered from the release alone.

selection    which keys a question is about, with which weight, in which groups
expressions  SQL that can touch nothing but the columns it is given
sums         sums, numbers of keys and means
quantiles    quantiles of the frequencies
ranking      top k, ranks and comparisons
remainder    how many elements the reported keys do not cover
result       what questions return, where it is more than one estimate
"""
