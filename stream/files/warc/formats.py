"""The formats of web archives: WARC, and WACZ and ARC, whose captures are read, and written, as WARC records.

Reads the WARC files in a WACZ (webrecorder's zip of a crawl), one after the other, in bounded memory.

wacz = zip of: archive/*.warc or *.warc.gz, pages/, indexes/, datapackage.json
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
    check_installed,
)
from spotsieve.stream.files.jsonlines import BYTE_ORDER_MARK
from spotsieve.stream.files.records import Record
from spotsieve.stream.files.warc.records import capture_of, closed, split_warc

MOST_DIRECTORY_BYTES = 2**26
"""Of the zip's list of files, which is held as a whole: room for half a million."""
_MAGIC = b"PK\x03\x04"
_FOLDER = "archive/"
_ENDINGS = (".warc", ".warc.gz", ".warc.zst")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""zipfile unfolds these in bounded pieces. WACZ says that WARC files are stored."""
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError)
"""What zipfile raises for bytes that are no zip. NotImplementedError is a RuntimeError."""
_END_BYTES = 22
_END_MAGIC = b"PK\x05\x06"
_ZIP64_MAGIC = b"PK\x06\x06"
_LONGEST_COMMENT = 2**16
_ENCRYPTED = 1


def is_zip(head: bytes) -> bool:
    """Whether a file of this beginning is a zip archive."""
    return head.startswith(_MAGIC)


def split_wacz(file: BinaryIO, name: str, max_record_bytes: int) -> Iterator[Record]:
    """The records of all WARC files in the archive, counted on from one to the next.

    Raises InputError for a zip without WARC files, or a damaged one, after the records before the damage.
    """
    try:
        _check_directory(file, name)
        with zipfile.ZipFile(file) as archive:
            members = [member for member in archive.infolist() if _is_warc(member)]
            if not members:
                raise InputError(
                    name,
                    f"must be a WACZ, a zip with WARC files in {_FOLDER}, and has none there",
                    None,
                    "unpack it, and filter the files in it",
                )
            number = 0
            for member in members:
                _check_member(member, name)
                with archive.open(member) as source:
                    of_gzip = GzipMembers()
                    chunks = read_chunks(source, f"{name}/{member.filename}", of_gzip)
                    for record in split_warc(chunks, max_record_bytes, number, of_gzip):
                        yield record
                        number = record.number + 1
    except _ZIP_ERRORS as error:
        raise InputError(name, f"must be a whole zip: {error}", None, "get the file again, or unpack it") from None


def _is_warc(member: zipfile.ZipInfo) -> bool:
    return member.filename.startswith(_FOLDER) and member.filename.lower().endswith(_ENDINGS)


def _check_member(member: zipfile.ZipInfo, name: str) -> None:
    if member.flag_bits & _ENCRYPTED or member.compress_type not in _METHODS:
        rule = "must hold WARC files that are stored or deflated, without a password"
        raise InputError(name, rule, member.filename, "unpack it, and filter the files in it")


def _check_directory(file: BinaryIO, name: str) -> None:
    """Check the size of the list of files before zipfile reads all of it. The end of the zip tells it."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END_BYTES - _LONGEST_COMMENT))
    tail = file.read(_END_BYTES + _LONGEST_COMMENT)
    end = tail.rfind(_END_MAGIC)
    if end < 0:
        raise zipfile.BadZipFile("it has no end record, so it is cut")
    directory = int.from_bytes(tail[end + 12 : end + 16], "little")
    # A zip64 has a record of its own before this one. zipfile believes it whatever stands here.
    wide = tail.rfind(_ZIP64_MAGIC, 0, end)
    if wide >= 0:
        directory = int.from_bytes(tail[wide + 40 : wide + 48], "little")
    if directory > MOST_DIRECTORY_BYTES:
        rule = f"must have a list of files of at most {MOST_DIRECTORY_BYTES:,} bytes"
        raise InputError(name, rule, directory, "unpack it, and filter the files in it")
    file.seek(0)


_WARC_NAME = re.compile(r"\.warc(\.(gz|xz|zst|bz2))?$")


class Warc(FileFormat):
    """WARC records, each of which may be compressed by itself."""

    name = "WARC"
    content = "WARC records"
    endings = (".warc",)

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the first visible characters are those of a WARC header."""
        return beginning.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"WARC/")

    def recognizes_name(self, name: str) -> bool:
        """Whether the name is that of a WARC file: its first record may be damaged, or the file may be empty."""
        return _WARC_NAME.search(name) is not None

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The records of the file, each with the gzip member that holds it alone."""
        records = split_warc(content.chunks, content.max_record_bytes, members=content.members)
        return map(FileRecord, records)

    def decode(self, found: FileRecord, intake: Intake) -> Page | None:
        """The page of a response, resource or conversion; None for any other record."""
        capture = capture_of(found.record.raw, intake.max_page_bytes, intake.written_ms)
        if capture is None:
            return None
        return intake.page_of_capture(
            found.record,
            body=capture.body,
            url=capture.url,
            content_type=capture.content_type,
            time_ms=capture.time_ms,
            status=capture.status,
            headers=capture.headers,
        )

    def writer(self, stream: CompressedStream) -> FormatWriter:
        """Closes every record with two line ends, and compresses it by itself, as WARC readers expect."""
        return _WarcWriter(stream)


class _WarcWriter(FormatWriter):
    def __init__(self, stream: CompressedStream) -> None:
        self._stream = stream

    def write(self, record: Record) -> None:
        """A record that came as a gzip member by itself goes to a .gz as it came; any other one gets the line ends that
        it lacks, as the last record of a file may.
        """
        if self._stream.keeps_gzip_members and record.packed is not None:
            self._stream.write_compressed(record.packed)
        else:
            self._stream.write_member(closed(record.raw))


WARC = Warc()


class Wacz(InputFormat):
    """A zip archive of WARC files."""

    name = "WACZ"
    endings = (".wacz", ".zip")
    written_as = WARC

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the file is a zip archive."""
        return is_zip(beginning)

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The records of the WARC files in the archive."""
        file = content.open_seeking("a zip archive")
        return map(FileRecord, split_wacz(file, content.name, content.max_record_bytes))


class Arc(InputFormat):
    """The format before WARC. Its captures become WARC records."""

    name = "ARC"
    endings = (".arc",)
    written_as = WARC

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the file begins with ARC's version block."""
        return beginning.startswith(b"filedesc://")

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The captures of the file. Raises InputError if warcio, which divides it, is not installed."""
        check_installed(content.name, "ARC, the format before WARC", "warcio", "archives")
        from spotsieve.stream.files.warc.arc import split_arc

        return map(FileRecord, split_arc(content.chunks, content.name, content.max_record_bytes))


WACZ = Wacz()
ARC = Arc()
