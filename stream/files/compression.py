"""Reads and writes compressed files in bounded memory.

Reading, the first bytes show the kind, and a cut file is read to its last good byte. Writing, the ending of the name
chooses the kind.
"""

import bz2
import gzip
import lzma
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import BinaryIO, Protocol

import zstandard

from spotsieve.stream.base.errors import InputError

CHUNK_BYTES = 2**20
"""Most bytes of a decompressed chunk."""
READ_BYTES = 2**18
_PIECE_BYTES = 2**13
"""A decompressor gets no more at once. Where a member ends it copies the rest of the piece, and a file may consist of
members of 8 bytes."""

# zstandard's decompressor has no limit of output. 2 KB of zstd unfold to at most 64 MB (128 KB for a block of 4 bytes),
# so small pieces bound the memory. Pages (ratio 4 to 20) come out in pieces of 8 to 40 KB.
_ZSTD_FEED_BYTES = 2048
_XZ_MEMORY_BYTES = 512 * 2**20
_MOST_MEMBER_BYTES = 2**20
_MEMBERS_KEPT = 8
"""A reader is at most a few members ahead of the record that it hands on."""

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
}
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
_XZ_PRESET = 2  # 4 times faster than 6 on crawled pages, for a tenth more bytes
_LONGEST_MAGIC = max(map(len, _MAGIC))
_ZSTD_SKIPPABLE = (0x184D2A50, 0x184D2A5F)


class Source(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """At most size bytes; b"" at the end."""


class _Decompressor(Protocol):
    """zlib, lzma, bz2 and zstandard in one form: data is fed in, and bounded pieces come out."""

    @property
    def finished(self) -> bool: ...

    @property
    def rest(self) -> bytes: ...

    def feed(self, data: bytes) -> Iterator[bytes]: ...


class CompressedStream:
    """The bytes of an output, compressed as the ending of its name says. close() leaves the file itself open."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """name: of the output; an ending that is not in COMPRESSORS means no compression"""
        ending = PurePosixPath(name).suffix.lower()
        self.file, self.name = file, name
        self._open_compressor = COMPRESSORS.get(ending)
        self._compress_member = _MEMBER_COMPRESSORS.get(ending)
        self._compressor: _Sink | None = None
        self._is_empty = True
        self.keeps_gzip_members = ending == ".gz"

    @property
    def is_delayed(self) -> bool:
        """Whether written bytes wait in a compressor, so that flushing the file does not show them."""
        return self._compressor is not None

    def write(self, data: bytes) -> None:
        """Write the next bytes, as a part of one compressed stream."""
        self._is_empty = False
        if self._open_compressor is None:
            self.file.write(data)
            return
        if self._compressor is None:
            self._compressor = self._open_compressor(self.file)
        self._compressor.write(data)

    def write_member(self, data: bytes) -> None:
        """Write bytes that a reader may unpack by themselves: one member of gzip, or one frame of zstd.

        The other compressions have no use for members: there the bytes are a part of one stream.
        """
        if self._compress_member is None:
            self.write(data)
        else:
            self.write_compressed(self._compress_member(data))

    def write_compressed(self, packed: bytes) -> None:
        """Write a member that is compressed already."""
        self._is_empty = False
        self.file.write(packed)

    def close(self) -> None:
        """Write the end of the compressed stream. An empty output is a valid file of its kind, too."""
        if self._is_empty and self._open_compressor is not None:
            self._compressor = self._open_compressor(self.file)
        if self._compressor is not None:
            self._compressor.close()


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...
    def close(self) -> None: ...


class GzipMembers:
    """The gzip members that were unpacked last, as they stand in their file, by where their content stands unpacked.

    A record that is a member by itself is written as it came. Those without content or of more than 1 MiB are left out.
    """

    def __init__(self) -> None:
        self._packed, self._start, self._end = bytearray(), 0, 0
        self._last: deque[tuple[int, int, bytes]] = deque(maxlen=_MEMBERS_KEPT)

    def unpacked(self, size: int) -> None:
        """So many bytes of the open member were unpacked."""
        self._end += size

    def read(self, packed: bytes, ended: bool) -> None:
        """These bytes of the file belong to the open member. ended: they are its last ones"""
        if len(self._packed) <= _MOST_MEMBER_BYTES:
            self._packed += packed
        if ended:
            if self._start < self._end and len(self._packed) <= _MOST_MEMBER_BYTES:
                self._last.append((self._start, self._end, bytes(self._packed)))
            self._packed.clear()
            self._start = self._end

    def may_end(self, start: int, end: int) -> bool:
        """Whether these bytes of the unpacked file are all that was unpacked of the open member."""
        return bool(self._packed) and (self._start, self._end) == (start, end)

    def of(self, start: int, end: int) -> bytes | None:
        """The member whose content is these bytes of the unpacked file, and nothing else; None where there is none."""
        return next((packed for first, last, packed in self._last if (first, last) == (start, end)), None)


def compression_of(head: bytes) -> str | None:
    """gzip, xz, zstd or bzip2, by a file's first bytes; None for any other file."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    if len(head) >= 4 and _ZSTD_SKIPPABLE[0] <= int.from_bytes(head[:4], "little") <= _ZSTD_SKIPPABLE[1]:
        return "zstd"
    return None


def read_chunks(source: Source, name: str, members: GzipMembers | None = None) -> Iterator[bytes]:
    """The decompressed bytes of a file, in chunks of bounded size.

    A file may hold several members, streams or frames; zeros after the last one are padding. A cut or damaged file
    gives everything before the fault and then raises InputError. name: of the file, for that error
    members: learns of each member of gzip before its last bytes are given
    """
    head = _read_head(source)
    kind = compression_of(head)
    if kind is None:
        while head:
            yield head
            head = source.read(READ_BYTES)
        return
    try:
        learning = members if kind == "gzip" else None
        yield from _decompress(source, head, _DECOMPRESSORS[kind], name, kind, learning)
    except (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # The disk is at fault, not the file.
        raise _damaged(name, kind, str(error)) from None


def _read_head(source: Source) -> bytes:
    head = b""
    while len(head) < _LONGEST_MAGIC:
        more = source.read(READ_BYTES)
        if not more:
            break
        head += more
    return head


def _decompress(
    source: Source, data: bytes, new: Callable[[], _Decompressor], name: str, kind: str, members: GzipMembers | None
) -> Iterator[bytes]:
    decompressor = new()
    started = False
    while data:
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            while piece:
                # Zeros are padding only in front of a next member, which never begins with a zero.
                if not started and not (piece := piece.lstrip(b"\0")):
                    break
                started = True
                # The last bytes wait until it is known whether the member ends with them.
                last = b""
                for chunk in filter(None, decompressor.feed(piece)):
                    if last:
                        yield last
                    last = chunk
                    if members is not None:
                        members.unpacked(len(chunk))
                ended = decompressor.finished
                rest = decompressor.rest if ended else b""
                if members is not None:
                    members.read(piece[: len(piece) - len(rest)], ended)
                if last:
                    yield last
                piece = rest
                if ended:
                    decompressor, started = new(), False
        data = source.read(READ_BYTES)
    if started:
        raise _damaged(name, kind, "it ends in the middle")


def _damaged(name: str, kind: str, why: str) -> InputError:
    return InputError(
        name,
        f"must be whole {kind}: {why}",
        None,
        "what came before was judged; get the file again and filter it again, which does no harm",
    )


class _Zlib:
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def finished(self) -> bool:
        return self._inner.eof

    @property
    def rest(self) -> bytes:
        return self._inner.unused_data

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data and not self._inner.eof:
            yield self._inner.decompress(data, CHUNK_BYTES)
            data = self._inner.unconsumed_tail
        if not self._inner.eof:
            return
        yield self._inner.flush()


class _Lzma:
    def __init__(self, inner: lzma.LZMADecompressor | bz2.BZ2Decompressor) -> None:
        self._inner = inner

    @property
    def finished(self) -> bool:
        return self._inner.eof

    @property
    def rest(self) -> bytes:
        return self._inner.unused_data

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield self._inner.decompress(data, CHUNK_BYTES)
        while not self._inner.eof and not self._inner.needs_input:
            yield self._inner.decompress(b"", CHUNK_BYTES)


class _Zstd:
    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()
        self._behind = b""

    @property
    def finished(self) -> bool:
        return self._inner.eof

    @property
    def rest(self) -> bytes:
        return self._inner.unused_data + self._behind

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_FEED_BYTES):
            yield from _chunks_of(self._inner.decompress(data[start : start + _ZSTD_FEED_BYTES]))
            if self._inner.eof:
                self._behind = data[start + _ZSTD_FEED_BYTES :]
                return


def _chunks_of(data: bytes) -> Iterator[bytes]:
    """Cut up to 64 MB into pieces of CHUNK_BYTES: the code that divides a piece into lines holds all lines of it."""
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    "gzip": _Zlib,
    "xz": lambda: _Lzma(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)),
    "bzip2": lambda: _Lzma(bz2.BZ2Decompressor()),
    "zstd": _Zstd,
}
COMPRESSORS: dict[str, Callable[[BinaryIO], _Sink]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0, filename=""),
    ".xz": lambda file: lzma.LZMAFile(file, "wb", preset=_XZ_PRESET),  # noqa: SIM115 - closed with its stream
    ".zst": lambda file: zstandard.ZstdCompressor(level=_ZSTD_LEVEL).stream_writer(file, closefd=False),
    ".bz2": lambda file: bz2.BZ2File(file, "wb"),
}
"""The compressions that are written, by the ending of the output's name."""
_MEMBER_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda raw: gzip.compress(raw, _GZIP_LEVEL, mtime=0),
    ".zst": lambda raw: zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(raw),
}
