"""The only publishable object. Nothing here can see private data: what follows a release is post-processing.

terms         the public parameters of a release, and the version of its file
kinds         the kinds of a release: tokens, keys only, counted users, and streams
bought        the private totals that a release paid for beside its keys
spending      the cost of each of them, and of each step before discovery
facts         the facts that people are told about a release, by topic
explain       the words of these facts
rows          the rows of a release: schema, order, and the values of tokens and estimates
stated        each part as terms state it, compared with what would be drawn
keys_proof    the proof of what all keys of one element or user spend together
proof         that the stated terms are private
options       the options of a release, each with its type, default, help and rules
option_words  the same as words of the command line, read and written
made_for_tests  the mark of releases that are NOT private, and where it is refused
key_hash      the public hash of a key, by which coordinated samples choose keys
"""
