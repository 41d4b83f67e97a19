"""Owns the manifest of a snapshot: what it holds, from where in the log it goes on, and the checksum of every file.

manifest = "spotsieve-snapshot 1" LF, JSON LF, checksum LF
JSON     = {"created", "entries", "files": [{"bytes", "name", "xxh3_128"}*], "format", "log", "log_position",
            "log_records", "settings", "settings_digest"}, names sorted, without spaces
checksum = xxh3-64 of all before it, 16 hex digits
"""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import xxhash
from pydantic import TypeAdapter, ValidationError

from spotsieve.stream.errors import CorruptRecord, StateError

FILE_NAME = "snapshot.manifest"
_KIND = b"spotsieve-snapshot "
_VERSION = b"1"
_CHECKSUM_BYTES = 17
_BLOCK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a snapshot. name: its path in it, with /  xxh3_128: hex"""

    name: str
    bytes: int
    xxh3_128: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot says of itself.

    created: UTC, ISO 8601  format: of the state  log_position: next offset to apply  settings: those that change
    verdicts, as canonical text  settings_digest: hex  log_records: of the local log it holds, None without one
    """

    created: str
    format: int
    log: str
    log_position: int
    entries: int
    settings: str
    settings_digest: str
    log_records: int | None
    files: tuple[FileFacts, ...]


def encode_manifest(manifest: Manifest) -> bytes:
    """The file's bytes."""
    text = json.dumps(dataclasses.asdict(manifest), sort_keys=True, separators=(",", ":"))
    body = _KIND + _VERSION + b"\n" + text.encode() + b"\n"
    return body + b"%016x\n" % xxhash.xxh3_64_intdigest(body)


def read_manifest(snapshot: Path) -> Manifest:
    """Raises StateError where there is none or it is of another version, CorruptRecord where it is damaged."""
    path = snapshot / FILE_NAME
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StateError(
            "snapshot", f"must hold {FILE_NAME}: {error.strerror}", str(snapshot),
            "name a directory that spotsieve state snapshot made",
        ) from None  # fmt: skip
    first, _, rest = content.partition(b"\n")
    if first.startswith(_KIND) and first != _KIND + _VERSION:
        raise StateError(
            str(path), f"must be of version {_VERSION.decode()}", first[len(_KIND) :].decode("ascii", "replace"),
            "use the release that made it",
        )  # fmt: skip
    body, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    if first != _KIND + _VERSION or checksum != b"%016x\n" % xxhash.xxh3_64_intdigest(body):
        raise CorruptRecord(str(path), 0, "must end in its xxh3-64 checksum", "take another snapshot")
    try:
        return TypeAdapter(Manifest).validate_json(rest[: -_CHECKSUM_BYTES - 1], strict=True)
    except ValidationError:
        raise CorruptRecord(
            str(path), len(first) + 1, "must be JSON with all that a snapshot says of itself", "take another snapshot"
        ) from None


def digest_of(file: BinaryIO, told: Callable[[int], None], into: BinaryIO | None = None) -> tuple[int, str]:
    """(bytes, xxh3-128 in hex) of what is left of a file, copied on the way where `into` is given."""
    hashed, size = xxhash.xxh3_128(), 0
    while block := file.read(_BLOCK_BYTES):
        hashed.update(block)
        if into is not None:
            into.write(block)
        size += len(block)
        told(len(block))
    return size, hashed.hexdigest()
