"""Compressed files are known by their bytes, read in bounded memory, and cut ones up to the cut."""

import bz2
import gzip
import io
import itertools
import lzma
import random
import tracemalloc
from collections.abc import Callable

import pytest
import zstandard

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.files import compression
from spotsieve.stream.files.compression import CHUNK_BYTES, CompressedStream, GzipMembers, compression_of, read_chunks

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "bzip2": bz2.compress,
}
DATA = b"".join(f'{{"url": "http://a/{n}", "body": "words {n * n}"}}\n'.encode() for n in range(40_000))
kinds = pytest.mark.parametrize("kind", COMPRESS)


def read(data: bytes) -> bytes:
    return b"".join(read_chunks(io.BytesIO(data), "pages.jsonl.gz"))


def read_as_far(data: bytes) -> tuple[bytes, InputError | None]:
    """What is read, and the damage of the file."""
    got = bytearray()
    try:
        for chunk in read_chunks(io.BytesIO(data), "pages.jsonl.gz"):
            got += chunk
    except InputError as error:
        return bytes(got), error
    return bytes(got), None


def read_until_damage(data: bytes) -> tuple[bytes, InputError]:
    got, error = read_as_far(data)
    assert error is not None, "the damage was not seen"
    return got, error


@kinds
def test_each_kind_is_known_by_its_first_bytes_and_read_whole(kind: str) -> None:
    data = COMPRESS[kind](DATA)
    assert compression_of(data) == kind
    assert read(data) == DATA


@kinds
def test_members_one_after_the_other_are_read_through_and_zeros_are_padding(kind: str) -> None:
    parts = [DATA[:1000], b"", DATA[1000:5000], DATA[5000:]]
    padding = b"" if kind in ("zstd", "bzip2") else bytes(512)
    assert read(b"".join(COMPRESS[kind](part) + padding for part in parts) + bytes(4096)) == DATA


@pytest.mark.parametrize("seed", range(3))
def test_members_of_gzip_are_known_by_where_their_content_stands(seed: int) -> None:
    dice, members, seen, given = random.Random(seed), GzipMembers(), set[int](), 0
    parts = [dice.randbytes(dice.choice([1, 50, 8_000, 40_000])) * dice.choice([1, 1, 100]) for _ in range(60)]
    packed = [gzip.compress(part, dice.choice([0, 6])) for part in parts]
    ends = list(itertools.accumulate(map(len, parts)))
    for chunk in read_chunks(io.BytesIO(bytes(3).join(packed)), "pages.gz", members):
        given += len(chunk)
        for number, end in enumerate(ends):
            start = end - len(parts[number])
            known, waits = members.of(start, end), members.may_end(start, end)
            assert known is None or known == packed[number]
            assert members.of(start, end - 1) is None
            if given == end:
                assert waits != (known is not None) or len(packed[number]) > 2**20
            if known is not None:
                seen.add(number)
        assert len(members._last) <= 8
    assert given == ends[-1]
    assert seen == {number for number, one in enumerate(packed) if len(one) <= 2**20}


@kinds
def test_a_cut_file_gives_what_came_before_and_then_says_so(kind: str) -> None:
    data = COMPRESS[kind](random.Random(1).randbytes(3_000_000) + DATA)
    whole = read(data)
    got, error = read_until_damage(data[: len(data) * 2 // 3])
    assert whole.startswith(got)
    assert len(got) > 1_000_000
    assert f"pages.jsonl.gz is damaged {kind}: the file ends in the middle" in str(error)
    assert "repeat the command" in str(error)


@kinds
def test_a_damaged_file_gives_what_came_before_and_then_says_so(kind: str) -> None:
    data = bytearray(COMPRESS[kind](random.Random(1).randbytes(3_000_000)))
    middle = len(data) // 2
    data[middle : middle + 1000] = bytes(1000)
    got, error = read_until_damage(bytes(data) + b"trailing garbage")
    assert error.exit_code == 3
    assert len(got) <= 3_000_000


def test_garbage_behind_the_last_member_is_damage() -> None:
    got, _ = read_until_damage(gzip.compress(DATA) + b"garbage")
    assert got == DATA


def test_files_that_are_not_compressed_are_read_as_they_are() -> None:
    for data in (b"", b"{", b"\x1f", DATA):
        assert read(data) == data


@kinds
def test_a_bomb_is_unfolded_in_bounded_memory(kind: str) -> None:
    data = COMPRESS[kind](bytes(100 * 2**20))
    tracemalloc.start()
    try:
        largest = max(map(len, read_chunks(io.BytesIO(data), "bomb")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert largest <= CHUNK_BYTES
    assert peak < 90 * 2**20


RECORDS = [b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: https://e.com/%d\r\n\r\n" % n * 3 for n in range(4000)]


def frame_of(dictionary: bytes, magic: int = 0x184D2A5D) -> bytes:
    return magic.to_bytes(4, "little") + len(dictionary).to_bytes(4, "little") + dictionary


def dictionaries() -> dict[str, tuple[bytes, zstandard.ZstdCompressionDict]]:
    """Each form of a dictionary: its frame in the file, and the dictionary."""
    samples: list[bytes | bytearray | memoryview] = [*RECORDS]
    trained = zstandard.train_dictionary(4096, samples)
    raw = zstandard.ZstdCompressionDict(b"".join(RECORDS[:20]), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return {
        "plain": (frame_of(trained.as_bytes()), trained),
        "compressed": (frame_of(zstandard.compress(trained.as_bytes())), trained),
        "raw content": (frame_of(raw.as_bytes()), raw),
    }


FORMS = dictionaries()


def with_dictionary(form: str, records: list[bytes] = RECORDS) -> bytes:
    """A file with a dictionary, in which each record is a frame."""
    frame, dictionary = FORMS[form]
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)
    return frame + b"".join(map(compressor.compress, records))


class SmallReads(io.BytesIO):
    """A source that gives few bytes at a time, as a network does."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 7, 7))


@pytest.mark.parametrize("form", FORMS)
def test_zstd_with_a_dictionary_in_its_first_frame_is_read(form: str) -> None:
    packed, text = with_dictionary(form), b"".join(RECORDS)
    assert read(packed) == text
    assert b"".join(read_chunks(SmallReads(packed), "crawl.warc.zst")) == text
    assert read(packed + frame_of(b"an index", 0x184D2A50) + packed) == text * 2
    other = with_dictionary("plain" if form != "plain" else "raw content")
    assert read(packed + other) == text * 2, "each file's own dictionary"


@pytest.mark.parametrize("form", FORMS)
def test_zstd_with_a_dictionary_may_be_cut_or_damaged_anywhere(form: str) -> None:
    packed, text = with_dictionary(form, RECORDS[:3]), b"".join(RECORDS[:3])
    ends = set()
    for end in range(4, len(packed)):
        got, error = read_as_far(packed[:end])
        assert text.startswith(got)
        if error is None:
            ends.add(end)
    assert len(ends) == 3, "a file is whole behind the dictionary and behind each record but the last"
    for place in range(8, len(packed), 7):
        _, error = read_as_far(packed[:place] + bytes([packed[place] ^ 0x55]) + packed[place + 1 :])
        assert error is None or "damaged zstd" in str(error)


def test_a_dictionary_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MOST_DICTIONARY_BYTES", 10_000)
    bomb = zstandard.compress(bytes(50_000_000))
    for dictionary in (bytes(10_001), bomb):
        got, error = read_until_damage(frame_of(dictionary) + zstandard.compress(DATA))
        assert got == b""
        assert "its dictionary must have at most 10,000 bytes" in str(error)
    assert read(frame_of(b"") + zstandard.compress(DATA)) == DATA


def test_records_of_a_zstd_output_have_the_size_and_checksum_of_the_format() -> None:
    file = io.BytesIO()
    stream = CompressedStream(file, "out.warc.zst")
    for record in RECORDS[:3]:
        stream.write_member(record)
    stream.close()
    parameters = zstandard.get_frame_parameters(file.getvalue())
    assert (parameters.content_size, parameters.has_checksum, parameters.dict_id) == (len(RECORDS[0]), True, 0)
    assert read(file.getvalue()) == b"".join(RECORDS[:3])
