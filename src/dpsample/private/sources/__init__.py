"""Sources: where elements live, and how their rows are read.

source          the value that users hand in: data, key columns, and how they are read
kinds           which kind of source an object is, and what goes together in one
computed        keys that are expressions of the columns of a row, and filters
inputs          which files a source names, and which names are one file
formats         file formats: their names, endings, and how files are checked and read
dialect         how CSV and TSV are written: delimiter, encoding, header, NULL
arrow           objects of a source as Arrow
python_objects  Python objects as Arrow
iterables       objects that only look like an iterable of keys, and are refused
"""
