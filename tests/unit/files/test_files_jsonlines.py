"""JSONL is divided into lines, whatever the chunks."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotsieve.stream.base.errors import InputError, RejectReason
from spotsieve.stream.files.file_format import SHOWN_BYTES, Record
from spotsieve.stream.files.jsonlines import split_lines


def lines(*chunks: bytes, most: int = 100) -> list[Record]:
    return list(split_lines(iter(chunks), most))


def test_blank_lines_are_no_records_and_the_last_line_needs_no_line_feed() -> None:
    assert lines(b"a\n\n  \r\nb\r\n", b"c") == [Record(0, b"a"), Record(1, b"b\r"), Record(2, b"c")]


def test_a_byte_order_mark_at_the_beginning_is_left_out() -> None:
    assert lines(b"\xef\xbb", b'\xbf{"a": 1}\n{}') == [Record(0, b'{"a": 1}'), Record(1, b"{}")]


def test_a_line_that_is_too_long_is_a_fault_and_the_next_ones_are_read() -> None:
    records = lines(b"x" * 60, b"x" * 60, b"x" * 5000, b"\nshort\n" + b"y" * 101 + b"\n" + b"z" * 100)
    assert [record.number for record in records] == [0, 1, 2, 3]
    assert [record.fault and record.fault[0] for record in records] == [
        RejectReason.TOO_LARGE,
        None,
        RejectReason.TOO_LARGE,
        None,
    ]
    assert records[0].fault
    assert records[0].fault[1] == "must have at most 100 bytes, has 5120"
    assert len(records[0].raw) <= SHOWN_BYTES


def test_a_line_that_never_ends_is_a_fault_too() -> None:
    (record,) = lines(*[b"x" * 50] * 10)
    assert record.fault
    assert record.fault[1].endswith("has 500")


def test_a_line_cut_by_damage_is_rejected_and_then_the_damage_is_raised() -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"a": 1}\n{"b": '
        raise InputError("f", "must be whole gzip")

    records = split_lines(chunks(), 100)
    assert next(records) == Record(0, b'{"a": 1}')
    cut = next(records)
    assert cut.fault
    assert cut.fault[0] is RejectReason.TRUNCATED
    with pytest.raises(InputError, match="whole gzip"):
        next(records)


BLANKS = st.lists(st.sampled_from(b"\n\n\n\r \t\x0b\x0cx"), max_size=60).map(bytes)
CONTENTS = st.one_of(st.binary(max_size=300).map(lambda data: data.replace(b"\xef", b"")), BLANKS)


@given(CONTENTS, st.lists(st.integers(0, 300), max_size=6))
def test_lines_do_not_depend_on_the_chunks(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(data)]
    chunks = [data[a:b] for a, b in itertools.pairwise(places)]
    expected = [line for line in data.split(b"\n") if line.strip()]
    records = list(split_lines(iter(chunks), 1000))
    assert [record.raw for record in records] == expected
    assert [record.span and data[slice(*record.span)] for record in records] == expected


def test_a_record_says_where_its_bytes_stand() -> None:
    data = b"\xef\xbb\xbfone\n\n" + b"x" * 101 + b"\r\ntwo\r\n three"
    records = lines(data[:2], data[2:9], data[9:])
    assert [record.span and data[slice(*record.span)] for record in records] == [b"one", None, b"two\r", b" three"]
