"""Releases that protect users without a contribution bound: the stages in the order in which they happen.

walk       the driver: each stage is one call
look       how many users have how many keys, with noise
choose     one key of each user or many, whichever fills more keys
counts     the parts of the counts, in order: how many users have each reported key
sums       what is estimated of rows and columns beside the users
rows       which keys are counted, and what the release has of each

What the counts are made of:

parts      a part of the counts with its noise; what adds noise is one type, what does not is another
vectors    what one user adds to the first parts, and how users are scaled down
keys_each  how many keys users have: how far they count in the parts
lengths    how long users' vectors are, and where to clip them
weighing   weights of keys, and how users are scaled down
kernel     what one user adds to the last parts: counts and sums, in one pass over all pairs
put_back   what clipping took away, and how it is put back

docs/theory.md, section 10, proves that each stage costs what it states.
"""
