"""`spotsieve state verify` names each kind of damage, and a damaged state gives no verdicts."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from rocksdict import Rdict, WriteBatch

from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE, made_whole
from spotsieve.state.format.entries import FORGOTTEN, pack_entry, unpack_entry
from spotsieve.state.format.entry_bytes import OwnParts
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, encode_forget
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.state.verify.families import Findings
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import EXIT_OK, EXIT_STATE, CorruptRecord, StateError, StateLockedError
from spotsieve.stream.base.settings.digest import RANKED_BY_FIELD, verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, PolicySettings, Settings
from spotsieve.stream.cli import main
from spotsieve.stream.engine import forget
from spotsieve.stream.sign.fingerprints.permuted_tables import BARE_TAGS
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import filter_json, lines, page
from tests.fixtures.states.host_filings import remember_more
from tests.fixtures.states.local_states import (
    DIGEST,
    RECORDS,
    TEXT,
    apply_log,
    families_of,
    flip,
    listing,
    names_entry,
    open_state,
)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state that was closed in order, with its log."""
    directory = tmp_path_factory.mktemp("closed")
    with open_state(directory) as state:
        apply_log(directory, 0, RECORDS, state)
        remember_more(state)
        state.compact()
    return directory


@pytest.mark.parametrize(
    ("number", "then"),
    [
        (errno.ENOSPC, "free disk space, and verify again"),
        (errno.EFBIG, "raise the limit of file sizes"),
        (errno.EACCES, "verify as the user who owns the state"),
    ],
)
def test_the_advice_of_a_verification_without_a_copy_fits_the_reason(
    number: int, then: str, closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(shutil, "copyfile", fail)
    with pytest.raises(StateError, match=rf"{os.strerror(number)}, got '.*'; {then}") as refused:
        verify(closed)
    assert ("free disk space" in str(refused.value)) == (number == errno.ENOSPC)


@pytest.mark.parametrize(
    ("number", "then"),
    [
        (errno.ENOSPC, "free disk space"),
        (errno.EFBIG, "raise the limit of file sizes"),
        (errno.EROFS, "make it writable for this user"),
        (errno.EACCES, "check the permissions there"),
    ],
)
def test_the_advice_for_a_directory_that_cannot_be_made_fits_the_reason(number: int, then: str, tmp_path: Path) -> None:
    with (
        pytest.raises(StateError, match=rf"TARGET must .*: {os.strerror(number)}, got '.*/new'; {then}"),
        made_whole("TARGET", tmp_path / "new"),
    ):
        raise OSError(number, os.strerror(number))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state as kill -9 leaves it: buckets are flushed, the rest is only in write-ahead logs."""
    directory = tmp_path_factory.mktemp("running")
    with open_state(directory) as state:
        for end in (10, 25, RECORDS):
            apply_log(directory, state.position, end, state)
            if end < RECORDS:
                families_of(state)["buckets"].flush()
        copy = tmp_path_factory.mktemp("killed")
        shutil.copytree(directory, copy, dirs_exist_ok=True)
    return copy


@pytest.fixture
def directory(closed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(closed, tmp_path / "state"))


@pytest.fixture
def interrupted(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "state"))


def change(directory: Path, family: str, key: bytes, value: bytes | None) -> None:
    """Write a wrong value under a right checksum, as a defect of ours would; None: delete it."""
    database = Rdict(str(directory / INDEX_FOLDER), database_options(), column_families(None))
    opened = database if family == "default" else database.get_column_family(family)
    if value is None:
        opened.delete(key)
    else:
        opened[key] = value
    if opened is not database:
        opened.close()
    database.close()


def value_of(directory: Path, family: str, key: bytes) -> bytes:
    database = Rdict(str(directory / INDEX_FOLDER), database_options(), column_families(None))
    opened = database.get_column_family(family)
    value = opened[key]
    opened.close()
    database.close()
    assert isinstance(value, bytes)
    return value


def the_damage(found: Findings) -> str:
    assert found.damaged == 1, found.damages
    return f"{found.damages[0].place} {found.damages[0].rule}"


def largest_table(directory: Path) -> Path:
    return max((directory / INDEX_FOLDER).glob("*.sst"), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("which", ["closed", "killed"])
def test_a_whole_state_is_walked_without_being_changed(which: str, request: pytest.FixtureRequest) -> None:
    directory: Path = request.getfixturevalue(which)
    before = listing(directory)
    steps: list[str] = []
    found = verify(directory, on_progress=lambda what, _done, _of: steps.append(what))
    assert (found.damaged, found.notices) == (0, [])
    assert found.log_position == found.checked["log records"] == RECORDS
    assert found.checked["entries"] > 1000
    assert found.checked["postings"] >= found.checked["buckets"] > 10_000
    assert found.checked["sources"] == (3 if which == "closed" else 2)
    assert found.checked["hosts"] >= 5
    assert found.checked["attempts"] > 10
    assert "buckets" in steps
    assert listing(directory) == before


def test_a_flipped_byte_in_a_table_file_is_found_with_offset_and_the_walk_goes_on(directory: Path) -> None:
    whole = verify(directory).checked
    table = largest_table(directory)
    flip(table, table.stat().st_size // 2)
    found = verify(directory)
    damage = the_damage(found)
    assert damage.startswith("buckets[")
    assert table.name in damage
    assert "offset" in damage
    assert found.checked["buckets"] > whole["buckets"] * 0.9
    assert found.checked["entries"] == whole["entries"]


def test_forgotten_entries_are_counted_and_a_posting_that_names_one_is_damage(directory: Path) -> None:
    with open_state(directory) as state:
        postings = {name[8:]: posting for name, posting in state.items() if name.startswith(b"buckets/")}
        keys = [int.from_bytes(key, "big") for key, value in postings.items() if names_entry(key, value, 7)]
        (page_id,) = state.page_ids(np.array([7], np.uint64))
        assert page_id is not None
        record = encode_forget([ForgottenPage(7, *page_id, tuple(keys))], bytes(16), 0, DIGEST)
        with LocalLog(directory) as log:
            applied = forget(state, decode(record), log.append(record))
        assert applied.forgotten == (page_id,)
    found = verify(directory)
    assert (found.damages, found.checked["forgotten entries"]) == ([], 1)
    change(directory, "entries", (8).to_bytes(8, "big"), FORGOTTEN)
    found = verify(directory)
    assert found.damaged == sum(names_entry(key, value, 8) for key, value in postings.items()) > 0
    assert "must name entries that exist, names entries[0000000000000008]" in found.damages[0].rule


def test_several_flipped_bytes_are_counted_and_shown_up_to_a_limit(directory: Path) -> None:
    table = largest_table(directory)
    size = table.stat().st_size
    for part in (0.1, 0.3, 0.5, 0.7):
        flip(table, int(size * part))
    found = verify(directory, shown=2)
    assert found.damaged == 4
    assert len(found.damages) == 2


@pytest.mark.guarantee("a damaged state is reported and gives no verdict", fault="a flipped byte of a table file")
def test_a_flipped_byte_of_any_table_file_is_never_passed_over(closed: Path, tmp_path: Path) -> None:
    tables = sorted((closed / INDEX_FOLDER).glob("*.sst"))
    assert tables
    for number, table in enumerate(tables):
        copy = Path(shutil.copytree(closed, tmp_path / str(number)))
        flip(copy / INDEX_FOLDER / table.name, 40)
        assert verify(copy).damaged, table.name


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (lambda index: largest_table(index.parent).unlink(), ".sst"),
        (lambda index: os.truncate(largest_table(index.parent), 1000), ".sst"),
        (lambda index: next(index.glob("MANIFEST-*")).unlink(), "MANIFEST"),
        (lambda index: flip(next(index.glob("MANIFEST-*")), 60), "MANIFEST"),
        (lambda index: (index / "CURRENT").unlink(), "CURRENT"),
        (lambda index: (index / "CURRENT").write_bytes(b""), "CURRENT"),
    ],
)
def test_a_file_that_is_missing_or_cut_is_named_and_the_state_does_not_open(
    directory: Path, harm: Callable[[Path], None], named: str
) -> None:
    harm(directory / INDEX_FOLDER)
    assert named in the_damage(verify(directory))
    before = listing(directory / INDEX_FOLDER).keys()
    with pytest.raises(CorruptRecord, match=named) as refused:
        open_state(directory)
    assert "spotsieve state restore" in str(refused.value)
    assert {name for name in before if name.endswith(".sst")} <= listing(directory / INDEX_FOLDER).keys()


@pytest.mark.guarantee(
    "a damaged state is reported and gives no verdict", fault="a write-ahead log lost, cut or flipped"
)
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("harm", ["lost", "cut", "flipped"])
def test_a_damaged_earlier_write_ahead_log_is_refused_or_leads_to_an_earlier_state(
    interrupted: Path, number: int, harm: str
) -> None:
    logs = sorted((interrupted / INDEX_FOLDER).glob("*.log"))
    assert len(logs) > number + 1, "an earlier one than the last"
    size = logs[number].stat().st_size
    if harm == "lost":
        logs[number].unlink()
    elif harm == "cut":
        os.truncate(logs[number], size // 2)
    else:
        flip(logs[number], size // 2)
    assert verify(interrupted).damaged
    try:
        state = open_state(interrupted)
    except CorruptRecord as refused:
        assert "spotsieve state restore" in str(refused)  # noqa: PT017 - the other outcome is tested below
    else:
        assert harm != "lost"
        with state:
            apply_log(interrupted, state.position, RECORDS, state)
        assert verify(interrupted).damaged == 0


@pytest.mark.parametrize("harm", ["cut", "flipped"])
def test_a_damaged_end_of_the_last_write_ahead_log_is_told_and_the_state_goes_on(interrupted: Path, harm: str) -> None:
    last = max((interrupted / INDEX_FOLDER).glob("*.log"))
    if harm == "cut":
        os.truncate(last, last.stat().st_size - 5)
    else:
        flip(last, last.stat().st_size // 2)
    damage = the_damage(verify(interrupted))
    assert "write-ahead log" in damage
    assert "falls back" in damage
    with open_state(interrupted) as state:
        assert 25 <= state.position < RECORDS
        apply_log(interrupted, state.position, RECORDS, state)
    assert verify(interrupted).damaged == 0


def test_a_flipped_byte_in_a_log_record_is_found_with_offset_and_the_rest_is_read(directory: Path) -> None:
    log = directory / LOG_FILE
    flip(log, log.stat().st_size // 2)
    found = verify(directory)
    damage = the_damage(found)
    assert str(log) in damage
    assert "must match its checksum" in damage
    assert found.checked["log records"] == RECORDS
    shutil.rmtree(directory / INDEX_FOLDER)
    with open_state(directory) as state, pytest.raises(CorruptRecord, match="must match its checksum"):
        apply_log(directory, 0, RECORDS, state)


def test_a_flipped_byte_in_the_head_of_a_log_record_ends_the_walk_and_is_counted(directory: Path) -> None:
    log = directory / LOG_FILE
    first = int.from_bytes(log.read_bytes()[8:12], "little")
    flip(log, 8 + 8 + first + 8)
    found = verify(directory)
    rules = " ".join(damage.rule for damage in found.damages)
    assert "the head of record 1 must match its checksum" in rules
    assert f"must reach the state's position {RECORDS}" in rules


def test_a_torn_tail_of_the_log_is_a_damage_only_where_the_state_had_applied_it(directory: Path) -> None:
    log = directory / LOG_FILE
    with log.open("ab") as file:
        file.write(b"\x07\x00")
    found = verify(directory)
    assert (found.damaged, len(found.notices)) == (0, 1)
    os.truncate(log, log.stat().st_size - 20)
    found = verify(directory)
    assert f"must reach the state's position {RECORDS}, but ends at {RECORDS - 1}" in the_damage(found)


def reversed_titles(value: bytes) -> bytes:
    """An entry whose own text is out of order."""
    own = OwnParts(1, 2, 3, 4, 5, (), (), (7, 6))
    return pack_entry(unpack_entry(b"", value)._replace(own=own))


@pytest.mark.guarantee("a damaged state is reported and gives no verdict", fault="a value that violates the grammar")
@pytest.mark.parametrize(
    ("family", "key", "change_value", "rule"),
    [
        ("entries", 7, lambda value: value[:-1], "must have the length and the source that it declares"),
        ("entries", 7, lambda value: b"\x09" + value[1:], "must be version 5 or 6 and at least 42 bytes"),
        (
            "entries",
            7,
            lambda value: pack_entry(unpack_entry(b"", value)._replace(sketch=(1,))),
            "must be version 5 with a distinctive text, a sketch of 0 words, by the settings of the state",
        ),
        (
            "entries",
            7,
            lambda value: pack_entry(unpack_entry(b"", value)._replace(own=None)),
            "must be version 5 with a distinctive text",
        ),
        ("entries", 7, lambda value: value[:2] + b"\x09" + value[3:], "the source that it declares"),
        ("entries", 7, reversed_titles, "16 blocks and 10 title words, which ascend"),
        ("entries", 10**6, lambda value: value, "must be one of 0 to"),
        ("sources", 1, lambda value: b"\x07" + value[1:], "must be version 1"),
        ("sources", 5, lambda value: value, "must have the number 3"),
    ],
)
def test_a_value_against_the_grammar_is_named_by_its_key_in_hex(
    directory: Path, family: str, key: int, change_value: Callable[[bytes], bytes], rule: str
) -> None:
    name = key.to_bytes(8, "big")
    base = value_of(directory, family, (min(key, 1) if family == "sources" else min(key, 7)).to_bytes(8, "big"))
    change(directory, family, name, change_value(base))
    damage = the_damage(verify(directory))
    assert damage.startswith(f"{family}[{name.hex()}] ")
    assert rule in damage


@pytest.mark.guarantee("a damaged state is reported and gives no verdict", fault="a value that violates the grammar")
@pytest.mark.parametrize(
    ("family", "key", "value", "rule"),
    [
        ("hosts", bytes(7), b"", "must have a key of 8 bytes"),
        ("hosts", bytes(7) + b"\x05", b"\x07", "must be version 4, "),
        ("hosts", bytes(7) + b"\x05", b"\4" + b"\xff" * 5 + b"\1" + bytes(25), "must have learned at one of"),
        ("hosts", bytes(7) + b"\x05", b"\4" + bytes(31), "URLs, at most 3072 items"),
        ("attempts", bytes(15), bytes(19), "must have a key of 16 bytes"),
        ("attempts", bytes(16), bytes(19), "must be version 1 and 19 bytes"),
        ("attempts", bytes(16), b"\1" + b"\xff" * 8 + bytes(10), "with or without a score, or neither"),
        ("attempts", bytes(16), b"\1" + bytes(4) + b"\1" + bytes(13), "must name a source and an entry that existed"),
        ("attempts", b"\1" * 16, b"\1" + bytes(18), "must name a source and an entry that existed"),
    ],
)
def test_a_memory_or_an_attempt_against_the_grammar_is_named(
    directory: Path, family: str, key: bytes, value: bytes, rule: str
) -> None:
    change(directory, family, key, value)
    damage = the_damage(verify(directory))
    assert damage.startswith(f"{family}[{key.hex()}] ")
    assert rule in damage


def test_references_are_followed_both_ways(directory: Path) -> None:
    key = bytes(7) + b"\x05"
    change(directory, "buckets", key, b"\x02" + (10**9).to_bytes(5, "little") + bytes(8))
    assert f"buckets[{key.hex()}] must name entries that exist, names entries[{10**9:016x}]" in the_damage(
        verify(directory)
    )
    change(directory, "buckets", key, b"\x02" + bytes(13) + bytes(13))
    assert "ascending order of entry number" in the_damage(verify(directory))
    change(directory, "buckets", key, None)
    unused = b"\xfc" + bytes(7)
    change(directory, "buckets", unused, b"\x02" + bytes(13))
    assert f"buckets[{unused.hex()}] must have a tag that is in use, has 252" in the_damage(verify(directory))
    change(directory, "buckets", unused, None)
    assert verify(directory).damaged == 0
    change(directory, "entries", bytes(7) + b"\x09", None)
    found = verify(directory)
    assert f"entries[{9:016x}] is missing" in f"{found.damages[0].place} {found.damages[0].rule}"
    assert all(f"names entries[{9:016x}]" in damage.rule for damage in found.damages[1:])
    assert found.damaged > 3


def test_lost_buckets_are_noticed_by_the_entries_that_none_refers_to(directory: Path) -> None:
    database = Rdict(str(directory / INDEX_FOLDER), database_options(), column_families(None))
    buckets = database.get_column_family("buckets")
    batch, number = WriteBatch(raw_mode=True), (11).to_bytes(5, "little")
    batch.set_default_column_family(database.get_column_family_handle("buckets"))
    for key, value in list(buckets.items()):
        assert isinstance(key, bytes)
        size = 5 if key[0] in BARE_TAGS else 13
        if number in [value[at : at + 5] for at in range(1, len(value), size)]:
            batch.delete(key)
    database.write(batch)
    del batch
    buckets.close()
    database.close()
    assert f"entries[{11:016x}] must be in a bucket, but none refers to it" in the_damage(verify(directory))


@pytest.mark.parametrize("key", [b"progress", b"identity"])
def test_a_damaged_or_missing_meta_value_is_named_and_the_state_does_not_open(directory: Path, key: bytes) -> None:
    change(directory, "default", key, b"\x01" + bytes(24))
    assert f"meta[{key.hex()}] must end in its xxh3-64 checksum" in the_damage(verify(directory))
    with pytest.raises(CorruptRecord, match=key.hex()):
        open_state(directory)
    change(directory, "default", key, None)
    assert f"meta[{key.hex()}]" in the_damage(verify(directory))
    with pytest.raises(CorruptRecord, match="is missing although the state is not new"):
        open_state(directory)


def test_a_state_without_both_meta_values_is_not_begun_anew_over_what_it_holds(directory: Path) -> None:
    for key in (b"progress", b"identity"):
        change(directory, "default", key, None)
    with pytest.raises(CorruptRecord, match="is missing although the state is not new"):
        open_state(directory)


def test_a_state_whose_last_entry_is_not_that_of_its_progress_does_not_open(directory: Path) -> None:
    with open_state(directory) as state:
        last = state.entry_count - 1
    change(directory, "entries", last.to_bytes(8, "big"), None)
    with pytest.raises(CorruptRecord, match=rf"must exist as one of {last + 1} entries by the progress"):
        open_state(directory)
    assert verify(directory).damaged


def test_a_state_in_use_is_not_walked_and_stays_locked(directory: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from spotsieve.state.store.state import State
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.settings.model import IndexSettings
state = disk_state(Path({str(directory)!r}), {TEXT!r}, "local", IndexSettings())
print("open", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        for _ in range(2):
            with pytest.raises(StateLockedError, match="a running process holds its lock") as refused:
                verify(directory)
        assert "spotsieve state snapshot" in str(refused.value)
        holder.stdin.close()
    assert verify(directory).damaged == 0


def test_the_copy_of_a_walk_that_was_killed_is_removed(directory: Path) -> None:
    (directory / ".verify-left").mkdir()
    verify(directory)
    assert not list(directory.glob(".verify-*"))


def test_the_command_names_damage_counts_it_and_ends_with_4(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "verify", str(directory)]) == 0
    shown = capsys.readouterr()
    assert "intact   up to record 40 of the log 'local'" in shown.out
    assert shown.err == ""
    table = largest_table(directory)
    for part in (0.2, 0.6):
        flip(table, int(table.stat().st_size * part))
    assert main(["state", "verify", str(directory), "--show", "1"]) == 4
    shown = capsys.readouterr()
    assert shown.out.count("damaged  buckets[") == 1
    assert "and 1 more" in shown.out
    assert "2 damaged places. Restore the state from a snapshot" in shown.out
    assert main(["state", "verify", str(directory), "--json"]) == 4
    printed = json.loads(capsys.readouterr().out)
    assert (printed["whole"], printed["damaged_places"], len(printed["damages"])) == (False, 2, 2)


@pytest.mark.parametrize("make", [lambda _: None, Path.mkdir, lambda path: (path / INDEX_FOLDER).mkdir(parents=True)])
def test_a_directory_without_a_state_is_told(
    make: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "none")
    assert main(["state", "verify", str(tmp_path / "none")]) == 4
    assert "must hold a state" in capsys.readouterr().err


@pytest.mark.parametrize("keep", get_args(PolicySettings.model_fields["keep"].annotation))
def test_a_state_is_whole_and_can_be_imported_whatever_copy_is_kept(
    keep: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--set", f"policy.keep={keep}"]
    if keep in RANKED_BY_FIELD:
        given += ["--set", "input.rank_from=quality"]
    pages, state, export = tmp_path / "pages.jsonl", tmp_path / "state", tmp_path / "export.jsonl"
    pages.write_bytes(lines([page(seed) | {"quality": seed} for seed in (1, 2)]))
    assert filter_json(capsys, pages, "--state", state, *given)["state_entries"] == 2
    assert main(["state", "verify", str(state)]) == EXIT_OK, capsys.readouterr().out
    assert main(["state", "export", "--state", str(state), "--out", str(export)]) == EXIT_OK
    assert main(["state", "import", str(export), "--state", str(tmp_path / "imported")]) == EXIT_OK
    shutil.copy(state / LOG_FILE, tmp_path / "imported" / LOG_FILE)
    assert main(["state", "verify", str(tmp_path / "imported")]) == EXIT_OK, capsys.readouterr().out


def test_a_refused_command_leaves_no_empty_log_in_a_state_of_another_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service, filtered, pages = tmp_path / "service", tmp_path / "filtered", tmp_path / "pages.jsonl"
    disk_state(service, verdict_settings_text(Settings()), "signatures", IndexSettings()).close()
    pages.write_bytes(lines([page(1)]))
    filter_json(capsys, pages, "--state", filtered)
    before = sorted(service.iterdir())
    into = ["--state", str(service)]
    for command in (
        ["filter", str(pages), *into],
        ["backfill", str(pages), "--readers", "1", *into],
        ["migrate", "--from-state", str(filtered), *into],
    ):
        assert main(command) == EXIT_STATE
        assert "must follow the log it was built from, 'signatures'" in capsys.readouterr().err
        assert sorted(service.iterdir()) == before
    LocalLog(service).close()
    assert main(["state", "verify", str(service)]) == EXIT_OK, "an earlier release left an empty log"
    assert "service/log: is not the log of this state, which is 'signatures'" in capsys.readouterr().out


def test_an_imported_state_without_its_log_stays_intact_when_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, state, export = tmp_path / "pages.jsonl", tmp_path / "state", tmp_path / "export.jsonl"
    pages.write_bytes(lines([page(1)]))
    filter_json(capsys, pages, "--state", state)
    assert main(["state", "export", "--state", str(state), "--out", str(export)]) == EXIT_OK
    assert main(["state", "import", str(export), "--state", str(tmp_path / "imported")]) == EXIT_OK
    assert main(["filter", str(pages), "--state", str(tmp_path / "imported")]) == EXIT_STATE
    assert "log local must reach the state's position" in capsys.readouterr().err
    assert not (tmp_path / "imported" / LOG_FILE).exists()
    shutil.copy(state / LOG_FILE, tmp_path / "imported" / LOG_FILE)
    filter_json(capsys, pages, "--state", tmp_path / "imported")
