"""EVERYTHING here may see private data or secret coins. Nothing that follows a release imports it (tested).

sources         where elements live, and how their rows are read
randomness      the only door to randomness
derived_coins   coins for work that may be done twice
bounding        each user keeps a bounded number of keys
assignment      each user gives one unit to one of their keys
pairs           users and their wanted keys, put aside for kernels
users           releases of users without a contribution bound, stage by stage
noise           noise, drawn exactly: discrete Laplace, and from tables
sanitizer       frequencies and coins -> which keys are reported, with which token
sample          a weighted sample with its scheme; NOT private
stream          one pass over elements: sample and hold, with a state that resumes; NOT private
known           a public list of keys, read and checked
request         what a release is to be, checked before any data are read
checks          what is refused of a request before any cost
charge          what a release costs is reserved first, and confirmed when it is written
prepare         the one plan of a release: users bounded, totals bought, terms fixed
draw            keys are counted, sampled and sanitized, on one machine
run             release, sample, sanitize: the stages put together, on one machine
progress        how work reports the stage that it has reached
count           frequencies for a plan, as private as the data
engine          moves data, knows no mathematics; DuckDB is the embedded one, Spark the distributed one
"""
