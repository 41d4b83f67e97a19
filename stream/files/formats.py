"""Registers the file formats, and finds the format of an input by its first bytes and of an output by its name.

To add a format, write its class (stream/files/file_format.py) and add it to FORMATS.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from spotsieve.stream.base.errors import InputError, SettingError
from spotsieve.stream.files.compression import COMPRESSORS
from spotsieve.stream.files.file_format import FileFormat, InputFormat, Record
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.jsonlines import BYTE_ORDER_MARK, JSON_LINES
from spotsieve.stream.files.parquet.format import PARQUET
from spotsieve.stream.files.saved_pages import MHTML, SINGLE_FILE
from spotsieve.stream.files.warc.formats import ARC, WACZ, WARC
from spotsieve.stream.sign.intake import shorten

FORMATS: tuple[InputFormat, ...] = (JSON_LINES, WARC, PARQUET, WACZ, ARC, MHTML, SINGLE_FILE)
"""All formats, in their order in messages. Detection does not depend on the order: formats recognize disjoint files."""
WRITTEN_FORMATS = tuple(one for one in FORMATS if isinstance(one, FileFormat))
CSV = ".csv"
UNWRITTEN_ENDINGS = frozenset(
    ".7z .arrow .avro .br .cdx .cdxj .csv .db .feather .lz4 .lzma .npy .orc .pickle .pkl .rar .sqlite .sz "
    ".tar .tgz .toml .tsv .xls .xlsx .xml .yaml .yml .z".split()
).union(*(one.endings for one in FORMATS if not isinstance(one, FileFormat)))
"""Suffixes of formats that are never written. An output of such a name would contain JSON lines and mislead readers."""
_TAR_MAGIC = slice(257, 262)
_CDX_LINE = re.compile(rb"[^\s{}\"]+\)\S* \d{14} ")
_FOREIGN_STARTS = {b"<": "HTML or XML", b"%": "PDF", b"PK\x03\x04": "a zip archive", b"\x00": "binary data"}
ADVICE_FOR_PAGES = "write each page as a JSON object on its own line, or as a WARC record"
"""The next step for a file of pages in a format that is not supported."""


def format_of(name: str, beginning: bytes) -> InputFormat:
    """The format of an input by its first bytes, decompressed. Raises InputError for a known unsupported format.

    The name decides only if no format recognizes the bytes. A file that no format recognizes is read as JSONL, so that
    its records are rejected one by one.
    """
    by_bytes = (format_ for format_ in FORMATS if format_.recognizes(beginning))
    by_name = (format_ for format_ in FORMATS if format_.recognizes_name(name))
    found = next(by_bytes, None) or next(by_name, JSON_LINES)
    if found == JSON_LINES:
        head = beginning.removeprefix(BYTE_ORDER_MARK).lstrip()
        foreign = foreign_format(beginning) or foreign_format(head)
        if foreign is not None:
            names = _joined([one.name for one in WRITTEN_FORMATS])
            rule = f"must be {names}, plain or compressed (gzip, xz, zstd, bzip2), but looks like {foreign[0]}"
            raise InputError(name, rule, shorten(head[:20]), foreign[1])
    return found


def foreign_format(head: bytes) -> tuple[str, str] | None:
    """The name of an unsupported format by a file's first bytes, and the next step; None if the file may be JSONL."""
    if head[_TAR_MAGIC] == b"ustar":
        return "a tar archive", "unpack it, and filter its files"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or _alternates_with_nul(head):
        return "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE | spotsieve filter -"
    if head.startswith(b" CDX ") or _CDX_LINE.match(head):
        return "CDX, the index of a crawl", "filter the WARC files that the index names"
    named = next((name for start, name in _FOREIGN_STARTS.items() if head.startswith(start)), None)
    return (named, ADVICE_FOR_PAGES) if named else None


def endings_of(name: str) -> list[str]:
    """The suffix of a file's name that shows its format, and a suffix of compression behind it, in lower case."""
    endings = [ending.lower() for ending in PurePosixPath(name).suffixes]
    return endings[-2:] if COMPRESSORS.keys() & endings[-1:] else endings[-1:]


def formats_named(output: str, endings: Sequence[str]) -> frozenset[FileFormat]:
    """The formats that the name of an output stands for; empty if it stands for none.

    endings: its suffixes, of endings_of()
    Raises SettingError for a suffix of a format that is not written.
    """
    for ending in endings:
        if ending in UNWRITTEN_ENDINGS:
            rule = f"must not end in {ending}, because this format is not written"
            raise SettingError(output, rule, None, _naming_advice())
    named = frozenset(one for one in WRITTEN_FORMATS if not set(endings).isdisjoint(one.endings))
    for one in named:
        if not one.compressible and endings[-1] not in one.endings:
            _reject_compressed(output, one)
    return named


def is_csv(name: str) -> bool:
    """Whether the last suffix of a name, without one of compression, is that of CSV."""
    return CSV in endings_of(name)


def formats_by_name(name: str) -> set[FileFormat]:
    """The formats in which records of a file of this name are written; empty if its name shows none."""
    endings = endings_of(name)
    return {one.written_as for one in FORMATS if not set(endings).isdisjoint(one.endings)}


def check_named(output: str, named: frozenset[FileFormat], compressed: bool, wanted: FileFormat) -> None:
    """Check that records of a format may go into an output. Raises SettingError.

    named: the formats that its name stands for
    compressed: whether its name has a suffix of compression
    wanted: the format of the records
    """
    if named and wanted not in named:
        rule = f"has a suffix of another format, but its content is {wanted.content}"
        raise SettingError(output, rule, None, _advice_for(wanted))
    if compressed and not wanted.compressible:
        _reject_compressed(output, wanted)


def form_of(inputs: Sequence[Input], out: str) -> tuple[Record, FileFormat] | None:
    """A record with the layout of the inputs, and its format, for OutputFile.know_record; None if no format needs one.

    It is found before any work. out: the name of the output
    Raises SettingError if records of the inputs cannot be part of one output.
    """
    forms = ((format_.find_form(inputs, out), format_) for format_ in WRITTEN_FORMATS)
    return next(((record, format_) for record, format_ in forms if record is not None), None)


def names_of_formats() -> str:
    """The names of all input formats, as a list in a sentence."""
    return _joined([one.name for one in FORMATS])


def _reject_compressed(output: str, format_: FileFormat) -> None:
    rule = f"must end in {format_.endings[0]} without a suffix of compression"
    raise SettingError(output, rule, None, f"{format_.name} has its own compression")


def _advice_for(format_: FileFormat) -> str:
    return f"let it end in {format_.endings[0]}" + (_to_compress() if format_.compressible else "")


def _naming_advice() -> str:
    plain = [format_.endings[0] for format_ in WRITTEN_FORMATS if format_.compressible]
    others = [format_.endings[0] for format_ in WRITTEN_FORMATS if not format_.compressible]
    return f"let it end in {_joined(plain)}{_to_compress()}" + (f"; or in {_joined(others)}" if others else "")


def _to_compress() -> str:
    return f", followed by {_joined(COMPRESSORS)} to compress it"


def _joined(names: Iterable[str]) -> str:
    """A list in a sentence, such as "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _alternates_with_nul(head: bytes) -> bool:
    """Whether every second byte is NUL, as in UTF-16 text of Latin characters."""
    pairs = head[: len(head[:64]) & ~1]
    evens, odds = pairs[::2], pairs[1::2]
    return len(pairs) >= 16 and (not any(evens) or not any(odds)) and any(pairs)
