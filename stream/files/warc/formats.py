"""Defines the formats of web archives: WARC, and WACZ and ARC, whose captures are read and written as WARC records.

A WACZ is webrecorder's zip archive of a crawl. Its WARC files are read one after the other, in bounded memory.

    wacz = zip of archive/*.warc, plain or compressed (.gz, .xz, .zst, .bz2), pages/, indexes/, datapackage.json
"""

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.files.compression import CompressedStream, GzipMembers, read_chunks
from spotsieve.stream.files.file_format import (
    FileContent,
    FileFormat,
    FileRecord,
    FormatWriter,
    InputFormat,
    Intake,
    Record,
    check_installed,
)
from spotsieve.stream.files.jsonlines import BYTE_ORDER_MARK
from spotsieve.stream.files.warc.records import capture_of, closed, is_about_page, read_record_fields, split_warc

MOST_DIRECTORY_BYTES = 2**26
"""The limit of the zip's list of files, which is held in memory: enough for half a million files."""
_MAGIC = b"PK\x03\x04"
_FOLDER = "archive/"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compressions that zipfile reads in bounded pieces. WACZ requires that WARC files are stored uncompressed."""
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError)
"""The exceptions of zipfile for a damaged zip. NotImplementedError is a RuntimeError."""
_END_BYTES = 22
_END_MAGIC = b"PK\x05\x06"
_ZIP64_MAGIC = b"PK\x06\x06"
_LONGEST_COMMENT = 2**16
_ENCRYPTED = 1
_WARC_NAME = re.compile(r"\.warc(\.(gz|xz|zst|bz2))?$")


def split_wacz(file: BinaryIO, name: str, max_record_bytes: int) -> Iterator[Record]:
    """The records of all WARC files in the archive, numbered consecutively across the files.

    name: the name of the archive, for errors
    Raises InputError for a zip without WARC files, and for damage after the records before it.
    """
    try:
        _check_directory(file, name)
        with zipfile.ZipFile(file) as archive:
            members = [member for member in archive.infolist() if _is_warc(member)]
            if not members:
                raise InputError(
                    name,
                    f"is a zip without WARC files in {_FOLDER}, so it is not a WACZ",
                    None,
                    "unpack it, and filter its files",
                )
            number = 0
            for member in members:
                _check_member(member, name)
                with archive.open(member) as source:
                    gzip_members = GzipMembers()
                    chunks = read_chunks(source, f"{name}/{member.filename}", gzip_members)
                    for record in split_warc(chunks, max_record_bytes, number, gzip_members):
                        yield record
                        number = record.number + 1
    except _ZIP_ERRORS as error:
        raise InputError(name, f"is a damaged zip: {error}", None, "get the file again, or unpack it") from None


def _is_warc(member: zipfile.ZipInfo) -> bool:
    return member.filename.startswith(_FOLDER) and _WARC_NAME.search(member.filename.lower()) is not None


def _check_member(member: zipfile.ZipInfo, name: str) -> None:
    if member.flag_bits & _ENCRYPTED or member.compress_type not in _METHODS:
        rule = "must contain WARC files that are stored or deflated, without a password"
        raise InputError(name, rule, member.filename, "unpack it, and filter its files")


def _check_directory(file: BinaryIO, name: str) -> None:
    """Check the size of the list of files, from the end record, before zipfile reads the whole list."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END_BYTES - _LONGEST_COMMENT))
    tail = file.read(_END_BYTES + _LONGEST_COMMENT)
    end = tail.rfind(_END_MAGIC)
    if end < 0:
        raise zipfile.BadZipFile("it has no end record, so it is truncated")
    directory = int.from_bytes(tail[end + 12 : end + 16], "little")
    # A zip64 has another end record before this one. zipfile uses it without regard to this one.
    wide = tail.rfind(_ZIP64_MAGIC, 0, end)
    if wide >= 0:
        directory = int.from_bytes(tail[wide + 40 : wide + 48], "little")
    if directory > MOST_DIRECTORY_BYTES:
        rule = f"must have a list of files of at most {MOST_DIRECTORY_BYTES:,} bytes"
        raise InputError(name, rule, directory, "unpack it, and filter its files")
    file.seek(0)


class Warc(FileFormat):
    """The WARC format. Each record may be compressed separately."""

    name = "WARC"
    content = "WARC records"
    endings = (".warc",)

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the first visible characters begin a WARC header."""
        return beginning.removeprefix(BYTE_ORDER_MARK).lstrip()[:5].upper() == b"WARC/"

    def recognizes_name(self, name: str) -> bool:
        """Whether the name has the suffix of a WARC file. The first record may be damaged, or the file empty."""
        return _WARC_NAME.search(name) is not None

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The records of the file, each with its gzip member if it is one whole member."""
        records = split_warc(content.chunks, content.max_record_bytes, members=content.members)
        return map(FileRecord, records)

    def decode(self, file_record: FileRecord, intake: Intake) -> Page | None:
        """The page of a response, resource or conversion; None for any other record."""
        capture = capture_of(file_record.record.raw, intake.max_page_bytes, intake.written_ms, intake.companion_uris)
        return None if capture is None else intake.page_of_capture(file_record.record, capture)

    def is_about_page(self, record: Record, intake: Intake) -> bool:
        """Whether the URI of a record matches input.companion_uris."""
        return is_about_page(read_record_fields(record.raw), intake.companion_uris)

    def writer(self, stream: CompressedStream) -> FormatWriter:
        """A writer that closes every record with two line ends and compresses it separately, as WARC readers expect."""
        return _WarcWriter(stream)


class _WarcWriter(FormatWriter):
    def __init__(self, stream: CompressedStream) -> None:
        self._stream = stream

    def write(self, record: Record) -> None:
        """Write a record. A record that is one gzip member is copied to a .gz; any other gets its missing line ends."""
        if self._stream.keeps_gzip_members and record.packed is not None:
            self._stream.write_compressed(record.packed)
        else:
            self._stream.write_member(closed(record.raw))


WARC = Warc()


class Wacz(InputFormat):
    """The WACZ format: a zip archive with WARC files."""

    name = "WACZ"
    endings = (".wacz", ".zip")
    written_as = WARC

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the file is a zip archive."""
        return beginning.startswith(_MAGIC)

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The records of the WARC files in the archive."""
        file = content.open_seeking("a zip archive")
        return map(FileRecord, split_wacz(file, content.name, content.max_record_bytes))


class Arc(InputFormat):
    """The ARC format, the predecessor of WARC. Its captures become WARC records."""

    name = "ARC"
    endings = (".arc",)
    written_as = WARC

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the file begins with ARC's version block."""
        return beginning.startswith(b"filedesc://")

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The captures of the file. Raises InputError if warcio is not installed."""
        check_installed(content.name, "ARC, the predecessor of WARC", "warcio", "archives")
        from spotsieve.stream.files.warc.arc import split_arc

        return map(FileRecord, split_arc(content.chunks, content.name, content.max_record_bytes))


WACZ = Wacz()
ARC = Arc()
