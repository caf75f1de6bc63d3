"""Sources: where elements live, and how their rows are read.

source          the value that users hand in: data, key columns, and how they are read
kinds           which kind of source an object is
names           names of key columns
computed        keys that are expressions of the columns of a row, and filters
key_types       declared types of key columns
rules           which options go together
listing         the files of a source
inputs          which files a path names, and which names are one file
stores          files that are elsewhere, in a bucket or behind https
folders         hive folders: columns that the names of folders have
formats         file formats: their names and endings
scans           how DuckDB reads files, and what several formats need
parquet         Parquet files
delimited       CSV and TSV files
dialect         how CSV and TSV are written: delimiter, encoding, header, NULL
json_lines      files with a JSON object on each line
arrow_files     files of Arrow IPC
arrow           objects of a source as Arrow
python_objects  Python objects as Arrow
records         lists of dicts as Arrow
frames          DataFrames of pandas and polars as Arrow
texts           Python values as text
iterables       objects that only look like an iterable of keys, and are refused
"""
