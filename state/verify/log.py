"""Owns walking a local log without changing it: every frame, every record, under the state's settings."""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import xxhash

from spotsieve.state.log.local import FILE_NAME, MAGIC
from spotsieve.state.log.record import decode
from spotsieve.stream.errors import SpotsieveError

_HEAD = struct.Struct("<II")
_CHECK_BYTES = 8
_TOLD_EVERY = 64
UNSOUND = "must match its checksum"


def examine_log(
    directory: Path,
    digest: bytes | None,
    add: Callable[[str, str], None],
    notice: Callable[[str], None],
    told: Callable[[str, int, int], None],
) -> int | None:
    """Look at every record; -> how many there are, None where no local log lies here.

    digest: of the state's settings, which every record must carry; None where it is unknown
    """
    path = directory / FILE_NAME
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        add(str(path), f"cannot be read ({error.strerror})")
        return None
    with file:
        size = os.fstat(file.fileno()).st_size
        magic = file.read(len(MAGIC))
        if magic != MAGIC:
            if MAGIC.startswith(magic):
                notice(f"{path}: is not begun yet")
            else:
                add(f"{path}[0]", f"must begin with {MAGIC!r}")
            return 0
        number, at = 0, len(MAGIC)
        while at < size:
            length = _frame_length(file, number)
            if length is None:
                add(
                    f"{path}[{at}]",
                    f"the head of record {number} must match its checksum; the {size - at} bytes from there on cannot "
                    "be told apart",
                )
                break
            end = at + _HEAD.size + length + _CHECK_BYTES
            if length < 0 or end > size:
                notice(
                    f"{path}[{at}]: the last {size - at} bytes are an incomplete record {number}; the next start cuts "
                    "them off"
                )
                break
            rule = _fault(file.read(length + _CHECK_BYTES), path, number, digest)
            if rule is not None:
                add(f"{path}[{at}]", f"record {number} {rule}")
                if rule == UNSOUND and end == size:
                    break  # The next start takes it for one that was never finished, and cuts it off.
            number, at = number + 1, end
            if number % _TOLD_EVERY == 0:
                told("log bytes", at, size)
        return number


def _frame_length(file: BinaryIO, number: int) -> int | None:
    """The length in a frame's head, -1 where the file ends before it does, None where the head is damaged."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return -1
    length, check = _HEAD.unpack(head)
    if check == xxhash.xxh32_intdigest(head[:4], number & 0xFFFFFFFF):
        return int(length)
    # After a power failure a file may end in zeros that were never written: a torn tail, as LocalLog has it.
    if not any(head):
        while block := file.read(2**20):
            if any(block):
                return None
        return -1
    return None


def _fault(frame: bytes, path: Path, number: int, digest: bytes | None) -> str | None:
    record = frame[:-_CHECK_BYTES]
    if xxhash.xxh3_64_intdigest(record) != int.from_bytes(frame[-_CHECK_BYTES:], "little"):
        return UNSOUND
    try:
        decoded = decode(record, str(path), number)
    except SpotsieveError as error:
        return error.rule
    if digest is not None and decoded.settings_digest != digest:
        return "must be signed with the state's settings, is with others"
    return None
