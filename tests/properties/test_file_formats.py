"""Every registered format: its files are recognized, and records written to one output are read back one by one."""

import io
import json
import pickle
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.cli import filter as filter_command
from spotsieve.stream.files.compression import COMPRESSORS
from spotsieve.stream.files.file_format import (
    FileContent,
    FileFormat,
    FileRecord,
    FormatWriter,
    InputFormat,
    Intake,
    Record,
)
from spotsieve.stream.files.formats import FORMATS, WRITTEN_FORMATS, format_of
from spotsieve.stream.files.jsonlines import JSON_LINES
from spotsieve.stream.files.outputs import OutputFile
from spotsieve.stream.files.parquet.format import PARQUET
from spotsieve.stream.files.reader import RecordResult
from spotsieve.stream.files.saved_pages import MHTML, SINGLE_FILE
from spotsieve.stream.files.warc.formats import ARC, WACZ, WARC
from tests.fixtures.filter_crawl import read_records
from tests.fixtures.pages.saved_pages import mhtml, part, saved_by_single_file
from tests.fixtures.pages.warc_records import warc

Given = tuple[str, str]
"""URL and body of a page."""

# Bodies look like the frames of the formats, so that a wrong division shows.
SNIPPETS = [
    "\n",
    "\r\n\r\n",
    "WARC/1.1\r\n",
    "Content-Length: 3\r\n\r\n",
    '{"url": "u"}\n',
    "PAR1",
    "<p>text</p>",
    "ä",
]
bodies = st.lists(st.sampled_from(SNIPPETS), max_size=5).map("".join)
pages = st.lists(st.tuples(st.from_regex(r"https://e\.com/[a-z]{1,3}", fullmatch=True), bodies), max_size=5)


def json_lines(given_pages: Sequence[Given]) -> bytes:
    return b"\n".join(json.dumps({"url": url, "body": body}).encode() for url, body in given_pages)


def warc_file(given_pages: Sequence[Given]) -> bytes:
    records = [
        warc(body.encode(), "resource", WARC_Target_URI=url, Content_Type="text/plain; charset=utf-8")
        for url, body in given_pages
    ]
    return b"".join(records).removesuffix(b"\r\n\r\n") if records else b""


def parquet_file(given_pages: Sequence[Given]) -> bytes:
    data, (urls, texts) = io.BytesIO(), zip(*given_pages, strict=True) if given_pages else ((), ())
    parquet.write_table(pa.table({"url": pa.array(urls, pa.string()), "body": pa.array(texts, pa.string())}), data)
    return data.getvalue()


def wacz_file(given_pages: Sequence[Given]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("archive/a.warc", warc_file(given_pages))
    return data.getvalue()


def arc_file(given_pages: Sequence[Given]) -> bytes:
    about = b"1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
    records = [f"filedesc://crawl.arc 0.0.0.0 20240301000000 text/plain {len(about)}\n".encode() + about]
    for url, body in given_pages:
        sent = body.encode()
        records.append(f"{url} 10.0.0.1 20240301000010 text/html {len(sent)}\n".encode() + sent)
    return b"\n".join([*records, b""])


def mhtml_file(given_pages: Sequence[Given]) -> bytes:
    (url, body) = given_pages[0]
    saved = mhtml(part(body.encode(), "base64", "text/html; charset=utf-8"))
    return saved.replace(b"https://example.com/a", url.encode())


def single_file(given_pages: Sequence[Given]) -> bytes:
    return saved_by_single_file(*given_pages[0]).encode()


FILES: dict[InputFormat, Callable[[Sequence[Given]], bytes]] = {
    JSON_LINES: json_lines,
    WARC: warc_file,
    PARQUET: parquet_file,
    WACZ: wacz_file,
    ARC: arc_file,
    MHTML: mhtml_file,
    SINGLE_FILE: single_file,
}
"""A file of given pages in each format. A file without a final line end is legal, and the last record then lacks it."""
ONE_PAGE = (MHTML, SINGLE_FILE)
"""Formats whose files are one page each."""
NAMES = [
    f"novel{one.endings[0]}{compression}"
    for one in WRITTEN_FORMATS
    for compression in ["", *(COMPRESSORS if one.compressible else [])]
]


def found_pages(outcomes: Sequence[RecordResult]) -> list[Given]:
    assert not any(outcome.record.fault for outcome in outcomes)
    results = [outcome.result for outcome in outcomes]
    return [(one.url, one.body.decode()) for one in results if isinstance(one, Page)]


def write(path: Path, outcomes: Sequence[RecordResult]) -> None:
    output = OutputFile(str(path))
    for outcome in outcomes:
        output.write_record(outcome.record, outcome.format)
    output.complete()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


def test_every_format_is_tested_here() -> None:
    assert set(FILES) == set(FORMATS), "add a function that writes a file of the new format to FILES"
    assert len({one.name for one in FORMATS}) == len(FORMATS)
    endings = [ending for one in FORMATS for ending in one.endings]
    assert len(set(endings)) == len(endings), "an ending belongs to one format"


def test_the_last_suffix_of_an_output_shows_its_format_whatever_its_input_was_named(tmp_path: Path) -> None:
    for name in ("crawl.parquet.jsonl", "crawl.warc.jsonl.gz", "crawl.jsonl.warc.x"):
        output = OutputFile(str(tmp_path / name), lines_only=True)
        output.write_line(b"{}")
        output.complete()
    with pytest.raises(SettingError, match="has a suffix of another format"):
        OutputFile(str(tmp_path / "crawl.jsonl.warc"), lines_only=True)


def test_the_help_of_filter_names_every_format() -> None:
    unnamed = [one.name for one in FORMATS if one.name not in filter_command.ABOUT]
    assert unnamed == [], "name the format in ABOUT of stream/cli/filter.py"
    written = [one.endings[0] for one in WRITTEN_FORMATS if one.endings[0] not in filter_command.ABOUT]
    assert written == [], "name the ending in ABOUT of stream/cli/filter.py"


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_a_file_is_recognized_by_its_own_format_alone(one: InputFormat) -> None:
    beginning = FILES[one]([("https://e.com/a", "text")])
    assert [other.name for other in FORMATS if other.recognizes(beginning)] == [one.name]
    assert format_of("file", beginning) == one


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_a_format_is_equal_to_itself_after_it_was_held_in_a_file(one: InputFormat) -> None:
    assert pickle.loads(pickle.dumps(one)) == one
    assert {pickle.loads(pickle.dumps(one)), one} == {one}
    assert [other for other in FORMATS if other == one] == [one]


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
@settings(max_examples=25, deadline=None)
@given(given_pages=pages)
def test_records_of_one_file_are_read_back_as_they_were(
    folder: Path, one: InputFormat, given_pages: list[Given]
) -> None:
    source, target = folder / f"source{one.endings[0]}", folder / f"novel{one.written_as.endings[0]}"
    if one in ONE_PAGE:
        given_pages = [*given_pages, ("https://e.com/a", "text")][:1]
    expected = (
        [(url, saved_by_single_file(url, body)) for url, body in given_pages] if one == SINGLE_FILE else given_pages
    )
    source.write_bytes(FILES[one](given_pages))
    outcomes = read_records(source)
    assert found_pages(outcomes) == expected
    write(target, outcomes)
    again = read_records(target)
    assert found_pages(again) == expected
    assert [len(outcome.record.raw.rstrip()) for outcome in again] == [
        len(outcome.record.raw.rstrip()) for outcome in outcomes
    ]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(given_pages=pages)
def test_records_of_several_files_in_one_output_are_read_back_one_by_one(
    folder: Path, name: str, given_pages: list[Given]
) -> None:
    (one,) = (one for one in WRITTEN_FORMATS if name.startswith(f"novel{one.endings[0]}"))
    outcomes = list[RecordResult]()
    for page in given_pages:
        source = folder / f"source{one.endings[0]}"
        source.write_bytes(FILES[one]([page]))
        outcomes += read_records(source)
    target = folder / name
    write(target, outcomes)
    again = read_records(target)
    assert [outcome.record.number for outcome in again] == list(range(len(given_pages)))
    assert found_pages(again) == given_pages
    assert [outcome.format for outcome in again] == [one] * len(given_pages)


class Frames(FileFormat):
    """A format of an author who forgot a method."""

    name, content, endings = "frames", "frames", (".frames",)

    def recognizes(self, beginning: bytes) -> bool:
        return beginning.startswith(b"FRAME")

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        return (FileRecord(Record(number, raw)) for number, raw in enumerate(content.chunks))

    def decode(self, found: FileRecord, intake: Intake) -> Page | None:
        return intake.page_of_fields(found)


class FrameWriter(FormatWriter):
    """A writer that joins nothing."""


def test_a_format_without_a_joining_rule_cannot_be_made() -> None:
    make: Callable[[], Frames] = Frames
    with pytest.raises(TypeError, match=r"abstract method '?writer"):
        make()
    make_writer: Callable[[], FrameWriter] = FrameWriter
    with pytest.raises(TypeError, match=r"abstract method '?write"):
        make_writer()


@pytest.mark.parametrize("one", WRITTEN_FORMATS, ids=lambda one: one.name)
def test_records_of_two_formats_cannot_be_joined(one: FileFormat, folder: Path) -> None:
    for other in WRITTEN_FORMATS:
        records = list[RecordResult]()
        for number, format_ in enumerate((one, other)):
            source = folder / f"source{number}"
            source.write_bytes(FILES[format_]([("https://e.com/a", "text")]))
            records += read_records(source)
        output = OutputFile(str(folder / "mixed"))
        output.write_record(records[0].record, records[0].format)
        if one == other:
            output.write_record(records[1].record, records[1].format)
        else:
            with pytest.raises(SettingError, match=f"the inputs are {one.name} and {other.name}"):
                output.write_record(records[1].record, records[1].format)
        output.discard()


def test_rows_do_not_go_into_an_output_whose_name_asks_for_a_compression(folder: Path) -> None:
    source, target = folder / "rows", folder / "novel.gz"
    source.write_bytes(parquet_file([("https://e.com/a", "text")]))
    output = OutputFile(str(target))
    (outcome,) = read_records(source)
    rule = r"must end in \.parquet without a suffix of compression; Parquet has its own compression"
    with pytest.raises(SettingError, match=rule):
        output.write_record(outcome.record, outcome.format)
    output.discard()
