"""Verifies a local log without changing it: every frame, and every record under the settings of the state."""

import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

import xxhash

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.format.meta import LogIdentity
from spotsieve.state.log.local import MAGIC
from spotsieve.state.log.record import decode, is_foreign
from spotsieve.state.verify.families import Findings
from spotsieve.stream.base.errors import SpotsieveError
from spotsieve.stream.base.progress import OnProgress

_HEAD = struct.Struct("<II")
_CHECK_BYTES = 8
_RECORDS_A_STEP = 64


class LogFacts(NamedTuple):
    """Facts of the state that its log must match.

    digest: settings digest, which every record must have; None if unknown
    log: the identity that the first record must have; None if unknown
    """

    digest: bytes | None
    log: LogIdentity | None


def examine_log(directory: Path, facts: LogFacts, found: Findings, on_progress: OnProgress) -> int | None:
    """Check every record and return their number; None without a local log. found: gets damages and notices"""
    path = directory / LOG_FILE
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        found.add(str(path), f"cannot be read ({error.strerror})")
        return None
    with file:
        magic = file.read(len(MAGIC))
        if magic == MAGIC:
            return _examine_records(file, path, facts, found, on_progress)
        if MAGIC.startswith(magic):
            found.notices.append(f"{path}: is empty")
        else:
            found.add(f"{path}[0]", f"must begin with {MAGIC!r}")
        return 0


def _examine_records(file: BinaryIO, path: Path, facts: LogFacts, found: Findings, on_progress: OnProgress) -> int:
    size, number, at = os.fstat(file.fileno()).st_size, 0, len(MAGIC)
    while at < size:
        length = _frame_length(file, number)
        if length is None:
            found.add(
                f"{path}[{at}]",
                f"the head of record {number} must match its checksum; the {size - at} bytes from there on cannot "
                "be told apart",
            )
            break
        end = at + _HEAD.size + length + _CHECK_BYTES
        if length < 0 or end > size:
            found.notices.append(
                f"{path}[{at}]: the last {size - at} bytes are an incomplete record {number}; the next start cuts "
                "them off"
            )
            break
        frame = file.read(length + _CHECK_BYTES)
        if not _is_sound(frame):
            found.add(f"{path}[{at}]", f"record {number} must match its checksum")
            if end == size:
                break  # The next start treats it as an unfinished record, and cuts it off.
        elif is_foreign(frame[:-_CHECK_BYTES]):
            found.notices.append(f"{path}[{at}]: record {number} is foreign, and every reader skips it")
        elif rule := _fault(frame[:-_CHECK_BYTES], path, number, facts):
            found.add(f"{path}[{at}]", f"record {number} {rule}")
        number, at = number + 1, end
        if number % _RECORDS_A_STEP == 0:
            on_progress("log bytes", at, size)
    return number


def _frame_length(file: BinaryIO, number: int) -> int | None:
    """Read the length in the head of a frame; -1 if the file ends before the head does, None if it is damaged."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return -1
    length, check = _HEAD.unpack(head)
    if check == xxhash.xxh32_intdigest(head[:4], number & 0xFFFFFFFF):
        return int(length)
    # After a power failure a file may end in zeros. As in LocalLog, that is a torn tail.
    if not any(head):
        while block := file.read(2**20):
            if any(block):
                return None
        return -1
    return None


def _is_sound(frame: bytes) -> bool:
    check = int.from_bytes(frame[-_CHECK_BYTES:], "little")
    return xxhash.xxh3_64_intdigest(frame[:-_CHECK_BYTES]) == check


def _fault(record: bytes, path: Path, number: int, facts: LogFacts) -> str | None:
    """Return the rule that a record breaks, None for a valid one."""
    try:
        decoded = decode(record, str(path), number)
    except SpotsieveError as error:
        return error.rule
    if not number and None not in (facts.log, decoded.log) and decoded.log != facts.log:
        return f"must begin the log {facts.log}, from which the state was built, and begins the log {decoded.log}"
    if facts.digest is not None and decoded.configuration is None and decoded.settings_digest != facts.digest:
        return "must be signed with the state's settings, is with others"
    return None
