"""Exports bring back every byte of a state, and a file that is not whole makes no state."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE
from spotsieve.state.format.entries import pack_entry, unpack_entry
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, encode_forget
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.state import State
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_SETTING, EXIT_STATE
from spotsieve.stream.base.page_text import ENTRY_SAMPLES
from spotsieve.stream.cli import main
from spotsieve.stream.engine import forget
from tests.conftest import REPOSITORY
from tests.fixtures.services.forking import forked_command
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.host_filings import remember_more
from tests.fixtures.states.local_states import (
    DIGEST,
    RECORDS,
    TEXT,
    apply_log,
    families_of,
    listing,
    names_entry,
    open_state,
)
from tests.fixtures.states.state_owner import owner
from tests.fixtures.waiting import SECONDS, wait_until

AT = 20
OWN = {"site": 1, "main": 2, "whole": 3, "every": 4, "limit": 5, "sample": [], "blocks": [], "titles": []}
MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ", ".zst": b"\x28\xb5\x2f\xfd", "": b'{"spotsieve_state":3,'}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with a forgotten page, memories of hosts and attempts. It is behind the end of its log."""
    directory = tmp_path_factory.mktemp("made") / "state"
    with open_state(directory) as state:
        apply_log(directory, 0, AT, state)
        postings = {name[8:]: value for name, value in state.items() if name.startswith(b"buckets/")}
        keys = tuple(int.from_bytes(key, "big") for key, value in postings.items() if names_entry(key, value, 7))
        (page_id,) = state.page_ids(np.array([7], np.uint64))
        assert page_id is not None
        record = encode_forget([ForgottenPage(7, *page_id, keys)], bytes(16), AT, DIGEST)
        with LocalLog(directory) as log:
            forget(state, decode(record), log.append(record))
        remember_more(state)
    return directory


@pytest.fixture(scope="module")
def exported(made: Path) -> list[bytes]:
    file = made.parent / "export.jsonl"
    assert main(["state", "export", "--state", str(made), "--out", str(file)]) == 0
    return file.read_bytes().splitlines()


def write(folder: Path, lines: list[bytes]) -> str:
    file = folder / "changed.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(file)


def sealed(lines: list[bytes], **counts: int) -> list[bytes]:
    """Return the lines with a trailer whose checksum fits them."""
    trailer = json.loads(lines[-1]) | counts
    trailer["xxh3_128"] = xxhash.xxh3_128_hexdigest(b"".join(line + b"\n" for line in lines[:-1]))
    return [*lines[:-1], json.dumps(trailer).encode()]


@pytest.mark.guarantee("an imported export is a byte-identical state", fault="the state's disk is lost")
@pytest.mark.parametrize("ending", MAGIC)
def test_an_imported_state_is_the_exported_one_byte_for_byte_and_goes_on_by_the_log(
    ending: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, copy = tmp_path / f"export.jsonl{ending}", tmp_path / "deep" / "copy"
    assert main(["state", "export", "--state", str(made), "--out", str(file)]) == 0
    assert f"record {AT + 1} of the log 'local'" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {file.name}
    assert file.read_bytes().startswith(MAGIC[ending])
    assert main(["state", "import", str(file), "--state", str(copy)]) == 0
    assert "copy the files 'log' (the log)" in capsys.readouterr().out
    assert {path.name for path in copy.iterdir()} == {INDEX_FOLDER}
    with open_state(made) as original, open_state(copy) as imported:
        assert first_difference(original, imported) is None
        assert original.identity == imported.identity
    shutil.copy(made / LOG_FILE, copy / LOG_FILE)
    found = verify(copy)
    assert (found.damages, found.checked["forgotten entries"]) == ([], 1)
    kept = Path(shutil.copytree(made, tmp_path / "kept"))
    for directory in (kept, copy):
        with open_state(directory) as state:
            apply_log(directory, AT + 1, RECORDS, state)
    with open_state(kept) as original, open_state(copy) as imported:
        assert original.position == RECORDS
        assert first_difference(original, imported) is None


def test_the_lines_say_what_the_state_holds(made: Path, exported: list[bytes]) -> None:
    header, *lines = map(json.loads, exported)
    assert (header["spotsieve_state"], header["log"], header["log_position"]) == (3, "local", AT + 1)
    assert (header["settings"], header["settings_digest"]) == (TEXT, DIGEST.hex())
    assert [line["text"] for line in lines if "source" in line and "text" in line] == [
        "pages",
        "news/ärger.jsonl",
        "only/tried.jsonl",
    ]
    entries = [line for line in lines if "entry" in line]
    assert [entry["entry"] for entry in entries] == list(range(header["entries"]))
    assert entries[7] == {"entry": 7, "forgotten": True}
    assert entries[8]["url"].startswith("https://example.org/ü/")
    assert entries[8].get("sketch", []) == []
    buckets = [line for line in lines if "bucket" in line]
    assert [bucket["bucket"] for bucket in buckets] == sorted(bucket["bucket"] for bucket in buckets)
    assert {bool(bucket["inline"]) for bucket in buckets if bucket["bucket"][:2] in ("fd", "fb", "fa")} == {False}
    assert all(len(bucket["inline"]) in (0, len(bucket["entries"])) for bucket in buckets)
    with open_state(made) as state:
        values = {name[8:].hex(): value for name, value in state.items() if name.startswith(b"buckets/")}
    key = next(bucket for bucket in buckets if len(bucket["entries"]) > 1)
    assert len(values[key["bucket"]]) == 1 + len(key["entries"]) * (13 if key["inline"] else 5)
    memories = [line for line in lines if "memory" in line]
    assert {memory["item_hand"] == 0 for memory in memories} == {True, False}
    assert max(len(memory["items"]) for memory in memories) > 10
    pending_verdicts = [line for line in lines if "attempt" in line]
    pages = [(attempt["source"], attempt["partition"], attempt["attempt"]) for attempt in pending_verdicts]
    assert pages == sorted(pages)
    assert {place[:2] for place in pages} >= {(0, -3), (0, 0), (0, 2), (2, 0)}
    assert (pending_verdicts[1]["original"], pending_verdicts[1]["score"], pending_verdicts[0]["score"]) == (
        None,
        None,
        0.1,
    )
    windows = [line for line in lines if "common" in line]
    assert [line["common"] for line in windows] == sorted(line["common"] for line in windows)
    assert lines[-1]["windows"] == len(windows) > 10
    postings = sum(len(bucket["entries"]) for bucket in buckets)
    assert lines[-1] | {"memories": len(memories), "attempts": len(pending_verdicts)} == lines[-1]
    assert (
        lines[-1] | {"end": True, "entries": len(entries), "buckets": len(buckets), "postings": postings} == lines[-1]
    )


def test_a_pipe_and_a_snapshot_and_a_running_state_are_exported_alike(
    made: Path, exported: list[bytes], tmp_path: Path
) -> None:
    assert main(["state", "snapshot", "--state", str(made), str(tmp_path / "snapshot")]) == 0
    before = listing(tmp_path / "snapshot")
    command = [str(forked_command(REPOSITORY)), "state"]
    export = [*command, "export", "--state", str(tmp_path / "snapshot")]
    done = subprocess.run(export, cwd=REPOSITORY, capture_output=True, check=True)
    assert done.stdout.splitlines() == exported
    assert b"exported" in done.stderr
    assert listing(tmp_path / "snapshot") == before
    running = Path(shutil.copytree(made, tmp_path / "running"))
    with owner(running, responds=True) as process:
        assert main(["state", "export", "--state", str(running), "-o", str(tmp_path / "running.jsonl")]) == 0
        process.kill()
    assert (tmp_path / "running.jsonl").read_bytes().splitlines() == exported
    imported = [*command, "import", "-", "--state", str(tmp_path / "copy"), "--json"]
    printed = json.loads(
        subprocess.run(imported, cwd=REPOSITORY, input=done.stdout, capture_output=True, check=True).stdout
    )
    assert printed["log_position"] == AT + 1
    assert printed["postings"] >= printed["buckets"] > 5_000


Change = Callable[[list[bytes]], list[bytes]]


def replaced(place: int | str, **fields: Any) -> Change:
    """Other fields in a line. place: its number, or the kind of line of which the last is changed"""

    def change(lines: list[bytes]) -> list[bytes]:
        changed = list(lines)
        mark = f'{{"{place}":'.encode()
        at = place if isinstance(place, int) else max(n for n, line in enumerate(lines) if line.startswith(mark))
        changed[at] = json.dumps(json.loads(lines[at]) | fields).encode()
        return sealed(changed)

    return change


@pytest.mark.guarantee("a damaged state is reported and gives no verdict", fault="an export that was cut or changed")
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda lines: lines[:0], "line 1 must follow: the export is cut"),
        (lambda lines: lines[:-1], "must follow: the export is cut"),
        (lambda lines: lines[:100], "must follow: the export is cut"),
        (lambda lines: [*lines[:50], *lines[51:]], "must match the grammar in state/FORMATS.md"),
        (lambda lines: [*lines[:-3], *lines[-2:]], "must have the counts and the checksum"),
        (
            lambda lines: [line.replace(b'"event_time_ms":', b'"event_time_ms":1') for line in lines],
            "must have the counts",
        ),
        (lambda lines: [*lines, lines[-2]], "must not exist: the export has ended"),
        (lambda lines: [lines[0], *lines[2:]], "must match the grammar in state/FORMATS.md"),
        (lambda lines: [lines[0], lines[-2], *lines[1:]], "in this order"),
        (lambda lines: lines[1:], "must begin with the header of an export"),
        (lambda lines: [b"no JSON", *lines], "must match the grammar in state/FORMATS.md"),
        (lambda lines: [b"[]", *lines], "must match the grammar in state/FORMATS.md"),
        (replaced(0, spotsieve_state=2), "must be an export of version 3 of a state of format 4"),
        (replaced(0, format=3), "must be an export of version 3 of a state of format 4"),
        (replaced(0, settings="{}"), "must match the grammar in state/FORMATS.md"),
        (replaced(0, log_position="one"), "must match the grammar in state/FORMATS.md"),
        (replaced(0, first_entry=1), "must match the grammar in state/FORMATS.md"),
        (replaced(0, entries=5), "must match the grammar in state/FORMATS.md"),
        (replaced(0, entries=10**6), "must come after 1000000 entries"),
        (replaced(1, text=5), "must match the grammar in state/FORMATS.md"),
        (replaced(5, source=9), "must match the grammar in state/FORMATS.md"),
        (replaced(0, host_sweep=["0"]), "must match the grammar in state/FORMATS.md"),
        (replaced(5, own={"site": 1}), "must match the grammar in state/FORMATS.md"),
        (replaced(5, own=OWN | {"sample": [6, 5]}), "must match the grammar in state/FORMATS.md"),
        (replaced(5, own=OWN | {"sample": [5] * (ENTRY_SAMPLES + 1)}), "must match the grammar in state/FORMATS.md"),
        (replaced(5, own=OWN | {"blocks": ["5", "5"]}), "must match the grammar in state/FORMATS.md"),
        (replaced(5, own=OWN | {"blocks": [5]}), "must match the grammar in state/FORMATS.md"),
        (replaced(5, own=OWN | {"blocks": ["1" + 16 * "0"]}), "must match the grammar in state/FORMATS.md"),
        (replaced(5, own=OWN | {"main": 256}), "must match the grammar in state/FORMATS.md"),
        (replaced(5, own=OWN | {"titles": [7, 6]}), "must match the grammar in state/FORMATS.md"),
        (replaced(5, own=OWN | {"titles": [2**16]}), "must match the grammar in state/FORMATS.md"),
        (replaced(5, partition=2**31), "must match the grammar in state/FORMATS.md"),
        (replaced(5, sketch=["xyz"]), "must match the grammar in state/FORMATS.md"),
        (replaced(5, sketch=["1"]), "must match the grammar in state/FORMATS.md"),
        (replaced(5, more=1), "must match the grammar in state/FORMATS.md"),
        (replaced("bucket", entries=[10**6]), "must match the grammar in state/FORMATS.md"),
        (replaced("bucket", entries=[5, 5]), "must match the grammar in state/FORMATS.md"),
        (replaced("bucket", entries=[5, 4], inline=["0" * 16] * 2), "must match the grammar in state/FORMATS.md"),
        (replaced("bucket", entries=[-1]), "must match the grammar in state/FORMATS.md"),
        (replaced("bucket", inline=[]), "must match the grammar in state/FORMATS.md"),
        (replaced("bucket", bucket="0" * 16), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", memory="0" * 16), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", urls="0" * 16), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", urls="1" + "0" * 16), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", urls=5), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", last=10**6), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", item_hand=10**4), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", word_floor=256), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", items=[[5, 16, 1, 1]], item_hand=0), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", items=[[5, 0, 4096, 1]], item_hand=0), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", items=[[5, 0, 1, 0]], item_hand=0), "must match the grammar in state/FORMATS.md"),
        (
            replaced("memory", items=[[5, 0, 1, 1], [5, 0, 2, 2]], item_hand=0),
            "must match the grammar in state/FORMATS.md",
        ),
        (replaced("memory", items=[[2**28, 0, 1, 1]], item_hand=0), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", items=[[5, 0, 1]], item_hand=0), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", words=[[5, 0, 0, 1]], word_hand=0), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", words=5), "must match the grammar in state/FORMATS.md"),
        (replaced("memory", more=1), "must match the grammar in state/FORMATS.md"),
        (replaced("attempt", attempt=-1), "must match the grammar in state/FORMATS.md"),
        (replaced("common", common=2**15), "must match the grammar in state/FORMATS.md"),
        (replaced("common", common=-1), "must match the grammar in state/FORMATS.md"),
        (replaced("common", slots=["0" * 16] * 8), "must match the grammar in state/FORMATS.md"),
        (replaced("common", slots=["1" * 16] * 7), "must match the grammar in state/FORMATS.md"),
        (replaced("common", more=1), "must match the grammar in state/FORMATS.md"),
        (replaced("attempt", source=9), "must match the grammar in state/FORMATS.md"),
        (replaced("attempt", source=0), "must match the grammar in state/FORMATS.md"),
        (replaced("attempt", original=10**6), "must match the grammar in state/FORMATS.md"),
        (replaced("attempt", original=None), "must match the grammar in state/FORMATS.md"),
        (replaced("attempt", reason=256), "must match the grammar in state/FORMATS.md"),
        (replaced("attempt", more=1), "must match the grammar in state/FORMATS.md"),
        (lambda lines: [*lines[:-2], lines[-1]], "must have the counts and the checksum"),
        (lambda lines: [*lines[:-2], lines[-1], lines[-2]], "must have the counts and the checksum"),
    ],
)
def test_an_export_that_is_cut_or_changed_is_refused_and_makes_no_state(
    change: Change, rule: str, exported: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, change(exported))
    assert main(["state", "import", file, "--state", str(tmp_path / "copy")]) == EXIT_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"spotsieve: {file}")
    assert rule in line
    assert list((tmp_path / "copy").iterdir()) == []


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_a_compressed_export_that_was_cut_is_refused(
    ending: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"export.jsonl{ending}"
    assert main(["state", "export", "--state", str(made), "--out", str(file)]) == 0
    whole = file.read_bytes()
    for end, then in ((-100, "copy the complete file again"), (12, "nothing was imported; copy the complete file")):
        file.write_bytes(whole[:end])
        assert main(["state", "import", str(file), "--state", str(tmp_path / "copy")]) == EXIT_INPUT
        error = capsys.readouterr().err
        assert str(file) in error
        assert then in error
        assert list((tmp_path / "copy").iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_export_to_a_full_disk_says_what_to_do(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "export", "--state", str(made), "--out", "/dev/full"]) == EXIT_STATE
    assert capsys.readouterr().err.endswith("No space left on device; free disk space, and run again\n")


def value_of(state: State, key: bytes) -> bytes:
    (value,) = [value for name, value in state.items() if name == b"entries/" + key]
    return value


def test_text_that_is_not_utf_8_comes_back_as_it_was(made: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(made, tmp_path / "state"))
    with open_state(directory) as state:
        key = (9).to_bytes(8, "big")
        parts = unpack_entry(key, value_of(state, key))
        changed = parts._replace(url=b"https://example.org/\xff\xed\xa0\x80", label="ä\n\x1b".encode())
        families_of(state)["entries"][key] = pack_entry(changed)
    assert main(["state", "export", "--state", str(directory), "-o", str(tmp_path / "export.jsonl")]) == 0
    assert main(["state", "import", str(tmp_path / "export.jsonl"), "--state", str(tmp_path / "copy")]) == 0
    with open_state(directory) as original, open_state(tmp_path / "copy") as imported:
        assert value_of(imported, key) == pack_entry(changed)
        assert first_difference(original, imported) is None


def test_a_state_that_is_there_is_not_written_over_and_mistakes_are_one_line(
    made: Path, exported: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, exported)
    before = {path: path.read_bytes() for path in (made / INDEX_FOLDER).iterdir()}

    def refused(code: int, rule: str, *arguments: object) -> None:
        capsys.readouterr()
        assert main(["state", *map(str, arguments)]) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert rule in line

    refused(EXIT_STATE, "must hold no state yet", "import", file, "--state", made)
    assert before == {path: path.read_bytes() for path in (made / INDEX_FOLDER).iterdir()}
    refused(EXIT_INPUT, "cannot be read", "import", tmp_path / "nowhere", "--state", tmp_path / "copy")
    refused(EXIT_STATE, "must be a directory that can be written", "import", file, "--state", file)
    refused(EXIT_STATE, "must hold a state", "export", "--state", tmp_path)
    refused(EXIT_SETTING, "set --out FILE", "export", "--state", made, "--json")
    refused(EXIT_SETTING, "cannot be written", "export", "--state", made, "--out", tmp_path / "none" / "file")
    refused(EXIT_SETTING, "must not end in .csv", "export", "--state", made, "--out", tmp_path / "export.csv")


def test_a_damaged_state_leaves_no_export(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = Path(shutil.copytree(made, tmp_path / "state"))
    with open_state(directory) as state:
        families_of(state)["entries"][(9).to_bytes(8, "big")] = b"\x02damaged"
    file = tmp_path / "export.jsonl"
    assert main(["state", "export", "--state", str(directory), "-o", str(file)]) == EXIT_STATE
    assert "entries[0000000000000009]" in capsys.readouterr().err
    assert not list(tmp_path.glob("export*"))


def test_two_processes_do_not_build_one_state(
    made: Path, exported: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, snapshot, export = tmp_path / "imported", tmp_path / "snapshot", Path(write(tmp_path, exported))
    assert main(["state", "snapshot", "--state", str(made), str(snapshot)]) == 0
    capsys.readouterr()
    command = [sys.executable, "-m", "spotsieve.stream", "state", "import", "-", "--state", str(target)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as first:
        assert first.stdin is not None
        first.stdin.write(export.read_bytes()[:-1])
        first.stdin.flush()
        wait_until((target / ".import-partial").exists, SECONDS, "the first import")
        for action in ("import", "restore"):
            source = export if action == "import" else snapshot
            assert main(["state", action, str(source), "--state", str(target)]) == EXIT_STATE
            assert "must be built by one process at a time" in capsys.readouterr().err
        first.communicate(export.read_bytes()[-1:])
    assert first.returncode == 0
    assert [path.name for path in target.iterdir()] == [INDEX_FOLDER]
    with open_state(made) as original, open_state(target) as imported:
        assert first_difference(original, imported) is None
