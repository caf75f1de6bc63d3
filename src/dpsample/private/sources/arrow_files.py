"""Files and streams of Arrow IPC."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpsample.private.sources.scans import Scan, Statements, require_agreement

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.sources.source import Source

_FILE_MARK = b"ARROW1"  # how an Arrow file begins; a stream begins otherwise


def scan_arrow(source: "Source", paths: list[str], statements: Statements) -> Scan:
    """Return how DuckDB reads Arrow files, after a look at the schema of each."""
    import pyarrow as pa

    schemas = [_schema(path) for path in paths]
    for schema in schemas:
        source.require(schema.names)
    require_agreement(source, [_column_types(source, schema) for schema in schemas])
    kinds = [schemas[0].field(name).type for name in source.columns]
    columns = pa.schema([(f"c{place}", kind) for place, kind in enumerate(kinds)])

    def reader() -> "pa.RecordBatchReader":
        return pa.RecordBatchReader.from_batches(columns, _rows(source, paths, columns))

    return Scan("source", objects={"source": reader})


def _schema(path: str) -> "pa.Schema":
    import pyarrow as pa

    with pa.memory_map(path) as file:
        return _open(file).schema


def _column_types(source: "Source", schema: "pa.Schema") -> tuple[str, ...]:
    """Return the types of the columns of a source."""
    return tuple(str(schema.field(name).type) for name in source.columns)


def _rows(source: "Source", paths: list[str], columns: "pa.Schema") -> Iterator["pa.RecordBatch"]:
    """Yield the columns of a source from all files, under the names of a schema."""
    import pyarrow as pa

    for path in paths:
        with pa.memory_map(path) as file:
            for batch in _batches(_open(file)):
                arrays = [batch.column(name) for name in source.columns]
                rows = pa.RecordBatch.from_arrays(arrays, schema=columns)
                rows.validate(full=True)  # a damaged file would be read out of bounds
                yield rows


def _batches(reader: Any) -> Iterator["pa.RecordBatch"]:
    """Yield the batches of an open Arrow file or stream."""
    import pyarrow as pa

    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
    else:
        yield from reader


def _open(file: "pa.NativeFile") -> Any:
    """Open an Arrow file or stream."""
    import pyarrow as pa

    beginning = file.read(len(_FILE_MARK))
    file.seek(0)
    return pa.ipc.open_file(file) if beginning == _FILE_MARK else pa.ipc.open_stream(file)
