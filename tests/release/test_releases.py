"""Releases: sorted, on the grid, with their terms; what is read is what was written, or an error of ours."""

import datetime as dt
import pickle
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsample
from dpsample import CustomSampling, InvalidValue, KeepAll, Ppswor, Privacy
from dpsample.answers.release import Release, read_release, write_release
from dpsample.files import ROWS, commit_parts
from dpsample.private.sample import Sample
from dpsample.release.terms import Terms
from small_releases import FORMATS, PRIVACY, TERMS, rows, small
from stated_terms import stated_terms
from strategies import privacies, weighted
from support import refused_alone

CANARY = "canary-91c2"

KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {  # ascending
    "string": (pa.string(), ["", "\0", "'", "+1", "=1", "Z", "a", "a\nb", "b", "é", "\uffff", "\U00010000"]),
    "large_string": (pa.large_string(), ["", "a", "aa", "b"]),
    "binary": (pa.binary(), [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\0"]),
    "bool": (pa.bool_(), [False, True]),
    "int8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "uint64": (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2020, 1, 1)]),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(y, 1, 1, tzinfo=dt.UTC) for y in (1900, 1970, 2020)]),
    "decimal": (pa.decimal128(20, 2), [Decimal("-10.50"), Decimal("-1.00"), Decimal("0.01"), Decimal("9.99")]),
}


# Round trips


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", KEYS)
def test_every_type_of_key_comes_back(tmp_path: Path, name: str, form: str) -> None:
    type, values = KEYS[name]
    for n, keys_only in enumerate((False, True)):
        terms = stated_terms(PRIVACY, KeepAll(), ("query",), keys_only=keys_only)
        table = rows({"query": pa.array(values, type)}, keys_only=keys_only)
        release = Release(table, terms)
        release.write(tmp_path / f"{n}.{form}")
        found = read_release(tmp_path / f"{n}.{form}")
        assert found == release
        assert found.table.select(table.column_names).equals(table)
        assert found.table.schema.names == ["query", *([] if keys_only else ["estimate", "low", "high", "token"])]
        assert found.metadata == release.metadata
        with pytest.raises(InvalidValue, match="row 2 is not above"):
            Release(rows({"query": pa.array([values[1], values[0]], type)}, keys_only=keys_only), terms)


@given(
    st.sets(st.tuples(st.text(max_size=3), st.integers(-3, 3))),
    privacies(),
    weighted(),
    st.sampled_from([1, 2, 8, 1024]),
    st.booleans(),
)
def test_any_release_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    keys: set[tuple[str, int]],
    privacy: Privacy,
    sampling: dpsample.Sampling,
    grid: int,
    keys_only: bool,
) -> None:
    ordered = sorted(keys, key=lambda key: (key[0].encode(), key[1]))  # by bytes: the reference
    columns = {
        "=query": pa.array([key[0] for key in ordered], pa.string()),
        "n": pa.array([key[1] for key in ordered], pa.int64()),
    }
    terms = stated_terms(privacy, sampling, ("=query", "n"), grid=grid, keys_only=keys_only)
    release = Release(rows(columns, grid=grid, keys_only=keys_only), terms)
    folder = tmp_path_factory.mktemp("any")
    for form in FORMATS:
        release.write(folder / f"x.{form}")
        found = read_release(folder / f"x.{form}")
        assert found == release
        assert (found.privacy, found.sampling) == (privacy, sampling)
        assert found.grid == (None if keys_only else grid)
        assert list(zip(*found.table.select(["=query", "n"]).to_pydict().values(), strict=True)) == ordered


def test_metadata() -> None:
    expected: dict[str, Any] = {
        "format": "dpsample release",
        "version": 1,
        "privacy": {"epsilon": "1", "delta": "1e-06"},
        "unit": "element",
        "sampling": {"scheme": "ppswor", "tau": "0.25", "power": "1"},
        "grid": 8,
        "keys_only": False,
        "keys": ["query", "day"],
        "rows": 3,
        "dpsample": dpsample.__version__,
    }
    release = small()
    assert release.metadata == expected
    assert len(release) == 3
    assert (release.unit, release.keys, release.keys_only) == ("element", ("query", "day"), False)
    only = Release(release.table.select(["query", "day"]), stated_terms(PRIVACY, keys=("query", "day"), keys_only=True))
    changed = {"sampling": {"scheme": "keep all"}, "grid": None, "keys_only": True}
    assert only.metadata == expected | changed
    older = Terms.from_json(expected | {"dpsample": "0.0.9"})
    assert older == release.terms
    assert older.to_json(3)["dpsample"] == "0.0.9"


def test_releases_are_equal_by_content() -> None:
    release = small()
    cut = pa.concat_tables([release.table.slice(0, 1), release.table.slice(1)])
    assert Release(cut, release.terms) == release
    assert Release(release.table.slice(1), release.terms) != release
    drawn = release.table.select(["query", "day", "token"])
    assert Release(drawn, release.terms) == release
    assert Release(drawn, stated_terms(Privacy(2, 1e-6), Ppswor(tau="0.25"), ("query", "day"))) != release
    assert release != "release"
    assert pickle.loads(pickle.dumps(release)) == release
    with pytest.raises(TypeError, match="unhashable"):
        hash(release)


@pytest.mark.parametrize("form", FORMATS)
def test_it_opens_as_a_plain_table(tmp_path: Path, form: str) -> None:
    release = Release(rows({"query": ["a", "b", "ü"]}), TERMS)
    path = str(tmp_path / f"x.{form}")
    release.write(path)
    expected = [tuple(row.values()) for row in release.table.to_pylist()]
    names = ["query", "estimate", "low", "high", "token"]
    if form != "arrow":
        relation = duckdb.connect().sql(f"SELECT * FROM '{path}'")
        assert relation.columns == names
        assert relation.fetchall() == expected
    readers: dict[str, Any] = {
        "parquet": (pandas.read_parquet, polars.read_parquet),
        "csv": (pandas.read_csv, polars.read_csv),
        "arrow": (pandas.read_feather, polars.read_ipc),
    }
    frame, other = (read(path) for read in readers[form])
    assert list(frame.columns) == names
    assert list(frame.itertuples(index=False, name=None)) == expected
    assert other.columns == names
    assert other.rows() == expected
    assert list(release.to_pandas().itertuples(index=False, name=None)) == expected
    assert release.to_polars().rows() == expected


def test_a_folder_of_parts_is_a_release(tmp_path: Path) -> None:
    release = small()
    for n, start in enumerate((0, 2)):
        part = release.table.slice(start, 2 - n)
        pa.parquet.write_table(part, tmp_path / f"part-{n}.parquet")
    parts = {"part-0.parquet": 2, "part-1.parquet": 1}
    commit_parts(tmp_path, parts, release.table.schema, release.metadata)
    assert read_release(tmp_path) == release
    (tmp_path / "_dpsample.json").unlink()
    commit_parts(tmp_path, dict(reversed(parts.items())), release.table.schema, release.metadata)
    with pytest.raises(InvalidValue, match="row 2 is not above the row before"):
        read_release(tmp_path)
    (tmp_path / "_dpsample.json").unlink()
    commit_parts(tmp_path, parts, release.table.schema, release.metadata | {"rows": 4})
    with pytest.raises(InvalidValue, match="number of rows that its metadata state"):
        read_release(tmp_path)


# Streams


def test_a_stream_is_written_like_a_table_and_not_held(tmp_path: Path) -> None:
    n, size = 60, ROWS // 2
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for i in range(n):
            keys = pa.array(range(i * size, (i + 1) * size))
            yield pa.record_batch([keys, pa.array([1.0] * size)], ["query", "token"])
            most = max(most, pa.total_allocated_bytes() - start)

    schema = pa.schema({"query": pa.int64(), "token": pa.float64()})
    start = pa.total_allocated_bytes()
    assert write_release(tmp_path / "x.parquet", batches(), schema, TERMS) == n * size
    assert most < n * size * 40 / 4
    release = read_release(tmp_path / "x.parquet")
    assert release.metadata["rows"] == len(release) == n * size
    release.write(tmp_path / "y.parquet")
    assert (tmp_path / "x.parquet").read_bytes() == (tmp_path / "y.parquet").read_bytes()


def test_an_empty_stream_is_a_release(tmp_path: Path) -> None:
    schema = rows({"query": pa.array([], pa.string())}).schema
    for form in FORMATS:
        assert write_release(tmp_path / f"x.{form}", [], schema, TERMS) == 0
        assert len(read_release(tmp_path / f"x.{form}")) == 0
        assert "0 keys" in repr(read_release(tmp_path / f"x.{form}"))


def test_a_stream_that_is_wrong_leaves_nothing(tmp_path: Path) -> None:
    good = Release(rows({"query": ["a", "b"]}), TERMS).table.to_batches()[0]
    nothing = good.slice(0, 0)
    for batches, message in (
        ([good, good], "row 3 is not above"),
        ([good, nothing, good.slice(1)], "row 3 is not above"),
        ([good.slice(1), nothing, good.slice(0, 1)], "row 2 is not above"),
        ([good.select(["query", "token"])], "other columns or types than the schema"),
    ):
        with pytest.raises(InvalidValue, match=message):
            write_release(tmp_path / "x.parquet", batches, good.schema, TERMS)
    for wrong in (good.schema.remove(1), good.schema.append(pa.field("n", pa.int64()))):
        with pytest.raises(InvalidValue, match="a release has the columns 'query', 'estimate', 'low', 'high', 'token'"):
            write_release(tmp_path / "x.parquet", [], wrong, TERMS)
    function = stated_terms(PRIVACY, CustomSampling(lambda i: 1), ("query",))
    with pytest.raises(InvalidValue, match="cannot be written beside a sample"):
        write_release(tmp_path / "x.parquet", map(pytest.fail, ["work was done"]), good.schema, function)
    assert list(tmp_path.iterdir()) == []


# Refusals


@given(st.lists(st.tuples(st.sampled_from(["", "a", "é", "\uffff", "\U00010000"]), st.integers(0, 2)), max_size=5))
def test_rows_must_ascend(keys: list[tuple[str, int]]) -> None:
    terms = stated_terms(PRIVACY, KeepAll(), ("a", "b"), keys_only=True)
    table = pa.table(
        {"a": pa.array([k[0] for k in keys], pa.string()), "b": pa.array([k[1] for k in keys], pa.int64())}
    )
    bytewise = [(a.encode(), b) for a, b in keys]
    if bytewise == sorted(set(bytewise)):
        assert len(Release(table, terms)) == len(keys)
    else:
        row = next(n for n in range(1, len(keys)) if not bytewise[n - 1] < bytewise[n]) + 1
        with pytest.raises(InvalidValue, match=f"row {row} is not above"):
            Release(table, terms)


def test_rows_must_ascend_from_batch_to_batch() -> None:
    terms = stated_terms(PRIVACY, KeepAll(), ("n",), keys_only=True)
    for second in (ROWS - 1, ROWS - 2):
        keys = [*range(ROWS), *range(second, second + 5)]
        with pytest.raises(InvalidValue, match=f"row {ROWS + 1:,} is not above"):
            Release(pa.table({"n": keys}), terms)
    assert len(Release(pa.table({"n": range(ROWS + 5)}), terms)) == ROWS + 5


@pytest.mark.parametrize("token", [0.0, -1.0, 0.1, 1.0625, float("nan"), float("inf"), -0.0, 1e308])
def test_tokens_are_positive_multiples(token: float) -> None:
    table = rows({"query": ["a", "b", "c"]}).set_column(1, "token", pa.array([1.0, token, 1.0]))
    with pytest.raises(InvalidValue, match="the token in row 2 is no positive multiple of 1/8"):
        Release(table, TERMS)
    if token == 1.0625:
        assert len(Release(table, stated_terms(PRIVACY, KeepAll(), ("query",), grid=16))) == 3


def test_what_a_release_cannot_be() -> None:
    table = rows({"query": [f"a{CANARY}", f"b{CANARY}"]})

    def no_release(table: pa.Table, message: str, terms: Terms = TERMS) -> None:
        refused_alone(partial(Release, table, terms), message, [CANARY])

    whole = Release(table, TERMS).table
    for name, at, by in (("estimate", 0, 1), ("low", 1, -1), ("high", 0, 1), ("high", 1, float("nan"))):
        numbers = whole[name].to_pylist()
        numbers[at] += by
        changed = whole.set_column(whole.column_names.index(name), name, pa.array(numbers))
        no_release(changed, f"the {name} in row {at + 1} does not follow from its token")
        no_release(whole.drop_columns([name]), "a release has the columns")
    no_release(table.drop_columns(["token"]), "a release has the columns")
    no_release(table.append_column("frequency", pa.array([1, 2])), "a release has the columns")
    no_release(table, "has the columns 'query', not", stated_terms(PRIVACY, KeepAll(), ("query",), keys_only=True))
    no_release(table.set_column(1, "token", pa.array([1, 2])), "'token' must be float64, not int64")
    no_release(
        rows({"query": [1.5, 2.5]}),
        "'query' cannot hold double, since keys are compared exactly; cast it to string or decimal",
    )
    no_release(
        rows({"query": pa.array([CANARY]).dictionary_encode()}), "the column 'query' must be of .* type, not dictionary"
    )
    no_release(rows({"query": [None, f"a{CANARY}"]}), "the column 'query' has at least one NULL")
    no_release(rows({"query": [f"a{CANARY}", None]}), "the column 'query' has at least one NULL")
    no_release(
        table.set_column(1, "token", pa.array([1.0, None])),
        "the column 'token' has at least one NULL",
    )


def test_terms_are_checked() -> None:
    for changes, message in (
        ({"keys": ()}, "at least one key column"),
        ({"keys": ("a", "token")}, "cannot be called 'token'"),
        ({"keys": ("Estimate",)}, "'Estimate', which dpsample uses itself; give it another name"),
        ({"grid": 3}, "power of two"),
        ({"grid": None}, "power of two"),
        ({"privacy": 1.0}, "privacy must be a Privacy, not a float"),
    ):
        given: dict[str, Any] = {"privacy": PRIVACY, "sampling": KeepAll(), "keys": ("query",)} | changes
        with pytest.raises(InvalidValue, match=message):
            stated_terms(**given)
    assert stated_terms(PRIVACY, KeepAll(), "query").keys == ("query",)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "element", "0.5", "ppswor", "custom"]),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(["scheme", "q", "tau", "epsilon", "delta"]), v),
    max_leaves=5,
)


@given(st.sampled_from(["privacy", "sampling", "keys", "grid", "keys_only", "unit"]), json_values)
def test_any_metadata_give_terms_or_an_error_of_ours(name: str, value: Any) -> None:
    form = TERMS.to_json(0)
    try:
        found = Terms.from_json(form | {name: value})
    except InvalidValue as error:
        assert "\n" not in str(error)  # noqa: PT017 - either is right
    else:
        assert Terms.from_json(found.to_json(0)) == found
    del form[name]
    with pytest.raises(InvalidValue, match="state all of its terms"):
        Terms.from_json(form)


def test_a_sample_is_not_a_release(tmp_path: Path) -> None:
    sample = Sample(pa.table({"query": [CANARY], "frequency": [3]}), KeepAll(), "query")
    for form in FORMATS:
        sample.write(tmp_path / f"x.{form}")
        with pytest.raises(InvalidValue, match="not a dpsample sample; it is NOT private") as caught:
            read_release(tmp_path / f"x.{form}")
        assert CANARY not in str(caught.value)
