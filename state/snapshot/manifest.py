"""Writes and reads the manifest of a snapshot: what it holds, where in the log it goes on, every file's checksum.

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

MANIFEST_FILE = "snapshot.manifest"
_KIND = b"spotsieve-snapshot "
_VERSION = b"1"
_CHECKSUM_BYTES = 17
_BLOCK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a snapshot. name: its path within, with /  xxh3_128: in hex"""

    name: str
    bytes: int
    xxh3_128: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot says of itself.

    created: UTC, ISO 8601  format: the state's  log_position: the next offset to apply
    settings: canonical text of those that change verdicts  settings_digest: in hex
    log_records: how many the local log in it holds, None without one
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
    """Write the manifest as bytes."""
    text = json.dumps(dataclasses.asdict(manifest), sort_keys=True, separators=(",", ":"))
    body = _KIND + _VERSION + b"\n" + text.encode() + b"\n"
    return body + b"%016x\n" % xxhash.xxh3_64_intdigest(body)


def read_manifest(snapshot: Path) -> Manifest:
    """Read the manifest in a snapshot.

    Raises StateError if there is none, or one of another version; CorruptRecord if it is damaged.
    """
    path = snapshot / MANIFEST_FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StateError(
            "snapshot",
            f"must hold {MANIFEST_FILE}: {error.strerror}",
            str(snapshot),
            "name a directory that spotsieve state snapshot made",
        ) from None
    first, _, rest = content.partition(b"\n")
    if first.startswith(_KIND) and first != _KIND + _VERSION:
        raise StateError(
            str(path),
            f"must be of version {_VERSION.decode()}",
            first[len(_KIND) :].decode("ascii", "replace"),
            "use the release that made it",
        )
    body, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    if first != _KIND + _VERSION or checksum != b"%016x\n" % xxhash.xxh3_64_intdigest(body):
        raise CorruptRecord(str(path), 0, "must end in its xxh3-64 checksum", "take another snapshot")
    try:
        return TypeAdapter(Manifest).validate_json(rest[: -_CHECKSUM_BYTES - 1], strict=True)
    except ValidationError:
        raise CorruptRecord(
            str(path), len(first) + 1, "must be JSON with all that a snapshot says of itself", "take another snapshot"
        ) from None


def digest_of(file: BinaryIO, on_block: Callable[[int], None], into: BinaryIO | None = None) -> tuple[int, str]:
    """Read the rest of a file, and return its size and its xxh3-128 in hex.

    on_block: called with the size of each block that was read  into: where to copy the file on the way, if anywhere
    """
    hashed, size = xxhash.xxh3_128(), 0
    while block := file.read(_BLOCK_BYTES):
        hashed.update(block)
        if into is not None:
            into.write(block)
        size += len(block)
        on_block(len(block))
    return size, hashed.hexdigest()
