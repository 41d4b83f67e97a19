"""Frames what is told about a round: which round, by whom, under which settings; with a version and a checksum.

    record   = magic F5 73 70 72, version u8 (1), kind u8, settings digest 16 bytes, shard u16, shards u16, range,
               body, checksum u64
    range    = start, end, first number u64, floor u64, watermark i64
    start, end = record u64, page u32: offset in the log, and row in that record
    checksum = xxh3-64 of everything before it

Kind 1 has what a shard's keys lead to (meetings.py), kind 11 what it says of entries that it holds for all shards
(confirms.py), kind 2 what a shard found of the pages of its hosts (walks.py),
kind 3 the outcome of the round (outcome.py). By kind 4 the resolver says which round is next, and by kind 5 under which
guess the shards walk once more (range.py). By kind 6, which has no body, a shard says that its answer would be larger
than a message may be: the resolver names a smaller round. By kind 8 somebody asks for another number of shards, by kind
9 a shard that is to come tells how far it has filled itself, and by kind 7 the resolver says what becomes of it
(resize.py). By kind 10 a shard says which pages break its code, and the resolver that the round goes on without them
(broken.py). Kinds 3, 4, 5 and 7 are the resolver's, and name shard 0, as its records of kind 10 do.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import xxhash

from spotsieve.stream.errors import DamagedRecord, SettingsMismatch, StateError
from spotsieve.stream.sharding.records.columns import ColumnReader
from spotsieve.stream.sharding.rounds import LogPlace, Round
from spotsieve.stream.sharding.shares import MOST_SHARDS, Share

MAGIC = b"\xf5spr"
"""No UTF-8 text begins with it, and no record of the log does."""
RECORD_VERSION = 1
KIND_CANDIDATES, KIND_RESOLUTIONS, KIND_OUTCOME, KIND_RANGE, KIND_SPECULATION, KIND_TOO_LARGE = range(1, 7)
KIND_RESIZE, KIND_REQUEST, KIND_FILL_PROGRESS, KIND_POISON_ROWS, KIND_CONFIRMATIONS = range(7, 12)
_KINDS = {
    KIND_CANDIDATES: "meetings",
    KIND_RESOLUTIONS: "walks",
    KIND_OUTCOME: "outcome",
    KIND_RANGE: "range",
    KIND_SPECULATION: "guess",
    KIND_TOO_LARGE: "an answer that is too large",
    KIND_RESIZE: "a resize",
    KIND_REQUEST: "an ask for shards",
    KIND_FILL_PROGRESS: "a shard that fills itself",
    KIND_POISON_ROWS: "pages that break the code",
    KIND_CONFIRMATIONS: "confirms",
}
_HEAD = struct.Struct("<4sBB16sHH")
_RANGE = struct.Struct("<QIQIQQq")
_CHECKSUM_BYTES = 8
FRAME_BYTES = _HEAD.size + _RANGE.size + _CHECKSUM_BYTES
_NEXT_STEP = "make the topics of matches and verdicts, and the states of the shards, anew: the log gives them again"
Decoded = TypeVar("Decoded")


class RoundRange(NamedTuple):
    """Which pages of the log a round has, and by what they are judged; as of Round.

    floor: entries below it are dead  watermark_ms: event time behind the round
    """

    start: LogPlace
    end: LogPlace
    first_number: int
    floor: int
    watermark_ms: int


class RoundRecord(NamedTuple):
    """A record without its body's meaning. kind: KIND_MEETINGS, ..."""

    kind: int
    settings_digest: bytes
    share: Share
    range: RoundRange
    body: bytes


def range_of(round_: Round) -> RoundRange:
    """The range of a round."""
    clock = round_.clock
    return RoundRange(round_.start, round_.end, round_.first_number, clock.floor, clock.watermark_ms)


def encode_round_record(
    kind: int, settings_digest: bytes, share: Share, range_: RoundRange, body: bytes = b""
) -> bytes:
    """Write a record. settings_digest: 16 bytes"""
    start, end, first_number, floor, watermark_ms = range_
    record = (
        _HEAD.pack(MAGIC, RECORD_VERSION, kind, settings_digest, *share)
        + _RANGE.pack(*start, *end, first_number, floor, watermark_ms)
        + body
    )
    return record + xxhash.xxh3_64_intdigest(record).to_bytes(_CHECKSUM_BYTES, "little")


def decode_round_record(
    record: bytes, settings_digest: bytes, shards: int | None, topic: str, offset: int
) -> RoundRecord:
    """Read a record. topic, offset: where it was found  shards: how many there are; None: as many as the record names

    Raises DamagedRecord where checksum or grammar fail, StateError for another version or number of shards,
    SettingsMismatch for other settings.
    """
    place = f"{topic}[{offset}]"
    if len(record) < FRAME_BYTES or not record.startswith(MAGIC) or not _is_sound(record):
        raise DamagedRecord(topic, offset, "must begin with the magic of a round and end in its checksum", _NEXT_STEP)
    _, version, kind, digest, shard, of = _HEAD.unpack_from(record)
    if version != RECORD_VERSION or kind not in _KINDS:
        raise StateError(
            place,
            f"must be record version {RECORD_VERSION} and of a kind known here (1..{len(_KINDS)})",
            f"version {version}, kind {kind}",
            "let all roles run the same release",
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
    return RoundRecord(kind, digest, Share(shard, of), range_, record[_HEAD.size + _RANGE.size : -_CHECKSUM_BYTES])


def check_shards(share: Share, shards: int | None, topic: str, offset: int) -> None:
    """Raise StateError where a record is of none of these shards. topic, offset, shards: as of decode_round_record"""
    if share.number >= share.shards or share.shards > MOST_SHARDS or shards not in (None, share.shards):
        raise StateError(
            f"{topic}[{offset}]",
            f"must be of one of {'the' if shards is None else shards} shards",
            f"{share.number} of {share.shards}",
            "start all roles with the same shards",
        )


def decode_body(
    told: RoundRecord, kind: int, read: Callable[[ColumnReader], Decoded], topic: str, offset: int
) -> Decoded:
    """Read the body of a record of this kind. Raises DamagedRecord where it is not as its columns declare."""
    rule = f"must hold the columns that a record of {_KINDS[kind]} declares"
    if told.kind != kind:
        raise DamagedRecord(topic, offset, f"must be a record of {_KINDS[kind]}", _NEXT_STEP)
    columns = ColumnReader(told.body)
    try:
        found = read(columns)
        columns.end()
    except (ValueError, IndexError, OverflowError):
        raise DamagedRecord(topic, offset, rule, _NEXT_STEP) from None
    return found


def _is_sound(record: bytes) -> bool:
    checksum = xxhash.xxh3_64_intdigest(memoryview(record)[:-_CHECKSUM_BYTES])
    return checksum == int.from_bytes(record[-_CHECKSUM_BYTES:], "little")
