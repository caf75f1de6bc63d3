"""The only publishable object. Nothing here can see private data: what follows a release is post-processing.

release  keys with tokens and estimates, their file, and the questions that they answer
terms    what a release was made with
rows     the rows of a release: schema, order, and what tokens and estimates can be
"""
