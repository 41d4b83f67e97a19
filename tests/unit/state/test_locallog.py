"""The log as a file: kept whole across crashes, and damage is never mistaken for a torn tail."""

import errno
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.log.local import MAGIC, LocalLog, TornTail
from spotsieve.stream.base.errors import CorruptRecord, StateError, StateLockedError

RECORDS = [bytes([number]) * (number * 37 + 1) for number in range(20)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with LocalLog(tmp_path) as log:
        assert [log.append(record) for record in RECORDS] == list(range(20))
    return tmp_path


def read(directory: Path, offset: int = 0) -> list[bytes]:
    with LocalLog(directory) as log:
        return [record for _, record in log.read_from(offset)]


def test_records_come_back_in_order_from_any_offset_after_reopening(directory: Path) -> None:
    assert read(directory) == RECORDS
    assert read(directory, 13) == RECORDS[13:]
    assert read(directory, 20) == []
    with LocalLog(directory) as log:
        assert log.append(b"more") == 20
        assert list(log.read_from(19)) == [(19, RECORDS[19]), (20, b"more")]


def test_a_tail_torn_at_any_byte_is_cut_with_a_warning_and_the_log_goes_on(directory: Path) -> None:
    path = directory / LOG_FILE
    whole = path.read_bytes()
    last_frame = 16 + len(RECORDS[-1])
    for missing in range(1, last_frame, 23):
        path.write_bytes(whole[:-missing])
        with pytest.warns(TornTail, match="are an incomplete record 19; they were cut off"):
            log = LocalLog(directory)
        with log:
            assert log.end == 19
            assert log.append(RECORDS[19]) == 19
        assert path.read_bytes() == whole


def test_zeros_after_the_last_frame_are_a_torn_tail(directory: Path) -> None:
    with (directory / LOG_FILE).open("ab") as file:
        file.write(bytes(4096))
    with pytest.warns(TornTail, match="the last 4096 bytes"):
        log = LocalLog(directory)
    with log:
        assert [record for _, record in log.read_from(0)] == RECORDS


def test_a_changed_byte_before_the_last_frame_is_corrupt_and_names_file_and_place(directory: Path) -> None:
    path = directory / LOG_FILE
    whole = path.read_bytes()
    for place in range(len(MAGIC), len(whole) - 16 - len(RECORDS[-1]), 41):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(CorruptRecord, match=r"log\[\d+\].*must match its checksum; restore the log"):
                read(directory)


def test_a_file_that_is_no_log_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / LOG_FILE).write_bytes(b"something else entirely")
    with pytest.raises(StateError, match="local log must begin with"):
        LocalLog(tmp_path)
    assert (tmp_path / LOG_FILE).read_bytes() == b"something else entirely"


def test_a_log_in_use_is_refused(directory: Path) -> None:
    in_use = "must belong to one process, and another one holds its lock"
    with LocalLog(directory), pytest.raises(StateLockedError, match=in_use):
        LocalLog(directory)
    assert read(directory) == RECORDS


def test_a_full_disk_leaves_the_log_as_it_was(directory: Path) -> None:
    program = f"""
import resource
from pathlib import Path
from spotsieve.state.log.local import LocalLog
from spotsieve.stream.base.errors import StateError
log = LocalLog(Path({str(directory)!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, ({(directory / LOG_FILE).stat().st_size + 1000}, resource.RLIM_INFINITY))
log.append(b"fits")
try:
    log.append(bytes(2000))
except StateError as error:
    print(error)
log.append(b"fits too")
log.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=400, check=True)
    assert "local log must be a file that can grow: File too large" in done.stdout
    assert "raise the limit of file sizes (ulimit -f) or choose another directory" in done.stdout
    assert read(directory) == [*RECORDS, b"fits", b"fits too"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("number", "then"),
    [
        (errno.ENOSPC, "free disk space"),
        (errno.EDQUOT, "free disk space"),
        (errno.EROFS, "make it writable"),
        (errno.EACCES, "make it writable"),
        (errno.EIO, "check the path and the disk"),
    ],
)
def test_the_advice_fits_the_reason_why_the_log_cannot_be_written(
    directory: Path, number: int, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    log = LocalLog(directory)
    with monkeypatch.context() as failing:
        failing.setattr(os, "fdatasync", fail)
        with pytest.raises(StateError, match=f"{os.strerror(number)}, got .*; {then}"):
            log.sync()
    log.close()


def test_a_directory_that_cannot_be_made_is_a_state_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="local log must be a file that can grow: Not a directory"):
        LocalLog(tmp_path / "file" / "below")
