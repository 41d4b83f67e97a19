"""Reads and writes compressed files (gzip, xz, zstd, bzip2) in bounded memory.

A reader detects the compression by the first bytes, and reads a truncated file to its last good byte. A writer chooses
it by the suffix of the name.
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
"""Bytes per call of a decompressor. At the end of a member it copies the rest of its input, and a file may consist of
members of 8 bytes."""

# zstandard's decompressor cannot limit its output. 2 KB of zstd decompress to at most 64 MB (128 KB for a block of
# 4 bytes), so small inputs bound the memory. Pages (ratio 4 to 20) come out in chunks of 8 to 40 KB.
_ZSTD_FEED_BYTES = 2048
_XZ_MEMORY_BYTES = 512 * 2**20
_MOST_MEMBER_BYTES = 2**20
_MEMBERS_KEPT = 8
"""A reader is at most a few members ahead of the record that it returns."""

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
}
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
_XZ_PRESET = 2  # 4 times as fast as preset 6 on crawled pages, for 10 % more bytes
_LONGEST_MAGIC = max(map(len, _MAGIC))
_ZSTD_SKIPPABLE = (0x184D2A50, 0x184D2A5F)
_ZSTD_DICTIONARY = (0x184D2A5D).to_bytes(4, "little")
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW_BYTES = 2**27
MOST_DICTIONARY_BYTES = 2**25
"""The limit of a zstd dictionary in a file, compressed and decompressed. Readers must support 8 MiB."""


class Source(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """Read at most size bytes; b"" at the end."""


class _Decompressor(Protocol):
    """One interface for zlib, lzma, bz2 and zstandard. feed() returns bounded chunks.

    finished: whether the member has ended
    rest: the input after the end of the member
    """

    @property
    def finished(self) -> bool: ...

    @property
    def rest(self) -> bytes: ...

    def feed(self, data: bytes) -> Iterator[bytes]: ...


class CompressedStream:
    """Compresses the bytes of an output by the suffix of its name. close() leaves the file itself open."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """name: the name of the output; a suffix that is not in COMPRESSORS means no compression"""
        ending = PurePosixPath(name).suffix.lower()
        self.file, self.name = file, name
        self._open_compressor = COMPRESSORS.get(ending)
        self._compress_member = _MEMBER_COMPRESSORS.get(ending)
        self._compressor: _Sink | None = None
        self._is_empty = True
        self.keeps_gzip_members = ending == ".gz"

    @property
    def is_delayed(self) -> bool:
        """Whether the compressor buffers written bytes, so that flushing the file does not make them visible."""
        return self._compressor is not None

    def write(self, data: bytes) -> None:
        """Write the next bytes into the one compressed stream."""
        self._is_empty = False
        if self._open_compressor is None:
            self.file.write(data)
            return
        if self._compressor is None:
            self._compressor = self._open_compressor(self.file)
        self._compressor.write(data)

    def write_member(self, data: bytes) -> None:
        """Write bytes that a reader can decompress independently: one gzip member or one zstd frame.

        For other compressions the bytes go into the one compressed stream.
        """
        if self._compress_member is None:
            self.write(data)
        else:
            self.write_compressed(self._compress_member(data))

    def write_compressed(self, packed: bytes) -> None:
        """Write a member that is already compressed."""
        self._is_empty = False
        self.file.write(packed)

    def close(self) -> None:
        """Write the end of the compressed stream. An empty output becomes a valid compressed file, too."""
        if self._is_empty and self._open_compressor is not None:
            self._compressor = self._open_compressor(self.file)
        if self._compressor is not None:
            self._compressor.close()


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...
    def close(self) -> None: ...


class GzipMembers:
    """The last gzip members of a file in compressed form, by the offsets of their content in the decompressed file.

    With them a record that is one whole member is written byte-identically. Members without content and members of more
    than 1 MiB are left out.
    """

    def __init__(self) -> None:
        self._packed, self._start, self._end = bytearray(), 0, 0
        self._last: deque[tuple[int, int, bytes]] = deque(maxlen=_MEMBERS_KEPT)

    def unpacked(self, size: int) -> None:
        """Record that size more bytes of the open member were decompressed."""
        self._end += size

    def read(self, packed: bytes, ended: bool) -> None:
        """Add compressed bytes to the open member. ended: whether these are its last bytes"""
        if len(self._packed) <= _MOST_MEMBER_BYTES:
            self._packed += packed
        if ended:
            if self._start < self._end and len(self._packed) <= _MOST_MEMBER_BYTES:
                self._last.append((self._start, self._end, bytes(self._packed)))
            self._packed.clear()
            self._start = self._end

    def may_end(self, start: int, end: int) -> bool:
        """Whether the open member's content so far is exactly these bytes of the decompressed file."""
        return bool(self._packed) and (self._start, self._end) == (start, end)

    def of(self, start: int, end: int) -> bytes | None:
        """The member whose content is exactly these bytes of the decompressed file; None without such a member."""
        return next((packed for first, last, packed in self._last if (first, last) == (start, end)), None)


def compression_of(head: bytes) -> str | None:
    """The compression of a file by its first bytes: gzip, xz, zstd or bzip2; None for any other file."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    if len(head) >= 4 and _ZSTD_SKIPPABLE[0] <= int.from_bytes(head[:4], "little") <= _ZSTD_SKIPPABLE[1]:
        return "zstd"
    return None


def read_chunks(source: Source, name: str, members: GzipMembers | None = None) -> Iterator[bytes]:
    """The decompressed bytes of a file, in chunks of bounded size.

    A file may consist of several members, streams or frames; zeros after the last one are padding. For a truncated or
    damaged file, everything before the damage comes first; then InputError is raised.

    name: the name of the file, for that error
    members: gets each gzip member, before the last chunk of its content is returned
    """
    head = _read_head(source)
    kind = compression_of(head)
    if kind is None:
        while head:
            yield head
            head = source.read(READ_BYTES)
        return
    try:
        gzip_members = members if kind == "gzip" else None
        new = _ZstdFrames() if kind == "zstd" else _DECOMPRESSORS[kind]
        yield from _decompress(source, head, new, name, kind, gzip_members)
    except (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # An error of the disk, not damage to the file.
        raise damaged_file(name, kind, str(error)) from None


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
                # Zeros between members are padding: no member begins with a zero.
                if not started and not (piece := piece.lstrip(b"\0")):
                    break
                started = True
                # Hold the last chunk back until the member's end is known, so that `members` has it by then.
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
        raise damaged_file(name, kind, "the file ends in the middle")


def damaged_file(name: str, kind: str, reason: str) -> InputError:
    """The InputError for a file whose records before the damage were read. kind: its compression or format"""
    return InputError(
        name,
        f"is damaged {kind}: {reason}",
        None,
        "the records before the damage were read; get the file again, and repeat the command",
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


class _ZstdFrames:
    """Makes the decompressors of a file's zstd frames.

    A .warc.zst file may begin with a dictionary for all its frames (IIPC, "Zstandard Compression for WARC Files"): a
    skippable frame with a magic number of its own. The dictionary may itself be a zstd frame. The dictionary of a file
    that was appended to another one replaces the first.
    """

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)

    def __call__(self) -> "_Zstd":
        return _Zstd(self)

    def open_frame(self) -> "zstandard.ZstdDecompressionObj":
        """A decompressor of the next frame."""
        return self._decompressor.decompressobj()

    def use_dictionary(self, stored: bytes) -> None:
        """Decompress the next frames with a dictionary. Raises ZstdError for a damaged dictionary."""
        if stored.startswith(_ZSTD_FRAME):
            plain = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
            stored = plain.stream_reader(stored).read(MOST_DICTIONARY_BYTES + 1)
            if len(stored) > MOST_DICTIONARY_BYTES:
                raise zstandard.ZstdError(_too_large_dictionary(len(stored)))
        if stored:
            dictionary = zstandard.ZstdCompressionDict(stored)
            self._decompressor = zstandard.ZstdDecompressor(dictionary, max_window_size=_ZSTD_WINDOW_BYTES)
            self._decompressor.decompressobj().decompress(
                _EMPTY_ZSTD_FRAME
            )  # Raises an error for a damaged dictionary.


_EMPTY_ZSTD_FRAME = zstandard.ZstdCompressor().compress(b"")


def _too_large_dictionary(size: int) -> str:
    return f"its dictionary must have at most {MOST_DICTIONARY_BYTES:,} bytes, has {size:,} or more"


class _Zstd:
    """The decompressor of one frame, or of a dictionary, which has no content."""

    def __init__(self, frames: _ZstdFrames) -> None:
        self._frames = frames
        self._inner: zstandard.ZstdDecompressionObj | None = None
        self._head = bytearray()
        self._dictionary_size: int | None = None
        self._unread = b""
        self.finished = False

    @property
    def rest(self) -> bytes:
        return self._unread

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            data = self._take_dictionary(data)
        for start in range(0, len(data), _ZSTD_FEED_BYTES):
            if self._inner is None:
                self._inner = self._frames.open_frame()
            yield from _chunks_of(self._inner.decompress(data[start : start + _ZSTD_FEED_BYTES]))
            if self._inner.eof:
                self._unread = self._inner.unused_data + data[start + _ZSTD_FEED_BYTES :]
                self.finished = True
                return

    def _take_dictionary(self, data: bytes) -> bytes:
        """Collect the frame of a dictionary. Returns the bytes of any other frame."""
        self._head += data
        if not self._head.startswith(_ZSTD_DICTIONARY[: len(self._head)]):
            return bytes(self._head)
        if self._dictionary_size is None and len(self._head) >= 8:
            self._dictionary_size = int.from_bytes(self._head[4:8], "little")
            if self._dictionary_size > MOST_DICTIONARY_BYTES:
                raise zstandard.ZstdError(_too_large_dictionary(self._dictionary_size))
        if self._dictionary_size is not None and len(self._head) >= 8 + self._dictionary_size:
            end = 8 + self._dictionary_size
            self._frames.use_dictionary(bytes(self._head[8:end]))
            self._unread, self.finished = bytes(self._head[end:]), True
        return b""


def _chunks_of(data: bytes) -> Iterator[bytes]:
    """Cut up to 64 MB into chunks of CHUNK_BYTES. A chunk is split into lines as a whole, so its size bounds memory."""
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    "gzip": _Zlib,
    "xz": lambda: _Lzma(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)),
    "bzip2": lambda: _Lzma(bz2.BZ2Decompressor()),
}
COMPRESSORS: dict[str, Callable[[BinaryIO], _Sink]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0, filename=""),
    ".xz": lambda file: lzma.LZMAFile(file, "wb", preset=_XZ_PRESET),  # noqa: SIM115 - closed with its stream
    ".zst": lambda file: zstandard.ZstdCompressor(level=_ZSTD_LEVEL).stream_writer(file, closefd=False),
    ".bz2": lambda file: bz2.BZ2File(file, "wb"),
}
"""The compressions of outputs by the suffix of the output's name."""
_MEMBER_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda raw: gzip.compress(raw, _GZIP_LEVEL, mtime=0),
    ".zst": lambda raw: zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(raw),
}
