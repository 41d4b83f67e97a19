"""Batches wait for their verdicts with their records, or without those that can be read again."""

import gzip
import json
from pathlib import Path

import pytest

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files import check_inputs
from spotsieve.stream.files.file_format import FileRecord, Intake, Record
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.reader import FileReader
from spotsieve.stream.local.backfill.batch_queue import BatchQueue
from spotsieve.stream.local.batch_reader import FileBatch

LINES = [
    b"\xef\xbb\xbf" + json.dumps({"url": "https://a.example/1", "body": "one"}).encode(),
    b"",
    b"no page",
    json.dumps({"url": "https://a.example/2", "body": "two" * 1000}).encode() + b"\r",
    json.dumps({"url": "https://b.example/3", "body": "three"}).encode(),
]


def written(directory: Path, name: str) -> Input:
    content = b"\n".join(LINES)
    path = directory / name
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    (file,) = check_inputs([str(path)])
    return file


def batches_of(file: Input) -> list[FileBatch]:
    """Each record is a batch."""
    with FileReader(file, Settings().input) as reader:
        return [FileBatch(file, [outcome], len(outcome.record.raw)) for outcome in reader]


def outcomes_of(batch: FileBatch, *, with_bodies: bool) -> list[tuple[Record, Page | str]]:
    """Records and results of a batch; a PageError equals no other one, but for its text."""
    results = [outcome.result for outcome in batch.outcomes]
    pages = [page if with_bodies or not isinstance(page, Page) else page._replace(body=b"") for page in results]
    shown = [page if isinstance(page, Page) else str(page) for page in pages]
    return list(zip([outcome.record for outcome in batch.outcomes], shown, strict=True))


@pytest.mark.parametrize("most_bytes", [0, 3000, 2**30])
@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.gz"])
def test_batches_come_back_in_order_with_their_records(tmp_path: Path, name: str, most_bytes: int) -> None:
    file = written(tmp_path, name)
    batches, queue = batches_of(file), BatchQueue(file, keep_records=True, most_bytes=most_bytes)
    for _ in range(2):
        for batch in batches:
            queue.put(batch)
        assert [outcomes_of(queue.take(), with_bodies=True) for _ in batches] == [
            outcomes_of(one, with_bodies=False) for one in batches
        ]
    queue.close()


@pytest.mark.parametrize("most_bytes", [0, 400, 2**30])
def test_rows_of_parquet_are_held_in_memory_up_to_the_limit_only(tmp_path: Path, most_bytes: int) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"url": f"https://a.example/{row}", "body": f"{row} " * 40} for row in range(20)]
    parquet.write_table(pa.Table.from_pylist([*rows, {"url": None, "body": None}]), tmp_path / "pages.parquet")
    (file,) = check_inputs([str(tmp_path / "pages.parquet")])
    outcomes = [outcome for batch in batches_of(file) for outcome in batch.outcomes]
    batches = [FileBatch(file, outcomes[start : start + 4]) for start in range(0, len(outcomes), 4)]
    queue = BatchQueue(file, keep_records=True, most_bytes=most_bytes)
    for batch in batches:
        queue.put(batch)
    in_memory = [batch for _, batch in queue._waiting if isinstance(batch, FileBatch)]
    of_pages = [one for batch in in_memory for one in batch.outcomes if isinstance(one.result, Page)]
    assert not any(one.record.raw for one in of_pages), "the JSON of rows is kept beside them"
    assert len(in_memory) == (len(batches) if most_bytes == 2**30 else 0)
    taken = [outcome for _ in batches for outcome in queue.take().outcomes]
    places = [outcome.record.place for outcome in taken[:-1]]
    assert [place.batch.to_pylist()[place.row] for place in places if place is not None] == rows
    assert all(place is not None and place.metadata is outcomes[0].record.place.metadata for place in places)  # type: ignore[union-attr]
    assert taken[-1].record.raw == outcomes[-1].record.raw, "a row that is no page is written as JSON"
    queue.close()


def test_the_temporary_file_holds_each_row_of_parquet_once(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"url": f"https://a.example/{row}", "body": f"{row} " * 20_000} for row in range(64)]
    small = {"use_dictionary": False, "data_page_size": 1, "write_batch_size": 1}  # Many rows are read as one batch.
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "pages.parquet", **small)
    (file,) = check_inputs([str(tmp_path / "pages.parquet")])
    outcomes = [outcome for batch in batches_of(file) for outcome in batch.outcomes]
    assert len({id(outcome.record.place.batch) for outcome in outcomes if outcome.record.place is not None}) == 1
    queue = BatchQueue(file, keep_records=True, most_bytes=0)
    batches = [FileBatch(file, outcomes[start : start + 4]) for start in range(0, len(outcomes), 4)]
    for batch in batches:
        queue.put(batch)
    assert queue._file is not None
    assert queue._file.seek(0, 2) < 2 * sum(len(row["body"]) for row in rows)
    places = [outcome.record.place for _ in batches for outcome in queue.take().outcomes]
    assert [place.batch.to_pylist()[place.row] for place in places if place is not None] == rows
    queue.close()


def test_records_of_a_plain_file_of_this_machine_are_not_held(tmp_path: Path) -> None:
    file = written(tmp_path, "pages.jsonl")
    queue = BatchQueue(file, keep_records=True)
    for batch in batches_of(file):
        queue.put(batch)
    waiting = [outcome for _, batch in queue._waiting if isinstance(batch, FileBatch) for outcome in batch.outcomes]
    assert [outcome.record.raw for outcome in waiting] == [b"", b"no page", b"", b""], "a line that is no page is kept"
    queue.close()


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.gz"])
def test_bodies_that_texts_need_wait_in_their_records_only(tmp_path: Path, name: str) -> None:
    file = written(tmp_path, name)
    queue, intake = BatchQueue(file, keep_records=True, keep_bodies=True), Intake(file.source, Settings().input)
    batches = batches_of(file)
    for batch in batches:
        queue.put(batch)
    for batch in batches:
        for outcome, before in zip(queue.take().outcomes, batch.outcomes, strict=True):
            if isinstance(outcome.result, Page) and isinstance(before.result, Page):
                assert outcome.result.body == b""
                again = outcome.format.decode(FileRecord(outcome.record), intake)
                assert again is not None
                assert again.body == before.result.body
    queue.close()


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.gz"])
def test_records_that_nobody_writes_are_neither_held_nor_read_again(tmp_path: Path, name: str) -> None:
    file = written(tmp_path, name)
    assert file.path is not None
    queue = BatchQueue(file, keep_records=False)
    batches = batches_of(file)
    for batch in batches:
        queue.put(batch)
    file.path.unlink()
    records = [outcome.record.raw for _ in batches for outcome in queue.take().outcomes]
    assert records == [b"", b"no page", b"", b""]
    queue.close()


def test_a_file_that_is_gone_is_told_of_by_who_reads_it(tmp_path: Path) -> None:
    file = written(tmp_path, "pages.jsonl")
    assert file.path is not None
    file.path.unlink()
    queue = BatchQueue(file, keep_records=True)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        batches_of(file)
    queue.close()


@pytest.mark.guarantee(
    "an input that changes while it is read is reported, and no wrong record is emitted", fault="rewritten"
)
@pytest.mark.parametrize("change", ["rewritten", "cut"])
def test_a_record_that_has_changed_is_refused(tmp_path: Path, change: str) -> None:
    file = written(tmp_path, "pages.jsonl")
    assert file.path is not None
    queue = BatchQueue(file, keep_records=True)
    *_, last = batches_of(file)
    queue.put(last)
    content = file.path.read_bytes()
    file.path.write_bytes(content.replace(b"three", b"threw") if change == "rewritten" else content[:-1])
    with pytest.raises(InputError, match="must not change during a run, and record 3 has changed") as refused:
        queue.take()
    assert str(file.path) in str(refused.value)
    queue.close()
