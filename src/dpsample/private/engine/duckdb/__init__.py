"""The embedded engine: DuckDB reads, aggregates and sorts, on one machine and within a memory limit.

Every statement runs on a cursor of its own, since a connection with an open result takes no other statement. Rows are
checked where they are read, by a filter that raises a marked error; the marks are turned into refusals here, and
DuckDB's own messages, which may quote the data, go no further.

    engine      DuckDB: what every engine does
    statements  a connection, and what runs on it
    opening     how a source becomes a table, checked once
    tables      how a source looks from inside DuckDB: SQL of its rows
    users       each user keeps a bounded number of keys
    assignment  each user gives one unit to one key
    numbering   codes of keys, by hash or by a join
    orders      the orders of users and keys, and work that is divided by them
    pairs       users and their wanted keys, in a file
    sorting     users and keys in their orders
    computed    computed keys and filters: columns made from those of a source
    columns     columns in SQL: key types, users in canonical form, faults
    places      where rows come from to this machine first: standard input, stores, other connections
    mounts      files of stores, as DuckDB opens them
    databases   databases that aggregate their own rows
    declared    the types that columns of a database are declared with
    adbc        connections to databases, and what their errors mean
    temporary   the folder of temporary files, and what dead processes left of theirs
    errors      what DuckDB's errors mean
"""

from dpsample.private.engine.duckdb.engine import DuckDB

__all__ = ["DuckDB"]
