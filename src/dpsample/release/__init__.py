"""The only publishable object. Nothing here can see private data: what follows a release is post-processing.

release  keys with estimates and tokens, and their file
answers  the questions that a release answers
terms    the public parameters of a release, and the version of its file
rows     the rows of a release: schema, order, and the values of tokens and estimates
options  the options of a release, each with its type, default, help and rules
option_words  the same as words of the command line, read and written
key_hash  the public hash of a key, by which coordinated samples choose keys
example  a small release, for examples
"""
