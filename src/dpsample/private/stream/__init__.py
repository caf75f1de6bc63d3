"""One pass over a stream: keys are sampled and counted while they come, in memory of the size of the sample.

stream    Stream: add batches, write its state, sanitize it once
held      the held keys and their counts, and what a chunk of elements does to them
elements  batches of keys from objects, files and pipes, in an order that is the same each time
batches   keys that were counted elsewhere, a batch at a time: from which element on they are held
queries   the state of a stream whose batches a streaming query counts
shards    streams of disjoint sets of keys
"""
