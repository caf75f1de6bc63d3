"""Files and streams of Arrow IPC."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dpsample.private.sources.folders import DataFile, FolderColumns
from dpsample.private.sources.scans import Scan, Statements, require_agreement

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.sources.source import Source

_FILE_MARK = b"ARROW1"  # how an Arrow file begins; a stream begins otherwise


def scan_arrow(source: "Source", files: list[DataFile], statements: Statements) -> Scan:
    """Return how DuckDB reads Arrow files, after a look at the schema of each."""
    import pyarrow as pa

    folders = FolderColumns.of(source, files)
    schemas = [_schema(file.path) for file in files]
    for schema in schemas:
        source.require(folders.among(schema.names))
    require_agreement([_column_types(source, schema) for schema in schemas])
    fields = list[tuple[str, pa.DataType]]()
    for place, name in enumerate(source.columns):
        of_folder = folders.types.get(name)
        kind = schemas[0].field(name).type if of_folder is None else of_folder
        fields.append((f"c{place}", kind))
    columns = pa.schema(fields)
    values = folders.arrays(files)

    def reader() -> "pa.RecordBatchReader":
        rows = _rows(source, files, values, columns)
        return pa.RecordBatchReader.from_batches(columns, rows)

    return Scan("source", objects={"source": reader})


def _schema(path: str) -> "pa.Schema":
    import pyarrow as pa

    with pa.memory_map(path) as file:
        return _open(file).schema


def _column_types(source: "Source", schema: "pa.Schema") -> dict[str, str]:
    """Return the types of the columns to read of one file."""
    own = [name for name in source.columns if name in schema.names]
    return {name: str(schema.field(name).type) for name in own}


def _rows(
    source: "Source",
    files: list[DataFile],
    folder_values: Mapping[str, "pa.Array"],
    columns: "pa.Schema",
) -> Iterator["pa.RecordBatch"]:
    """Yield the columns of a source from all files, under the names of a schema.

    `folder_values` has the values of columns that folders are named by, in the order of files.
    """
    import pyarrow as pa

    for number, file in enumerate(files):
        with pa.memory_map(file.path) as mapped:
            for batch in _batches(_open(mapped)):
                arrays = list[pa.Array]()
                for name in source.columns:
                    if name in folder_values:
                        value = folder_values[name][number]
                        arrays.append(pa.repeat(value, batch.num_rows))
                    else:
                        arrays.append(batch.column(name))
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
