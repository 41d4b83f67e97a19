"""Reads compressed files in bounded memory. The first bytes tell the kind; a cut file is read to its last good byte."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import zstandard

from spotsieve.stream.errors import InputError

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

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
}
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


def compression_of(head: bytes) -> str | None:
    """gzip, xz, zstd or bzip2, by a file's first bytes; None for any other file."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    if len(head) >= 4 and _ZSTD_SKIPPABLE[0] <= int.from_bytes(head[:4], "little") <= _ZSTD_SKIPPABLE[1]:
        return "zstd"
    return None


def read_chunks(source: Source, name: str) -> Iterator[bytes]:
    """The decompressed bytes of a file, in chunks of bounded size.

    A file may hold several members, streams or frames; zeros after the last one are padding. A cut or damaged file
    gives everything before the fault and then raises InputError. name: of the file, for that error
    """
    head = _read_head(source)
    kind = compression_of(head)
    if kind is None:
        while head:
            yield head
            head = source.read(READ_BYTES)
        return
    try:
        yield from _decompress(source, head, _DECOMPRESSORS[kind], name, kind)
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


def _decompress(source: Source, data: bytes, new: Callable[[], _Decompressor], name: str, kind: str) -> Iterator[bytes]:
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
                yield from decompressor.feed(piece)
                piece = b""
                if decompressor.finished:
                    piece = decompressor.rest
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
