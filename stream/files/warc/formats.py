"""The formats of web archives: WARC, and WACZ and ARC, whose captures are read, and written, as WARC records."""

import re
from collections.abc import Iterator

from spotsieve.stream.files.compression import CompressedStream
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
from spotsieve.stream.files.warc.wacz import is_zip, split_wacz
from spotsieve.stream.page import Page

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
