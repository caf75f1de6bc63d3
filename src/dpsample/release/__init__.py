"""The only publishable object. Nothing here can see private data: what follows a release is post-processing.

terms         the public parameters of a release, and the version of its file
kinds         what a release says of each key: tokens, keys only, counted users, or a stream
bought        the private totals that a release paid for beside its keys
spending      what each of them, and each step before discovery, cost
facts         what people are told about a release, by topic
explain       the words of these facts
rows          the rows of a release: schema, order, and the values of tokens and estimates
proof         that the stated terms are private
options       the options of a release, each with its type, default, help and rules
option_words  the same as words of the command line, read and written
made_for_tests  the mark of releases that are NOT private, and where it is refused
key_hash      the public hash of a key, by which coordinated samples choose keys
"""
