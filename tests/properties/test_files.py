"""Whatever a file holds: records, rejections and one clear error, never another exception."""

import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spotsieve.stream.base.errors import InputError, PageError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.files.compression import read_chunks
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.jsonlines import JSON_LINES
from spotsieve.stream.files.reader import FileReader, RecordResult
from spotsieve.stream.files.warc import split_warc

SNIPPETS = [
    b"WARC/1.0\r\n",
    b"WARC/1.1\r\nContent-Length: 5\r\n\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: 0\r\n\r\n",
    b"WARC-Type: response\r\n",
    b"WARC-Type: resource\r\n",
    b"WARC-Target-URI: http://a\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b"Content-Type: application/http\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"5\r\nhello\r\n",
    b"Content-Encoding: br\r\n",
    b"Content-Encoding: zstd\r\n",
    b'{"url": "u", "body": "b"}\n',
    b"\x1f\x8b\x08",
    b"BZh9",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",
    b"PAR1",
    b"\x15\x04\x15\x80",
    b"\x10\x00\x00\x00PAR1",
    b"PK\x03\x04",
    b"PK\x05\x06" + bytes(16),
    b"filedesc://a 0 20240301 t 3\n1\n2\n3\n",
    b"http://a 0 20240301000000 text/html 5\n",
    b"\xef\xbb\xbf",
]
contents = st.lists(st.sampled_from(SNIPPETS) | st.binary(max_size=30), max_size=15).map(b"".join)


def read(path: Path) -> tuple[list[RecordResult], InputError | None]:
    outcomes: list[RecordResult] = []
    try:
        with FileReader(Input(path, str(path), None), InputSettings(), max_record_bytes=200) as reader:
            outcomes.extend(reader)
    except InputError as error:
        return outcomes, error
    return outcomes, None


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files") / "any"


@given(data=contents, folded=st.booleans(), warc=st.booleans())
def test_any_bytes_are_records_and_at_most_one_clear_error(path: Path, data: bytes, folded: bool, warc: bool) -> None:
    data = (b"WARC/1.0\r\n" if warc else b"") + data
    path.write_bytes(gzip.compress(data) if folded else data)
    outcomes, fault = read(path)
    assert [outcome.record.number for outcome in outcomes] == list(range(len(outcomes)))
    for outcome in outcomes:
        if outcome.format == JSON_LINES:
            assert isinstance(outcome.result, Page | PageError)
    assert fault is None or str(fault)


@example(b"\r\n\r\n\r\n\r\n", 1)
@given(contents, st.integers(1, 50))
def test_warc_records_do_not_depend_on_the_chunks(data: bytes, step: int) -> None:
    def chunks(size: int) -> Iterator[bytes]:
        yield from (data[start : start + size] for start in range(0, len(data), size))

    in_one, in_many = ([(r.raw, r.fault and r.fault[0]) for r in split_warc(chunks(size))] for size in (10**6, step))
    assert [fault for _, fault in in_one] == [fault for _, fault in in_many]
    assert [raw for raw, fault in in_one if fault is None] == [raw for raw, fault in in_many if fault is None]


@given(st.binary(max_size=2000), st.integers(0, 2100))
def test_a_cut_gzip_gives_a_beginning_and_an_error(data: bytes, keep: int) -> None:
    whole = gzip.compress(data)
    got = b""
    fault = None
    try:
        for chunk in read_chunks(io.BytesIO(whole[:keep]), "f"):
            got += chunk
    except InputError as error:
        fault = error
    if keep >= len(whole):
        assert (got, fault) == (data, None)
    elif keep >= 2:
        assert data.startswith(got)
        assert fault is not None
