"""Registers the file formats, and finds the format of an input by its first bytes, of an output by its name.

To add a format, write its class (stream/files/file_format.py) and put it into FORMATS.
"""

import re
from collections.abc import Iterable, Sequence

from spotsieve.stream.base.errors import InputError, SettingError
from spotsieve.stream.files.compression import COMPRESSORS
from spotsieve.stream.files.file_format import FileFormat, InputFormat
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.jsonlines import BYTE_ORDER_MARK, JSON_LINES
from spotsieve.stream.files.parquet.format import PARQUET
from spotsieve.stream.files.records import Record
from spotsieve.stream.files.warc.formats import ARC, WACZ, WARC
from spotsieve.stream.sign.intake import shorten

FORMATS: tuple[InputFormat, ...] = (JSON_LINES, WARC, PARQUET, WACZ, ARC)
"""All formats, in the order of the messages. Detection needs no order: no two formats recognize one file."""
WRITTEN_FORMATS = tuple(one for one in FORMATS if isinstance(one, FileFormat))
CSV = ".csv"
UNWRITTEN_ENDINGS = frozenset(
    ".7z .arrow .avro .br .cdx .cdxj .csv .db .feather .htm .html .lz4 .lzma .npy .orc .pickle .pkl .rar .sqlite .sz "
    ".tar .tgz .toml .tsv .xls .xlsx .xml .yaml .yml .z".split()
).union(*(one.endings for one in FORMATS if not isinstance(one, FileFormat)))
"""Endings of formats that are never written: whoever opened such a file by its name would find JSON lines in it."""
_TAR_MAGIC = slice(257, 262)
_CDX_LINE = re.compile(rb"[^\s{}\"]+\)\S* \d{14} ")
_FOREIGN_STARTS = {b"<": "HTML or XML", b"%": "PDF", b"PK\x03\x04": "a zip archive", b"\x00": "binary data"}
ADVICE_FOR_PAGES = "write one JSON object a line for each page, or make a WARC of the pages"
"""The next step for a file of pages in a format that is not read."""


def format_of(name: str, beginning: bytes) -> InputFormat:
    """The format of an input by its first bytes, decompressed. Raises InputError for a known format that is not read.

    The name counts only where the bytes show nothing. A file that no format recognizes is read as JSONL, so that its
    records are rejected one by one.
    """
    by_bytes = (one for one in FORMATS if one.recognizes(beginning))
    by_name = (one for one in FORMATS if one.recognizes_name(name))
    found = next(by_bytes, None) or next(by_name, JSON_LINES)
    if found == JSON_LINES:
        head = beginning.removeprefix(BYTE_ORDER_MARK).lstrip()
        foreign = foreign_format(beginning) or foreign_format(head)
        if foreign is not None:
            names = _joined([one.name for one in WRITTEN_FORMATS])
            rule = f"must be {names}, plain or as gzip, xz, zstd or bzip2, and looks like {foreign[0]}"
            raise InputError(name, rule, shorten(head[:20]), foreign[1])
    return found


def foreign_format(head: bytes) -> tuple[str, str] | None:
    """The name of a format that is not read, by a file's first bytes, and the next step; None if it may be JSONL."""
    if head[_TAR_MAGIC] == b"ustar":
        return "a tar archive", "unpack it, and filter the files in it"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or _alternates_with_nul(head):
        return "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE | spotsieve filter -"
    if head.startswith(b" CDX ") or _CDX_LINE.match(head):
        return "CDX, the index of a crawl", "filter the WARC files that it names"
    named = next((name for start, name in _FOREIGN_STARTS.items() if head.startswith(start)), None)
    return (named, ADVICE_FOR_PAGES) if named else None


def formats_named(output: str, endings: Sequence[str]) -> frozenset[FileFormat]:
    """The formats that an output's name speaks of; none if it leaves the choice open. endings: the last two, lower case

    Raises SettingError for endings that no output may have.
    """
    for ending in endings:
        if ending in UNWRITTEN_ENDINGS:
            raise SettingError(output, f"must not end in {ending}, which is not written", None, _naming_advice())
    named = frozenset(one for one in WRITTEN_FORMATS if not set(endings).isdisjoint(one.endings))
    for one in named:
        if not one.compressible and endings[-1] not in one.endings:
            _reject_compressed(output, one)
    return named


def check_named(output: str, named: frozenset[FileFormat], compressed: bool, wanted: FileFormat) -> None:
    """Check that records of a format may go into an output. Raises SettingError.

    named: the formats of its name  compressed: whether its name asks for a compression
    """
    if named and wanted not in named:
        rule = f"is named as of another format than the {wanted.content} that go into it"
        raise SettingError(output, rule, None, _advice_for(wanted))
    if compressed and not wanted.compressible:
        _reject_compressed(output, wanted)


def form_of(inputs: Sequence[Input], out: str) -> tuple[Record, FileFormat] | None:
    """A record that shows an output the form of its inputs before any work, for OutputFile.know_record; or None.

    Raises SettingError where the records of the inputs cannot stand in one output.
    """
    forms = ((one.find_form(inputs, out), one) for one in WRITTEN_FORMATS)
    return next(((record, one) for record, one in forms if record is not None), None)


def names_of_formats() -> str:
    """All formats that are read, as a list in a sentence."""
    return _joined([one.name for one in FORMATS])


def _reject_compressed(output: str, one: FileFormat) -> None:
    rule = f"must end in {one.endings[0]} alone"
    raise SettingError(output, rule, None, f"{one.name} compresses its pages itself")


def _advice_for(one: FileFormat) -> str:
    return f"end it in {one.endings[0]}{_to_compress()}" if one.compressible else f"end it in {one.endings[0]}"


def _naming_advice() -> str:
    plain = [one.endings[0] for one in WRITTEN_FORMATS if one.compressible]
    others = [one.endings[0] for one in WRITTEN_FORMATS if not one.compressible]
    return f"end it in {_joined(plain)}{_to_compress()}" + (f"; or in {_joined(others)}" if others else "")


def _to_compress() -> str:
    return f", and in {_joined(COMPRESSORS)} to compress it"


def _joined(names: Iterable[str]) -> str:
    """A list in a sentence: "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _alternates_with_nul(head: bytes) -> bool:
    pairs = head[: len(head[:64]) & ~1]
    evens, odds = pairs[::2], pairs[1::2]
    return len(pairs) >= 16 and (not any(evens) or not any(odds)) and any(pairs)
