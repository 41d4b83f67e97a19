"""Parquet: rows are pages by their columns, kept rows go out with all columns, and memory is bounded."""

import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from spotsieve.stream.base.errors import InputError, RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.cli import main
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.parquet import page_sizes
from spotsieve.stream.files.parquet.rows import read_rows, row_bytes
from spotsieve.stream.files.reader import FileReader, RecordResult
from tests.fixtures.filter_crawl import filter_json, lines, page, read_json, refused

WHEN = datetime(2024, 3, 1, 0, 0, 10, tzinfo=UTC)


def crawl() -> list[dict[str, Any]]:
    """Three pages, of which the third copies the first."""
    return [page(1), page(2), page(1, "copy", "a note")]


def table(pages: list[dict[str, Any]]) -> pa.Table:
    """The pages as rows, with columns of several kinds beside them."""
    columns: dict[str, Any] = {name: [one[name] for one in pages] for name in pages[0]}
    columns["body"] = pa.array([one["body"].encode() for one in pages], pa.binary())
    columns["fetched_at"] = pa.array([WHEN] * len(pages), pa.timestamp("ns", "UTC"))
    columns["links"] = pa.array([["a", "b"], None, []] * (len(pages) // 3), pa.list_(pa.string()))
    columns["headers"] = pa.array([[("k", "v")]] * len(pages), pa.map_(pa.string(), pa.large_string()))
    columns["kind"] = pa.array(["news"] * len(pages)).dictionary_encode()
    columns["rank"] = pa.array(range(len(pages)), pa.decimal128(9, 2))
    return pa.table(columns).replace_schema_metadata({"crawl": "of March"})


def write(path: Path, rows: pa.Table, **options: Any) -> Path:
    parquet.write_table(rows, path, **options)
    return path


def read(path: Path, most: int = 2**26) -> list[RecordResult]:
    with FileReader(Input(path, str(path), None), InputSettings(), most) as reader:
        return list(reader)


def test_kept_rows_go_out_with_all_columns_their_schema_and_their_metadata(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = table(crawl())
    path, out = write(tmp_path / "crawl.parquet", rows, compression="zstd"), tmp_path / "novel.parquet"
    verdicts = tmp_path / "v.jsonl"
    summary = filter_json(capsys, path, "--out", out, "--verdicts", verdicts)
    assert (summary["pages"], summary["novel"], summary["duplicate"]) == (3, 2, 1)
    assert summary["bytes_read"] >= path.stat().st_size
    found = parquet.read_table(out)
    assert found.equals(parquet.read_table(path).slice(0, 2))
    assert found.schema.equals(parquet.read_schema(path), check_metadata=True)
    assert parquet.read_metadata(out).row_group(0).column(0).compression == "ZSTD"
    assert [line["duplicate_of"] for line in read_json(verdicts)] == [None, None, "p1"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_a_column_of_lists_of_texts_is_joined_as_in_json(tmp_path: Path, kind: pa.DataType) -> None:
    bodies: list[Any] = [["<p>one", "<p>Zoë"], ["<p>one"], [], None]
    urls = [f"https://a.example/{number}" for number in range(len(bodies))]
    rows = [{"url": url, "body": body} for url, body in zip(urls, bodies, strict=True)]
    as_lines = tmp_path / "a.jsonl"
    as_lines.write_bytes(lines(rows))
    columns = {"url": urls, "body": pa.array(bodies, pa.list_(pa.string())).cast(pa.list_(kind))}
    results = [one.result for one in read(write(tmp_path / "a.parquet", pa.table(columns)))]
    assert [one.body if isinstance(one, Page) else one and one.reason for one in results] == [
        "<p>one\n<p>Zoë".encode(),
        b"<p>one",
        RejectReason.NO_BODY,
        RejectReason.NO_BODY,
    ]
    by_lines = [one.result for one in read(as_lines)]
    for expected, found in zip(by_lines[:2], results[:2], strict=True):
        assert isinstance(expected, Page)
        assert isinstance(found, Page)
        assert (expected.body, expected.markup, expected.judgeable) == (found.body, found.markup, found.judgeable)


def test_rows_are_the_pages_that_their_columns_say_whatever_the_row_groups(tmp_path: Path) -> None:
    as_lines, as_rows = tmp_path / "a.jsonl", write(tmp_path / "a.parquet", table(crawl() * 5), row_group_size=4)
    as_lines.write_bytes(lines(crawl() * 5))
    by_lines, by_rows = read(as_lines), read(as_rows)
    assert [outcome.record.number for outcome in by_rows] == list(range(15))
    for expected, found in zip(by_lines, by_rows, strict=True):
        assert isinstance(expected.result, Page)
        assert isinstance(found.result, Page)
        for field in ("url", "body", "label", "event_time_ms", "markup"):
            assert getattr(found.result, field) == getattr(expected.result, field)
    other = write(tmp_path / "b.parquet", table(crawl() * 5), compression="gzip")
    assert [one.record.raw for one in read(other)] == [one.record.raw for one in by_rows], (
        "the digests of ids are equal"
    )


def test_columns_of_other_names_are_named_and_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = table([page(seed) for seed in range(12)]).rename_columns(
        ["id", "link", "fetched_at", "content_type", "html", "links", "headers", "kind", "rank"]
    )
    path = write(tmp_path / "crawl.parquet", rows)
    code, error = refused(capsys, path)
    assert code == 3
    assert "The records are rows with the columns id, link, fetched_at, content_type, html" in error
    assert "set input.fields.body, such as --set input.fields.body=html" in error
    names = ["--set", "input.fields.body=html", "--set", "input.fields.url=link"]
    assert filter_json(capsys, path, *names)["pages"] == 12
    nested = pa.table({"url": ["https://e.com/"], "response": [{"html": page(1)["body"].encode(), "status": 404}]})
    found = ["--set", "input.fields.body=response.html", "--set", "input.fields.status=response.status"]
    summary = filter_json(capsys, write(tmp_path / "nested.parquet", nested), *found)
    assert summary["reasons"] == {"http_status": 1}


def test_cells_that_are_no_page_are_rejected_alone(tmp_path: Path) -> None:
    bodies = pa.array([b"\xff\xfe<p>no text</p>", None, b"<p>caf\xe9</p>"], pa.binary())
    rows = pa.table({"url": ["u", "v", None], "body": bodies, "content_type": ["text/html; charset=latin-1"] * 3})
    first, second, third = read(write(tmp_path / "a.parquet", rows))
    assert isinstance(first.result, Page)
    assert getattr(second.result, "reason", None) is RejectReason.NO_BODY
    assert getattr(third.result, "reason", None) is RejectReason.NO_URL
    assert json.loads(second.record.raw) == {"url": "v", "body": None, "content_type": "text/html; charset=latin-1"}


WRONG: dict[str, tuple[Callable[[Path], list[object]], int, str]] = {
    "cut": (lambda folder: [_bytes(folder / "a.parquet", _whole()[:-9])], 3, "is damaged Parquet: it must end in"),
    "a beginning": (lambda folder: [_bytes(folder / "a.parquet", b"PAR1")], 3, "is damaged Parquet: it must end in"),
    "damaged": (
        lambda folder: [_bytes(folder / "a.parquet", _whole().replace(b"\x15", b"\x7f", 1))],
        3,
        "is damaged Parquet: column id has a damaged page header at byte 4",
    ),
    "compressed": (
        lambda folder: [_bytes(folder / "a.parquet.gz", gzip.compress(_whole()))],
        3,
        "is Parquet compressed with gzip, which allows no random access; decompress it first",
    ),
    "two schemas": (
        lambda folder: [
            write(folder / "a.parquet", table(crawl())),
            write(folder / "b.parquet", table(crawl()).drop_columns(["rank"])),
            "--out",
            folder / "o.parquet",
        ],
        2,
        "cannot contain rows of two schemas, and the files differ in rank; filter the files of each schema",
    ),
    "two columns of one name": (
        lambda folder: [write(folder / "a.parquet", table(crawl()).append_column("body", [["x"] * len(crawl())]))],
        3,
        "must have one column of each name, and has 2 of the name body; rename or remove all but one of them",
    ),
    "rows in a .jsonl": (
        lambda folder: [write(folder / "a.parquet", table(crawl())), "--out", folder / "o.jsonl"],
        2,
        "has a suffix of another format, but its content is rows of Parquet; let it end in .parquet",
    ),
    "lines in a .parquet": (
        lambda folder: [_bytes(folder / "a.jsonl", lines(crawl())), "--out", folder / "o.parquet"],
        2,
        "has a suffix of another format, but its content is JSON lines; let it end in .jsonl",
    ),
    "verdicts in a .parquet": (
        lambda folder: [_bytes(folder / "a.jsonl", lines(crawl())), "--verdicts", folder / "o.parquet"],
        2,
        "has a suffix of another format, but its content is JSON lines",
    ),
    "compressed twice": (
        lambda folder: [_bytes(folder / "a.jsonl", lines(crawl())), "--out", folder / "o.parquet.gz"],
        2,
        "must end in .parquet without a suffix of compression",
    ),
}


def _bytes(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _whole() -> bytes:
    data = io.BytesIO()
    parquet.write_table(table(crawl()), data)
    return data.getvalue()


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_one_line_with_the_next_step(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, code, words = WRONG[case]
    found, error = refused(capsys, *make(tmp_path))
    assert (found, words in error) == (code, True), error
    assert not (tmp_path / "o.parquet").exists()


def test_an_output_without_rows_has_the_columns_of_its_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, state = write(tmp_path / "a.parquet", table(crawl())), tmp_path / "o.parquet", tmp_path / "state"
    again = write(tmp_path / "b.parquet", table(crawl()))
    filter_json(capsys, path, "--state", state)
    assert filter_json(capsys, again, "--state", state, "--out", out)["novel"] == 0
    assert parquet.read_table(out).equals(parquet.read_table(path).slice(0, 0))
    none = write(tmp_path / "none.parquet", table(crawl()).slice(0, 0))
    filter_json(capsys, none, "--out", tmp_path / "still-none.parquet")
    assert parquet.read_schema(tmp_path / "still-none.parquet").equals(parquet.read_schema(none), check_metadata=True)


def test_query_and_model_build_read_rows_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = write(tmp_path / "a.parquet", table(crawl())), tmp_path / "state"
    filter_json(capsys, path, "--state", state)
    assert main(["query", "--state", str(state), str(path), "--json", "--verdicts", str(tmp_path / "v")]) == 0
    assert json.loads(capsys.readouterr().out)["reasons"] == {"first_attempt": 2, "contained": 1}
    assert main(["model", "build", "--scheme", "imatch", str(path), "-o", str(tmp_path / "m.idf")]) == 0


@pytest.mark.guarantee(
    "memory is bounded, whatever a Parquet file decompresses to", fault="values that are in every row"
)
def test_a_long_value_in_every_row_is_read_in_small_batches_and_in_lists_not_at_all(tmp_path: Path) -> None:
    long, count = "x" * 2**20, 3000
    values = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([long]))
    wide = {"store_schema": False, "dictionary_pagesize_limit": 2**30}
    rows = pa.table({"url": ["u"] * count, "body": values})
    path = write(tmp_path / "a.parquet", rows, **wide)
    assert path.stat().st_size < 2**18
    before = pa.total_allocated_bytes()
    with path.open("rb") as file:
        for number, (record, _) in enumerate(read_rows(file, "a", "body", 2**26)):
            assert record.fault is None
            assert pa.total_allocated_bytes() - before < 600 * 2**20, "of 3 GB"
            if number > 300:
                break
    lists = pa.ListArray.from_arrays(pa.array([0, 1, count], pa.int32()), values)
    with write(tmp_path / "b.parquet", pa.table({"url": ["u", "v"], "body": lists}), **wide).open("rb") as file:
        found = [record.fault and record.fault[0] for record, _ in read_rows(file, "b", "body", 2**26)]
    assert found == [None, RejectReason.TOO_LARGE]


def test_pages_that_unfold_to_more_than_is_held_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_sizes, "MOST_UNFOLDED_BYTES", 2**20)
    monkeypatch.setattr(page_sizes, "MOST_FREE_VALUES", 2**20)
    rows = pa.table({"url": ["u"] * 3, "body": ["x" * 2**19] * 3})
    path = write(tmp_path / "a.parquet", rows, use_dictionary=False, data_page_size=2**30)
    with (
        path.open("rb") as file,
        pytest.raises(InputError, match=r"decompress to .* \(limit 1,048,576\).*data_page_size"),
    ):
        next(read_rows(file, "a", "body", 2**26))
    zeros = pa.ListArray.from_arrays(pa.array([0, 2**21], pa.int32()), pa.array([0] * 2**21, pa.int8()))
    path = write(tmp_path / "b.parquet", pa.table({"url": ["u"], "ranks": zeros}))
    assert path.stat().st_size < 2**14
    with path.open("rb") as file, pytest.raises(InputError, match=r"column ranks.* repeats a value .* times in lists"):
        next(read_rows(file, "b", "body", 2**26))


def test_the_size_of_a_row_counts_every_value_where_it_stands() -> None:
    batch = table(crawl()).combine_chunks().to_batches()[0]
    texts = [sum(len(one[name]) for name in ("id", "url", "body", "content_type")) for one in crawl()]
    fixed = 8 + len("news") + 8 + (8 + len("kv"))
    assert row_bytes(batch).tolist() == [texts[0] + fixed + 2 * 9, texts[1] + fixed, texts[2] + fixed]
    assert row_bytes(batch.slice(1)).tolist() == [texts[1] + fixed, texts[2] + fixed]


def test_rows_of_row_groups_with_small_dictionaries_can_be_read_back_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = pa.dictionary(pa.int8(), pa.string())
    inputs, kinds = list[Path](), list[str]()
    for day in range(2):
        pages = [page(100 * day + n) for n in range(100)]
        kinds += [f"{one['id']}-kind" for one in pages]
        columns: dict[str, Any] = {name: [one[name] for one in pages] for name in pages[0]}
        columns["kind"] = pa.array([f"{one['id']}-kind" for one in pages]).cast(small)
        columns["in"] = pa.StructArray.from_arrays([columns["kind"]], ["kind"])
        inputs.append(write(tmp_path / f"day{day}.parquet", pa.table(columns)))
    summary = filter_json(capsys, *inputs, "--out", tmp_path / "novel.parquet")
    assert summary["novel"] == 200
    found = parquet.read_table(tmp_path / "novel.parquet")
    assert found["kind"].to_pylist() == kinds
    assert [row["kind"] for row in found["in"].to_pylist()] == kinds
    assert filter_json(capsys, tmp_path / "novel.parquet")["novel"] == 200


def test_values_within_values_are_read_as_those_of_columns(tmp_path: Path) -> None:
    pages = [page(n) for n in range(3)]
    bad, utf8 = b"a\xffb", pa.string()
    text = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\3\0\0\0"), pa.py_buffer(bad))
    texts = pa.concat_arrays([text, pa.array(["c", None], utf8)])
    far = pa.array([2**62, 0, None], pa.timestamp("us"))
    within = {
        "url": pa.array([one["url"].encode() for one in pages]),
        "html": pa.array([one["body"].encode("utf-16") for one in pages]),
        "at": pa.array([WHEN] * 3, pa.timestamp("us", "UTC")),
        "far": far,
        "server": texts,
    }
    rows = pa.table(
        {
            "r": pa.StructArray.from_arrays(list(within.values()), list(within)),
            "names": pa.ListArray.from_arrays([0, 1, 2, 3], texts),
            "headers": pa.MapArray.from_arrays([0, 1, 2, 2], pa.array(["k", "l"]), texts.slice(0, 2)),
        }
    )
    path = write(tmp_path / "nested.parquet", rows)
    fields = {"url": "r.url", "body": "r.html", "fetched_at": "r.at"}
    settings = InputSettings.model_validate({"fields": fields})
    with FileReader(Input(path, str(path), None), settings) as reader:
        found = [outcome.result for outcome in reader]
    for one, outcome in zip(pages, found, strict=True):
        assert isinstance(outcome, Page), outcome
        assert (outcome.url, outcome.event_time_ms) == (one["url"], int(WHEN.timestamp() * 1000))
        assert one["body"].encode() in outcome.body or one["body"] in outcome.body.decode("utf-16")


def test_views_of_text_and_bytes_are_read_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = crawl()
    columns: dict[str, Any] = {name: [one[name] for one in pages] for name in pages[0]}
    columns["body"] = pa.array([one["body"].encode() for one in pages], pa.binary_view())
    columns["label"] = pa.array([one.get("label") for one in pages], pa.string_view())
    columns["in"] = pa.StructArray.from_arrays([columns["label"]], ["label"])
    path = write(tmp_path / "views.parquet", pa.table(columns))
    assert filter_json(capsys, path, "--out", tmp_path / "novel.parquet")["novel"] == 2
    found = parquet.read_table(tmp_path / "novel.parquet")
    assert found.equals(parquet.read_table(path).slice(0, 2))
    assert found.schema.field("label").type == pa.string_view()
