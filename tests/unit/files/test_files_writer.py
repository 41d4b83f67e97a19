"""Outputs are complete under their name, or partial under another."""

import errno
import gzip
import io
import lzma
import os
from pathlib import Path

import pytest
import zstandard

from spotsieve.stream.base.errors import InputError, SettingError, StateError
from spotsieve.stream.files.file_format import Record
from spotsieve.stream.files.jsonlines import JSON_LINES
from spotsieve.stream.files.outputs import FileOutputs, OutputFile, write_whole
from spotsieve.stream.files.targets import places_of
from spotsieve.stream.files.warc.formats import WARC
from tests.fixtures.filter_crawl import read


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_the_names_ending_chooses_the_compression(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"novel.jsonl{ending}"
    output = OutputFile(str(path))
    output.write_record(Record(0, b'{"a": 1}\r'), JSON_LINES)
    output.write_line(b"{}")
    assert not path.exists(), "an output has its name only when it is complete"
    output.complete()
    assert read(path) == b'{"a": 1}\r\n{}\n'
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_an_empty_output_is_a_valid_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"novel.jsonl{ending}"
    OutputFile(str(path)).complete()
    assert read(path) == b""
    if ending == ".gz":
        assert gzip.decompress(path.read_bytes()) == b""
    if ending == ".xz":
        assert lzma.decompress(path.read_bytes()) == b""


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst", ".bz2"])
def test_a_warc_output_whose_pages_were_all_dropped_is_a_valid_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"novel.warc{ending}"
    output = OutputFile(str(path))
    output.know_record(Record(0, b"WARC/1.1\r\none\r\n\r\n"), WARC)
    output.complete()
    assert read(path) == b""
    assert path.stat().st_size > 0, "a file of 0 bytes is damaged to gzip, xz, zstd and bzip2"


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_warc_records_are_compressed_one_by_one(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"novel.warc{ending}"
    output = OutputFile(str(path))
    records = [b"WARC/1.1\r\none\r\n\r\n", b"WARC/1.1\r\ntwo\r\n\r\n"]
    for number, raw in enumerate(records):
        output.write_record(Record(number, raw), WARC)
    output.complete()
    assert read(path) == b"".join(records)
    first = (
        gzip.compress(records[0], 6, mtime=0)
        if ending == ".gz"
        else zstandard.ZstdCompressor(3, write_checksum=True).compress(records[0])
    )
    assert path.read_bytes().startswith(first)


def test_an_abandoned_output_is_readable_and_has_another_name(tmp_path: Path) -> None:
    path = tmp_path / "novel.jsonl.gz"
    path.write_bytes(b"of an earlier run")
    output = OutputFile(str(path))
    output.write_line(b"{}")
    partial = output.abandon()
    assert partial == tmp_path / "novel.jsonl.gz.partial"
    assert read(partial) == b"{}\n"
    assert path.read_bytes() == b"of an earlier run"


@pytest.mark.parametrize("name", ["novel.jsonl", "novel.jsonl.gz", "novel.parquet"])
def test_an_abandoned_output_without_content_leaves_no_file(tmp_path: Path, name: str) -> None:
    assert OutputFile(str(tmp_path / name)).abandon() is None
    assert not list(tmp_path.iterdir())


def test_a_partial_file_shows_what_was_written_when_it_is_flushed(tmp_path: Path) -> None:
    output = OutputFile(str(tmp_path / "novel.jsonl"))
    output.write_line(b"{}")
    output.flush()
    assert (tmp_path / "novel.jsonl.partial").read_bytes() == b"{}\n"
    output.complete()


def test_what_is_no_regular_file_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        output = OutputFile(str(pipe))
        output.write_line(b"{}")
        output.flush()
        assert os.read(reader, 100) == b"{}\n"
        output.complete()
    finally:
        os.close(reader)
    assert names(tmp_path) == ["pipe"]


def test_standard_output_is_left_open() -> None:
    stdout = io.BytesIO()
    output = OutputFile("-", stdout)
    output.write_line(b"{}")
    output.complete()
    assert stdout.getvalue() == b"{}\n"


def test_both_layouts_in_one_output_are_refused(tmp_path: Path) -> None:
    output = OutputFile(str(tmp_path / "out"))
    output.write_record(Record(0, b"{}"), JSON_LINES)
    with pytest.raises(SettingError, match="cannot contain records of two formats"):
        output.write_record(Record(0, b"WARC/1.0"), WARC)
    output.abandon()


def test_an_output_that_cannot_be_opened_is_a_setting_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="No such file or directory"):
        FileOutputs.open(str(tmp_path / "a"), None, str(tmp_path / "missing" / "b"), None)
    assert names(tmp_path) == []


def test_a_full_disk_says_what_to_do() -> None:
    output = OutputFile("/dev/full")
    output.write_line(b"x" * 100)
    with pytest.raises(StateError, match=r"No space left on device.*free disk space"):
        output.complete()


def test_a_whole_file_that_cannot_be_written_leaves_no_part_and_the_former_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "model").write_bytes(b"former")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match="No space left on device; free disk space, or choose another path"):
        write_whole(tmp_path / "model", b"later")
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == b"former"


def test_an_output_behind_a_symbolic_link_is_written_to_its_target(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("old.jsonl", "new.jsonl"):
        link, target = tmp_path / f"latest-{name}", tmp_path / "data" / name
        link.symlink_to(target)
        if name == "old.jsonl":
            target.write_bytes(b"old")
        output = OutputFile(str(link))
        output.write_line(b"1")
        assert target.with_name(f"{name}.partial").exists()
        output.complete()
        assert link.is_symlink()
        assert target.read_bytes() == b"1\n"
        assert places_of(str(link)) == (str(target.resolve()), f"{target.resolve()}.partial")
    assert sorted(names(tmp_path / "data")) == ["new.jsonl", "old.jsonl"]
