"""Reads the WARC files in a WACZ (webrecorder's zip of a crawl), one after the other, in bounded memory.

wacz = zip of: archive/*.warc or *.warc.gz, pages/, indexes/, datapackage.json
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from spotsieve.stream.errors import InputError
from spotsieve.stream.files.compression import GzipMembers, read_chunks
from spotsieve.stream.files.records import Record
from spotsieve.stream.files.warc.records import split_warc

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
