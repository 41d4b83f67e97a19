"""Computes how much memory the Parquet pages of a row group need, from their headers, before pyarrow decompresses them.

A Parquet file consists of row groups of column chunks of (Parquet) pages, and each page is compressed separately.
pyarrow allocates the size in a page's header, up to 2 GiB; every row may refer to one long dictionary value; and a page
of ten bytes may repeat a value without limit. So the headers are read first (parquet-format, PageHeader, in Thrift's
compact protocol).

    header  = 1: page type (0 data, 1 index, 2 dictionary, 3 data of version 2), 2: bytes decompressed,
              3: bytes as stored, 5 or 8: header of a data page
    data    = 1: number of values, ...
"""

from dataclasses import dataclass
from typing import Any, Protocol

from spotsieve.stream.base.errors import InputError

MOST_UNFOLDED_BYTES = 512 * 2**20
"""The limit of the sum, over the columns of a row group, of their largest pages: reading holds these in memory."""
MOST_FREE_VALUES = 2**24
"""The limit of values of a list column in a row group that take no bytes in their pages (run-length repetitions)."""
_HEADER_BYTES = 2**16
"""A header may contain the least and the greatest value of its page. Writers truncate these to some dozen bytes."""
_FIRST_HEADER_BYTES = 128
_DICTIONARY_PAGE = 2
_DATA_HEADERS = (5, 8)
_FREE_VALUES_A_BYTE = 64
"""Values of a page that one byte may stand for. A value that is not repeated takes at least one bit, so 8 values a byte
are normal; the rest is room for repeated levels."""
_INTS = (4, 5, 6)
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


class Seekable(Protocol):
    """A file with random access."""

    def seek(self, offset: int, whence: int = 0, /) -> object: ...
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class LargestPages:
    """The memory that a row group needs, in bytes.

    together: the sum of the largest pages of its columns
    page: the largest page
    """

    together: int
    page: int


def largest_of(file: Seekable, group: Any, repeated: frozenset[str], name: str) -> LargestPages:
    """The largest pages of a row group (pyarrow's RowGroupMetaData).

    repeated: the paths of the columns in lists and maps
    name: the name of the file, for errors
    Raises InputError for a damaged header, and for pages above the limits.
    """
    together, page = 0, 0
    for number in range(group.num_columns):
        chunk = group.column(number)
        data, dictionary, free = _largest_pages(file, chunk, name)
        together += data + dictionary
        page = max(page, data, dictionary)
        if free > MOST_FREE_VALUES and chunk.path_in_schema in repeated:
            raise _too_large(name, f"column {chunk.path_in_schema} repeats a value {free:,} times in lists")
    if together > MOST_UNFOLDED_BYTES:
        detail = f"its pages decompress to {together:,} bytes (limit {MOST_UNFOLDED_BYTES:,})"
        raise _too_large(name, detail)
    return LargestPages(together, page)


def _too_large(name: str, detail: str) -> InputError:
    rule = f"has a row group that cannot be read in bounded memory: {detail}"
    return InputError(
        name, rule, None, "write it with smaller pages (pyarrow: data_page_size, dictionary_pagesize_limit)"
    )


def _largest_pages(file: Seekable, chunk: Any, name: str) -> tuple[int, int, int]:
    """The largest data page and the dictionary page of a column chunk in decompressed bytes, and the free values."""
    starts = [chunk.data_page_offset, chunk.dictionary_page_offset if chunk.has_dictionary_page else None]
    place = min(start for start in starts if start)
    end = place + chunk.total_compressed_size
    data, dictionary, free = 0, 0, 0
    while place < end:
        header = _read_header(file, place, name, chunk.path_in_schema)
        if header.kind == _DICTIONARY_PAGE:
            dictionary = max(dictionary, header.unfolded)
        else:
            data = max(data, header.unfolded)
            free += max(0, header.values - _FREE_VALUES_A_BYTE * header.unfolded)
        place += header.size + header.stored
    return data, dictionary, free


@dataclass(frozen=True, slots=True)
class _Header:
    """The header of a page.

    kind: the page type
    unfolded, stored: bytes of the page, decompressed and as stored
    values: the number of values
    size: bytes of the header itself
    """

    kind: int
    unfolded: int
    stored: int
    values: int
    size: int


def _read_header(file: Seekable, place: int, name: str, column: str) -> _Header:
    for most in (_FIRST_HEADER_BYTES, _HEADER_BYTES):
        file.seek(place)
        compact = _Compact(file.read(most))
        try:
            fields = compact.struct()
            values = max(
                (compact.structs[field].get(1, 0) for field in _DATA_HEADERS if field in compact.structs), default=0
            )
            header = _Header(fields[1], fields[2], fields[3], values, compact.place)
        except IndexError:
            continue
        except (KeyError, ValueError, RecursionError):
            break
        if header.unfolded >= 0 and header.stored >= 0:
            return header
        break
    rule = f"is damaged Parquet: column {column} has a damaged page header at byte {place:,}"
    raise InputError(name, rule, None, "get the file again, or write it again")


class _Compact:
    """Reads the integers of one struct of Thrift's compact protocol, and skips all other values.

    place: the position in the data
    structs: the integers of the nested structs, by the field number of the struct
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0
        self.structs = dict[int, dict[int, int]]()

    def struct(self) -> dict[int, int]:
        """The integers of a struct by their field numbers. Raises IndexError if the data ends in the struct."""
        fields, number = dict[int, int](), 0
        while True:
            head = self._byte()
            if head == _STOP:
                return fields
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            if head & 15 in _INTS:
                fields[number] = self._zigzag()
            elif head & 15 == _STRUCT:
                self.structs[number] = self.struct()
            else:
                self._skip(head & 15, in_list=False)

    def _skip(self, kind: int, *, in_list: bool) -> None:
        if kind in (_TRUE, _FALSE):
            self.place += in_list  # A boolean field has its value in its header byte.
        elif kind == _BYTE:
            self.place += 1
        elif kind in _INTS:
            self._varint()
        elif kind == _DOUBLE:
            self.place += 8
        elif kind == _BINARY:
            size = self._varint()
            self.place += size
        elif kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            for _ in range(count):
                self._skip(head & 15, in_list=True)
                self._check_place()
        elif kind == _STRUCT:
            self.struct()
        else:  # A page header has no map.
            raise ValueError(kind)
        self._check_place()

    def _check_place(self) -> None:
        if self.place > len(self._data):
            raise IndexError(self.place)

    def _byte(self) -> int:
        byte = self._data[self.place]
        self.place += 1
        return byte

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError(value)

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
