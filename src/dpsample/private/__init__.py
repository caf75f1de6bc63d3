"""EVERYTHING here may see private data or secret coins. Nothing that follows a release imports it (tested).

sources         where elements live, and how their rows are read
engine          moves data, knows no mathematics; DuckDB is the embedded one, Spark the distributed one

request         what a release is to be, checked before any data are read
known           a public list of keys, read and checked
checks          what is refused of a request before any cost
charge          what a release costs is reserved first, and confirmed when it is written
run             release, sample, sanitize: public functions, on one machine
draw            the way to a release, and how its keys are drawn in this process
drawing         a release while it is drawn, and what has been drawn of it
earlier_runs    what an earlier run of the same release left, as the ledger knows it
progress        how work reports the stage that it has reached

elements        a release of elements, step by step
bounded         a release of users with a contribution bound, step by step
totals          what both of these buy beside keys: totals, and the size of a sample
tokens          how both of these end: terms are fixed, and keys are drawn
users           a release of users without a contribution bound, stage by stage
stream          one pass over elements: sample and hold, with a state that resumes; NOT private

randomness      the only door to randomness
derived_coins   coins for work that may be done twice
noise           noise, drawn exactly: discrete Laplace, and from tables
sanitizer       frequencies and coins -> which keys are reported, with which token
bounding        each user keeps a bounded number of keys
assignment      each user gives one unit to one of their keys
pairs           users and their wanted keys, put aside for kernels

sample          a weighted sample with its scheme; NOT private
count           frequencies for a plan, as private as the data
"""
