"""Frames the records about a round: the log, the round, its sender and the settings, with a version and a checksum.

    kind  from      body                                                                             written by
    1     shard     candidates under its keys                                                        shard.py
    11    shard     confirmations of entries that it holds for all shards                            shard.py
    2     shard     resolutions of the pages of its hosts                                            shard.py
    3     resolver  the outcome of the round                                                         resolver.py
    4     resolver  the range of the next round                                                      resolver.py
    5     resolver  the speculation under which shards resolve their pages again                     resolver.py
    6     shard     none: its response would exceed a message, the resolver names a smaller round    -
    7     resolver  the state of a resize                                                            resolver.py
    8     anybody   a request for another number of shards                                           resolver.py
    9     shard     progress of a new shard that fills itself                                        resolver.py
    10    both      a shard's poison pages; from the resolver: the round continues without them      resolver.py

A body consists of packed columns (ColumnWriter). The length of a column is stored before it, or follows from earlier
columns. state/FORMATS.md has the grammar of the frame, of the columns and of every body.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.state.format.meta import MAX_ENTRIES, MAX_OFFSET, NO_LOG, LogIdentity
from spotsieve.state.identity import OtherLogError
from spotsieve.state.index import NOBODY
from spotsieve.stream.base.errors import DamagedRecord, SettingsMismatch, StateError
from spotsieve.stream.base.settings.runtime import MOST_ROUND_PAGES
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.sharding.rounds import LogPlace, Round
from spotsieve.stream.sharding.shares import MOST_SHARDS, Share

_COUNT = struct.Struct("<I")
Word = TypeVar("Word", np.int64, np.uint64)


class ColumnWriter:
    """Writes columns, one after the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def count(self, number: int) -> None:
        """Write the number of rows that follow."""
        self._parts.append(_COUNT.pack(number))

    def numbers(self, column: NDArray[Any]) -> None:
        """Write non-negative numbers: int[n] or uint[n]."""
        words = np.ascontiguousarray(column, "<u8")
        width = (int(words.max(initial=0)).bit_length() + 7) // 8
        self._parts += [bytes([width]), words.view(np.uint8).reshape(-1, 8)[:, :width].tobytes()]

    def words(self, column: NDArray[np.uint64]) -> None:
        """Write words with values of the whole range: uint64[n]."""
        self._parts.append(np.ascontiguousarray(column, "<u8").tobytes())

    def bits(self, column: NDArray[np.bool_]) -> None:
        """Write bool[n]."""
        self._parts.append(np.packbits(column).tobytes())

    def reals(self, column: NDArray[np.float64]) -> None:
        """Write float64[n]."""
        self._parts.append(np.ascontiguousarray(column, "<f8").tobytes())

    def texts(self, column: Sequence[str]) -> None:
        """Write texts; lone surrogates are kept."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in column]
        self.numbers(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        self._parts += encoded

    def body(self) -> bytes:
        """All bytes written."""
        return b"".join(self._parts)


class PackedTexts(Sequence[str]):
    """Texts that are decoded one at a time, on access."""

    def __init__(self, raw: bytes, bounds: list[int]) -> None:
        self._raw, self._bounds = raw, bounds

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return self.take(np.arange(len(self))[row])
        return self._raw[self._bounds[row] : self._bounds[row + 1]].decode("utf-8", "surrogatepass")

    def take(self, rows: NDArray[np.int64]) -> list[str]:
        """The texts at these rows: int64[a]."""
        raw, bounds = self._raw, self._bounds
        return [raw[bounds[row] : bounds[row + 1]].decode("utf-8", "surrogatepass") for row in rows.tolist()]


class ColumnReader:
    """Reads columns in the order in which they were written. Raises ValueError if they are not there.

    A short body must not request much memory, so every count has a bound: the pages of a round, or the number of rows
    that fit into the remaining bytes.
    """

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    @property
    def left(self) -> int:
        """Number of remaining bytes."""
        return len(self._body) - self._at

    def pages(self) -> int:
        """Number of pages of the round. Their columns may take no bytes, so the remaining bytes are no bound."""
        return self.count(MOST_ROUND_PAGES)

    def count_of_words(self) -> int:
        """Number of rows that follow, with one word in each."""
        return self.count(max(0, self.left - _COUNT.size) // 8)

    def count(self, most: int) -> int:
        """Number of rows that follow, at most `most`."""
        (number,) = _COUNT.unpack(self._take(_COUNT.size))
        if number > most:
            raise ValueError
        return int(number)

    def numbers(self, rows: int, most: int = 2**63 - 1) -> NDArray[np.int64]:
        """Numbers in 0..most: int64[rows]."""
        width = self._take(1)[0]
        if width > 8:
            raise ValueError
        words = np.zeros((rows, 8), np.uint8)
        words[:, :width] = np.frombuffer(self._take(rows * width), np.uint8).reshape(rows, width)
        found = words.view("<u8").reshape(rows)
        if int(found.max(initial=0)) > most:
            raise ValueError
        return found.astype(np.int64)

    def earlier(self, rows: int, end: int) -> NDArray[np.int64]:
        """Numbers below `end`, which are stored as their distance from it: int64[rows]."""
        ages = self.numbers(rows, end)
        if not ages.all():
            raise ValueError
        return end - ages

    def optional_earlier(self, rows: int, end: int) -> NDArray[np.int64]:
        """Numbers below `end`, as earlier() reads them, or NOBODY, which is stored as 0: int64[rows]."""
        ages = self.numbers(rows, end)
        return np.where(ages == 0, NOBODY, end - ages)

    def reasons(self, rows: int) -> NDArray[np.uint8]:
        """Reasons of verdicts: uint8[rows]."""
        found = self.numbers(rows, max(Reason)).astype(np.uint8)
        if not np.isin(found, tuple(Reason)).all():
            raise ValueError
        return found

    def words(self, rows: int) -> NDArray[np.uint64]:
        """Words: uint64[rows]."""
        return np.frombuffer(self._take(8 * rows), "<u8").astype(np.uint64)

    def bits(self, rows: int) -> NDArray[np.bool_]:
        """Flags: bool[rows]."""
        packed = np.frombuffer(self._take((rows + 7) // 8), np.uint8)
        if int(np.unpackbits(packed)[rows:].sum()):
            raise ValueError
        return np.unpackbits(packed, count=rows).astype(np.bool_)

    def reals(self, rows: int) -> NDArray[np.float64]:
        """Finite reals, or NaN: float64[rows]."""
        found = np.frombuffer(self._take(8 * rows), "<f8").astype(np.float64)
        if np.isinf(found).any():
            raise ValueError
        return found

    def texts(self, rows: int) -> "PackedTexts":
        """Texts, one for each row. All are checked here; each is decoded on access."""
        ends = np.cumsum(self.numbers(rows, self.left), dtype=np.int64)
        raw = self._take(int(ends[-1]) if rows else 0)
        if not raw.isascii():
            raw.decode("utf-8", "surrogatepass")  # Raises UnicodeDecodeError, a ValueError.
            begins = np.frombuffer(raw, np.uint8)[ends[ends < len(raw)]]
            if (begins & 0xC0 == 0x80).any():
                raise ValueError  # A text begins within a character.
        return PackedTexts(raw, [0, *ends.tolist()])

    def end(self) -> None:
        """Check that no bytes follow."""
        if self._at != len(self._body):
            raise ValueError

    def _take(self, size: int) -> bytes:
        part = self._body[self._at : self._at + size]
        if len(part) != size:
            raise ValueError
        self._at += size
        return part


def ascending(numbers: NDArray[Word]) -> NDArray[Word]:
    """The numbers, if each is greater than the one before. Raises ValueError otherwise."""
    if (numbers[1:] <= numbers[:-1]).any():
        raise ValueError
    return numbers


MAGIC = b"\xf5spr"
"""No UTF-8 text and no record of the log begins with these bytes."""
RECORD_VERSION = 2
KIND_CANDIDATES, KIND_RESOLUTIONS, KIND_OUTCOME, KIND_RANGE, KIND_SPECULATION, KIND_TOO_LARGE = range(1, 7)
KIND_RESIZE, KIND_REQUEST, KIND_FILL_PROGRESS, KIND_POISON_ROWS, KIND_CONFIRMATIONS = range(7, 12)
_KINDS = {
    KIND_CANDIDATES: "candidates",
    KIND_RESOLUTIONS: "resolutions",
    KIND_OUTCOME: "an outcome",
    KIND_RANGE: "the announcement of a round",
    KIND_SPECULATION: "a speculation",
    KIND_TOO_LARGE: "a response that is too large",
    KIND_RESIZE: "a resize",
    KIND_REQUEST: "a resize request",
    KIND_FILL_PROGRESS: "the fill progress of a shard",
    KIND_POISON_ROWS: "poison pages",
    KIND_CONFIRMATIONS: "confirmations",
}
_HEAD = struct.Struct("<4sBB16sQ16sHH")
_RANGE = struct.Struct("<QIQIQQq")
_CHECKSUM_BYTES = 8
FRAME_BYTES = _HEAD.size + _RANGE.size + _CHECKSUM_BYTES
_NEXT_STEP = (
    "restore the topic; or set topics.matches and topics.verdicts to new names, and start every shard with an empty "
    "state directory, which the log rebuilds"
)
OWN_TOPICS = (
    "give every service topics of its own: without topics.verdicts and topics.matches in its configuration, their "
    "names are made from topics.log. Keep the records, which the other service needs"
)
Decoded = TypeVar("Decoded")


class RoundRange(NamedTuple):
    """The pages of a round, as places in the log, and the clock by which they are judged.

    first_number: the entry number of the next page that becomes indexed  floor: entries below it are dead
    watermark_ms: event time after the round
    """

    start: LogPlace
    end: LogPlace
    first_number: int
    floor: int
    watermark_ms: int


class RoundRecord(NamedTuple):
    """A record with an undecoded body. kind: KIND_CANDIDATES, ...  log: the log whose pages it is about"""

    kind: int
    settings_digest: bytes
    share: Share
    range: RoundRange
    body: bytes
    log: LogIdentity = NO_LOG


def range_of(round_: Round) -> RoundRange:
    """The range of a round."""
    clock = round_.clock
    return RoundRange(round_.start, round_.end, round_.first_number, clock.floor, clock.watermark_ms)


def encode_round_record(
    kind: int,
    settings_digest: bytes,
    share: Share,
    range_: RoundRange,
    body: bytes = b"",
    log: LogIdentity = NO_LOG,
) -> bytes:
    """Encode a record. settings_digest: 16 bytes  log: the log whose pages it is about"""
    start, end, first_number, floor, watermark_ms = range_
    record = (
        _HEAD.pack(MAGIC, RECORD_VERSION, kind, *log, settings_digest, *share)
        + _RANGE.pack(*start, *end, first_number, floor, watermark_ms)
        + body
    )
    return record + xxhash.xxh3_64_intdigest(record).to_bytes(_CHECKSUM_BYTES, "little")


def decode_round_record(
    record: bytes, settings_digest: bytes, shards: int | None, topic: str, offset: int, log: LogIdentity | None = None
) -> RoundRecord:
    """Decode a record. topic, offset: its place  shards: the expected number; None: any number that the record names

    log: the log of the reader; None: not compared
    Raises DamagedRecord for a wrong checksum or grammar, OtherLogError for the record of another log, StateError for
    another version or number of shards, and SettingsMismatch for other settings.
    """
    place = f"{topic}[{offset}]"
    if not _is_sound(record):
        raise DamagedRecord(topic, offset, "must begin with the magic of a round and end in its checksum", _NEXT_STEP)
    _, version, kind, log_id, salt, digest, shard, of = _HEAD.unpack_from(record)
    if version != RECORD_VERSION or kind not in _KINDS:
        raise StateError(
            place,
            f"must be record version {RECORD_VERSION} and of a kind known here (1..{len(_KINDS)})",
            f"version {version}, kind {kind}",
            "let all roles run the same release",
        )
    found = LogIdentity(log_id, salt)
    if log is not None and found != log:
        raise OtherLogError(
            place,
            f"must be about the log {log} of this reader, and is about the log {found}: another service, or an earlier "
            "log, uses this topic",
            None,
            OWN_TOPICS,
        )
    if digest != settings_digest:
        raise SettingsMismatch(
            place, "must be of these settings", digest.hex(), "start all roles with the same settings"
        )
    check_shards(Share(shard, of), shards, topic, offset)
    fields = _RANGE.unpack_from(record, _HEAD.size)
    range_ = RoundRange(LogPlace(*fields[:2]), LogPlace(*fields[2:4]), *fields[4:])
    if range_.start > range_.end or range_.floor > range_.first_number:
        raise DamagedRecord(topic, offset, "must have a range that does not end before it starts", _NEXT_STEP)
    if range_.end.record > MAX_OFFSET or range_.first_number > MAX_ENTRIES:
        rule = f"must have log offsets of at most {MAX_OFFSET} and entry numbers of at most {MAX_ENTRIES}"
        raise DamagedRecord(topic, offset, rule, _NEXT_STEP)
    body = record[_HEAD.size + _RANGE.size : -_CHECKSUM_BYTES]
    return RoundRecord(kind, digest, Share(shard, of), range_, body, found)


def log_of(record: bytes) -> LogIdentity | None:
    """The log that a record is about; None for bytes that are no sound record of this version."""
    if not _is_sound(record):
        return None
    _, version, _, log_id, salt, *_ = _HEAD.unpack_from(record)
    return LogIdentity(log_id, salt) if version == RECORD_VERSION else None


def check_shards(share: Share, shards: int | None, topic: str, offset: int) -> None:
    """Raise StateError if a record is from none of these shards.

    shards: the expected number; None: any number that the record names  topic, offset: the place of the record
    """
    if share.number >= share.shards or share.shards > MOST_SHARDS or shards not in (None, share.shards):
        raise StateError(
            f"{topic}[{offset}]",
            f"must be of one of {'the' if shards is None else shards} shards",
            f"{share.number} of {share.shards}",
            "start all roles with the same shards",
        )


def decode_body(
    record: RoundRecord, kind: int, read: Callable[[ColumnReader], Decoded], topic: str, offset: int
) -> Decoded:
    """Decode the body of a record of this kind. Raises DamagedRecord if it does not match its columns."""
    rule = f"must hold the columns that a record of {_KINDS[kind]} declares"
    if record.kind != kind:
        raise DamagedRecord(topic, offset, f"must be a record of {_KINDS[kind]}", _NEXT_STEP)
    columns = ColumnReader(record.body)
    try:
        found = read(columns)
        columns.end()
    except (ValueError, IndexError, OverflowError):
        raise DamagedRecord(topic, offset, rule, _NEXT_STEP) from None
    return found


def _is_sound(record: bytes) -> bool:
    """Whether bytes have the magic and the checksum of a record, and a whole frame."""
    if len(record) < FRAME_BYTES or not record.startswith(MAGIC):
        return False
    checksum = xxhash.xxh3_64_intdigest(memoryview(record)[:-_CHECKSUM_BYTES])
    return checksum == int.from_bytes(record[-_CHECKSUM_BYTES:], "little")
