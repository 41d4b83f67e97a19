"""Encodes and decodes the small stored values: identity, progress, window marks, sources and pending verdicts.

state/FORMATS.md has the grammar. Each meta value ends in its xxh3-64 checksum, because the whole state depends on it. A
source is a topic or path that pages come from; each is stored once. A pending verdict ("attempt" in stored names) is
the verdict of a page that is not indexed; it stays until the page is committed.

    attempt key   = source number u32, partition u32 (plus 2**31), offset u64, all big endian: in the order of page ids
    attempt value = version u8 (1), original i64, score f64, reason u8, found_by u8
"""

import json
import re
import secrets
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import isinf, nan
from operator import index
from typing import Any, NamedTuple

import xxhash

from spotsieve.state.format.buckets import NUMBER_BYTES
from spotsieve.state.horizon import NO_TIME, STEPS, Clock, StepMark
from spotsieve.state.index import NOBODY, OutcomeRef, PendingVerdict
from spotsieve.state.removal import Sweep
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.settings.digest import RANKED
from spotsieve.stream.base.verdict import KeyKind, Reason

_CHECKSUM = struct.Struct("<Q")


def seal(body: bytes) -> bytes:
    """Return the body with its xxh3-64 checksum appended, little endian."""
    return body + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))


def unseal(store: str, key: bytes, value: bytes) -> bytes:
    """Return the body of a sealed value. Raises CorruptRecord if the checksum differs."""
    body = value[: -_CHECKSUM.size]
    if len(value) <= _CHECKSUM.size or _CHECKSUM.unpack(value[-_CHECKSUM.size :])[0] != xxhash.xxh3_64_intdigest(body):
        raise CorruptRecord(store, key, "must end in its xxh3-64 checksum")
    return body


IDENTITY, MARKS, PROGRESS, LAST_OUTCOME = b"identity", b"marks", b"progress", b"heard"
"""The keys of the meta values."""
MAX_ENTRIES = 2 ** (8 * NUMBER_BYTES)
"""The greatest number of entries that postings can name."""
LOCAL = "local"
"""The name of a local log: a file in the state directory."""
STATE_FORMAT = 4
"""Increased when a release can no longer read states of the previous format."""
PROGRESS_VERSION = 3
MARKS_VERSION = 1
IDENTITY_VERSION = 1
OUTCOME_REF_VERSION = 1
PART_VERSION = 2
"""Version of the rule that assigns entries to shards."""
MAX_SHARDS = 1024
_REFILL = "delete the directory of this shard and start it: it rebuilds its state from the log and the verdicts"
_OUTCOME_REF = struct.Struct("<BQQ")
_PROGRESS = struct.Struct("<BQQQIqQQQQ")
_MARKS = struct.Struct("<BH")
_MARK = struct.Struct("<qQ")


class StatePart(NamedTuple):
    """The part of all entries that a state holds: the share of shard `number` of `shards`."""

    number: int
    shards: int

    def __str__(self) -> str:
        return f"shard {self.number} of {self.shards}"


class LogIdentity(NamedTuple):
    """What tells a log from every other one. The first record of the log holds it, and both numbers are random.

    id: 16 bytes  salt: uint64, the key of the identities of blocks
    """

    id: bytes
    salt: int

    def __str__(self) -> str:
        return self.id.hex()[:_SHOWN_DIGITS]


_ID_BYTES, _SALT_BYTES, _SHOWN_DIGITS = 16, 8, 12
NO_LOG = LogIdentity(bytes(_ID_BYTES), 0)
"""The identity of a log without a first record, such as a log in memory."""


def draw_log_identity(salt: int | None = None) -> LogIdentity:
    """Return the identity of a new log. salt: the salt of another log; None: a random one"""
    drawn = secrets.randbits(8 * _SALT_BYTES) if salt is None else salt
    return LogIdentity(secrets.token_bytes(_ID_BYTES), drawn)


def log_identity_fields(identity: LogIdentity | None) -> dict[str, str | None]:
    """Return the fields of JSON that hold the identity of a log; null for a state that has read no log yet."""
    if identity is None:
        return {"log_id": None, "salt": None}
    return {"log_id": identity.id.hex(), "salt": f"{identity.salt:016x}"}


def log_identity_of(fields: Mapping[str, object]) -> LogIdentity | None:
    """Read the fields of log_identity_fields. Raises KeyError, TypeError, ValueError."""
    log_id, salt = fields["log_id"], fields["salt"]
    if log_id is None and salt is None:
        return None
    if not (isinstance(log_id, str) and isinstance(salt, str) and _IDENTITY_TEXT.fullmatch(f"{log_id} {salt}")):
        raise ValueError
    return LogIdentity(bytes.fromhex(log_id), int(salt, 16))


_IDENTITY_TEXT = re.compile(f"[0-9a-f]{{{2 * _ID_BYTES}}} [0-9a-f]{{{2 * _SALT_BYTES}}}")


class Identity(NamedTuple):
    """The settings, log and part that a state belongs to.

    settings: canonical text of the settings that change verdicts  log: name of the log
    part: None if the state holds all entries  log_identity: None until the first record of the log is known
    """

    state_format: int
    settings: str
    log: str
    part: StatePart | None = None
    log_identity: LogIdentity | None = None


class StateProgress(NamedTuple):
    """The progress of a state in its log. It changes with every record.

    position: next log offset to apply  last_record: checksum of the last applied record
    pages_applied: number of applied pages of the record at the position
    watermark_ms: greatest event time so far (state/horizon.py)
    sweep, host_sweep: progress of the sweeps of dead postings and dead host memories (state/removal.py)
    """

    position: int
    entry_count: int
    last_record: int
    pages_applied: int = 0
    watermark_ms: int = NO_TIME
    sweep: Sweep = Sweep()
    host_sweep: Sweep = Sweep()


def encode_progress(progress: StateProgress) -> bytes:
    """Write the meta value `progress`."""
    return seal(_PROGRESS.pack(PROGRESS_VERSION, *progress[:5], *progress.sweep, *progress.host_sweep))


def decode_progress(value: bytes) -> StateProgress:
    """Read the meta value `progress`. Raises CorruptRecord."""
    body = unseal("meta", PROGRESS, value)
    if len(body) != _PROGRESS.size or body[0] != PROGRESS_VERSION:
        raise CorruptRecord("meta", PROGRESS, f"must be version {PROGRESS_VERSION} and {_PROGRESS.size + 8} bytes")
    _, position, entry_count, last_record, pages_applied, watermark_ms, *sweeps = _PROGRESS.unpack(body)
    counted = (position, entry_count, last_record, pages_applied, watermark_ms)
    if entry_count > MAX_ENTRIES or max(sweeps[1], sweeps[3]) > entry_count:
        rule = f"must count at most {MAX_ENTRIES} entries, and have sweeps with a floor at one of them"
        raise CorruptRecord("meta", PROGRESS, rule)
    return StateProgress(*counted, Sweep(*sweeps[:2]), Sweep(*sweeps[2:]))


def encode_marks(marks: Sequence[StepMark]) -> bytes:
    """Write the meta value `marks`, which only a state with a deduplication window has."""
    return seal(_MARKS.pack(MARKS_VERSION, len(marks)) + b"".join(_MARK.pack(*mark) for mark in marks))


def decode_marks(value: bytes) -> tuple[StepMark, ...]:
    """Read the meta value `marks`. Raises CorruptRecord, also if steps or entry numbers do not ascend."""
    body = unseal("meta", MARKS, value)
    count = (len(body) - _MARKS.size) // _MARK.size
    if len(body) != _MARKS.size + count * _MARK.size or _MARKS.unpack_from(body) != (MARKS_VERSION, count):
        raise CorruptRecord("meta", MARKS, f"must be version {MARKS_VERSION} and have the marks that it declares")
    marks = tuple(StepMark(*fields) for fields in _MARK.iter_unpack(body[_MARKS.size :]))
    ascend = all(one.step < other.step and one.number < other.number for one, other in pairwise(marks))
    if not ascend or (marks and marks[-1].step - marks[0].step > STEPS):
        raise CorruptRecord("meta", MARKS, f"must have steps and entry numbers that ascend, within {STEPS} steps")
    return marks


def decode_clock(progress: StateProgress, marks: bytes | None) -> Clock:
    """Return the clock that the meta values `progress` and `marks` hold. Raises CorruptRecord."""
    clock = Clock(progress.watermark_ms, decode_marks(marks) if marks is not None else ())
    last = clock.marks[-1].number if clock.marks else 0
    if bool(clock.marks) != (clock.watermark_ms != NO_TIME) or last > progress.entry_count:
        raise CorruptRecord(
            "meta",
            MARKS,
            f"must exist if the progress has a watermark, and name its {progress.entry_count} entries",
        )
    return clock


def encode_outcome_ref(last_outcome: OutcomeRef) -> bytes:
    """Write the meta value `heard`, which only the state of a shard has."""
    return seal(_OUTCOME_REF.pack(OUTCOME_REF_VERSION, *last_outcome))


def decode_outcome_ref(value: bytes) -> OutcomeRef:
    """Read the meta value `heard`. Raises CorruptRecord."""
    body = unseal("meta", LAST_OUTCOME, value)
    if len(body) != _OUTCOME_REF.size or body[0] != OUTCOME_REF_VERSION:
        raise CorruptRecord(
            "meta", LAST_OUTCOME, f"must be version {OUTCOME_REF_VERSION} and {_OUTCOME_REF.size + 8} bytes"
        )
    return OutcomeRef(*_OUTCOME_REF.unpack(body)[1:])


def encode_identity(identity: Identity) -> bytes:
    """Write the meta value `identity`, once for each state."""
    fields: dict[str, object] = {"format": identity.state_format, "log": identity.log, "settings": identity.settings}
    fields |= log_identity_fields(identity.log_identity)
    if identity.part is not None:
        fields["part"] = [*identity.part, PART_VERSION]
    return seal(bytes([IDENTITY_VERSION]) + json.dumps(fields, sort_keys=True).encode())


def decode_identity(value: bytes) -> Identity:
    """Read the meta value `identity`. Raises CorruptRecord."""
    body = unseal("meta", IDENTITY, value)
    if not body or body[0] != IDENTITY_VERSION:
        raise CorruptRecord("meta", IDENTITY, f"must be version {IDENTITY_VERSION}")
    try:
        identity, part_version = _identity_of(json.loads(body[1:]))
    except (ValueError, LookupError, TypeError, RecursionError):
        names = "format, settings, log, log_id and salt, and one of"
        rule = f"must be JSON that names {names} at most {MAX_SHARDS} shards or none"
        raise CorruptRecord("meta", IDENTITY, rule) from None
    if part_version != PART_VERSION:
        raise CorruptRecord("meta", IDENTITY, f"must name the part of a shard in version {PART_VERSION}", _REFILL)
    return identity


def _identity_of(fields: Mapping[str, Any]) -> tuple[Identity, int]:
    """Read fields of encode_identity; -> identity, version of its part. Raises LookupError, TypeError, ValueError."""
    state_format, settings, log = fields["format"], fields["settings"], fields["log"]
    # Version 1 was not stored.
    *numbers, part_version = map(int, [*fields["part"], 1][:3] if "part" in fields else [PART_VERSION])
    part = StatePart(*numbers) if numbers else None
    # Another format is only named in the error that refuses it.
    log_identity = log_identity_of(fields) if state_format == STATE_FORMAT else None
    is_part = part is None or 0 <= part.number < part.shards <= MAX_SHARDS
    if not (isinstance(state_format, int) and isinstance(settings, str) and isinstance(log, str) and is_part):
        raise ValueError
    return Identity(state_format, settings, log, part, log_identity), part_version


class EntryShape(NamedTuple):
    """The layout of all entries. words: of a sketch, None: unknown  own: with distinctive texts  ranked: with ranks"""

    words: int | None
    own: bool
    ranked: bool


class StoredRules(NamedTuple):
    """The bounds of stored values. shape: of entries, None: unknown  bucket_cap: postings of a full bucket"""

    shape: EntryShape | None = None
    bucket_cap: int = 2**40

    @property
    def sketch_words(self) -> int | None:
        """The words of a sketch; None: unknown."""
        return None if self.shape is None else self.shape.words


_SKETCH_WORDS: dict[str, Callable[[dict[str, Any]], int | None]] = {
    "minhash": lambda settings: (settings["scheme.h"] + 1) // 2,
    "onebit": lambda settings: (settings["scheme.k"] + 63) // 64,
    "adaptive-shingles": lambda _: 1,
    "spotsigs-lsh": lambda settings: (settings["scheme.k"] * settings["scheme.l"] + 1) // 2,
    "concept": lambda _: None,
}
"""Sizes of sketches by scheme; others have none. A model decides on the size for concepts."""


def rules_of_settings(settings: str) -> StoredRules:
    """The bounds of the values of a state. settings: their canonical text, which may leave out some of them

    Raises KeyError, TypeError, ValueError if the text is no settings.
    """
    values = json.loads(settings)
    if not isinstance(values, dict):
        raise TypeError
    shape = _shape_of_entries(values) if "scheme.name" in values else None
    return StoredRules(shape, index(values.get("index.bucket_cap", StoredRules().bucket_cap)))


def _shape_of_entries(values: dict[str, Any]) -> EntryShape:
    name: str = values["scheme.name"]
    words = _SKETCH_WORDS[name](values) if name in _SKETCH_WORDS else 0
    return EntryShape(words, name == "spotsieve", values["policy.keep"] in RANKED)


SOURCE_VERSION = 1


def encode_source(text: str) -> bytes:
    """Write the name of a topic or path."""
    return bytes([SOURCE_VERSION]) + text.encode()


def decode_source(key: bytes, value: bytes) -> str:
    """Read the name of a topic or path. Raises CorruptRecord."""
    if not value or value[0] != SOURCE_VERSION:
        raise CorruptRecord("sources", key, f"must be version {SOURCE_VERSION}")
    try:
        return value[1:].decode()
    except UnicodeDecodeError:
        raise CorruptRecord("sources", key, "must be UTF-8") from None


PENDING_VERDICT_VERSION = 1
KEY_BYTES = 16
MAX_OFFSET = 2**63 - 1
_KEY = struct.Struct(">IIQ")
_VALUE = struct.Struct("<BqdBB")
_REASONS = frozenset(Reason)
_KINDS = sum(KeyKind)
_SHIFT = 2**31
"""Added to partitions, so that keys of negative ones come first."""


def pending_verdict_key(source: int, partition: int, offset: int) -> bytes:
    """Write the key of the pending verdict of a page. source: the number of its source"""
    return _KEY.pack(source, partition + _SHIFT, offset)


def page_of_key(key: bytes) -> tuple[int, int, int]:
    """Read the key of a pending verdict, KEY_BYTES long -> source number, partition, offset."""
    source, partition, offset = _KEY.unpack(key)
    return source, partition - _SHIFT, offset


def encode_pending_verdict(verdict: PendingVerdict) -> bytes:
    """Write a pending verdict."""
    original, score, reason, found_by = verdict
    # Every NaN is stored as the same NaN, so that equal verdicts have equal bytes.
    return _VALUE.pack(PENDING_VERDICT_VERSION, original, score if score == score else nan, reason, found_by)


def decode_pending_verdict(key: bytes, value: bytes) -> PendingVerdict:
    """Read a pending verdict. Raises CorruptRecord."""
    if len(value) != _VALUE.size or value[0] != PENDING_VERDICT_VERSION:
        raise CorruptRecord("attempts", key, f"must be version {PENDING_VERDICT_VERSION} and {_VALUE.size} bytes")
    _, original, score, reason, found_by = _VALUE.unpack(value)
    # A score (not NaN) needs an original. An original without a score is a superseded page.
    if not NOBODY <= original < MAX_ENTRIES or (original == NOBODY and score == score) or isinf(score):
        raise CorruptRecord("attempts", key, "must have an entry number, with or without a score, or neither")
    if reason not in _REASONS or found_by > _KINDS or page_of_key(key)[2] > MAX_OFFSET:
        rule = f"must have a known reason, kinds of keys of at most {_KINDS}, and an offset of at most {MAX_OFFSET}"
        raise CorruptRecord("attempts", key, rule)
    return PendingVerdict(original, score, reason, found_by)
