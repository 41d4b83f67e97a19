"""Commands over the states of shards: verify, info, snapshot, restore, merge, split, and over the merged state."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import fsspec
import numpy as np
import pytest
from rocksdict import Rdict

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.format.buckets import decode_buckets, decode_keys
from spotsieve.state.format.meta import LAST_OUTCOME, MAX_SHARDS, StatePart, StoredRules, draw_log_identity
from spotsieve.state.portable import resharding
from spotsieve.state.portable.merging import merge_states, place_of_snapshots, snapshots_in, split_states
from spotsieve.state.still.reading import describe
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.state.store.state import State
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import EXIT_OK, EXIT_SETTING, EXIT_STATE, SpotsieveError, StateError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.cli import main
from spotsieve.stream.service.roles.shard import loop
from spotsieve.stream.service.roles.shard.loop import begin_from_snapshots, open_state
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.fingerprints.permuted_tables import BLOCK_TAG, TITLE_TAG
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.sharded_logs import crawled, signed_log
from tests.fixtures.states.shards import OneProcess, Shards

SHARDS, SETTINGS = 2, Settings()
OF_HOSTS = (BLOCK_TAG, TITLE_TAG)


class Judged(NamedTuple):
    """One log that one process and shards have judged. earlier: a snapshot of shard 1, before the last records"""

    pages: list[Page]
    one: OneProcess
    folder: Path
    earlier: Path

    def shard(self, number: int) -> Path:
        return self.folder / f"shard-{number}"


def opened(directory: Path, number: int) -> State:
    index = IndexSettings(write_buffer_mb=1)
    return disk_state(directory, verdict_settings_text(SETTINGS), "log", index, StatePart(number, SHARDS))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder, dice = tmp_path_factory.mktemp("judged"), random.Random("states of shards")
    scheme = scheme_in_scope(SETTINGS)
    one = OneProcess(scheme, SETTINGS.index)
    # So that each shard has hosts.
    pages = [page._replace(url=page.url.replace("//", f"//h{page.offset % 4}.")) for page in crawled(dice)]
    signed_log(dice, one, scheme.sign(pages))
    made = Judged(pages, one, folder, folder / "earlier")
    cluster = Shards(one, SHARDS)
    for number in range(SHARDS):
        cluster.put(number, opened(made.shard(number), number))
    half = len(one.log) // 2
    cluster.apply(one.log[:half], [30])
    cluster.states[1].close()
    assert main(["state", "snapshot", "--state", str(made.shard(1)), str(made.earlier)]) == EXIT_OK
    cluster.put(1, opened(made.shard(1), 1))
    cluster.apply(one.log, [30], half)
    for state in cluster.states:
        state.close()
    return made


def run_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(one) for one in arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_the_state_of_a_shard_is_verified_and_told(judged: Judged, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run_command(capsys, "state", "verify", judged.shard(1))
    assert (code, "the part of shard 1 of 2" in text) == (EXIT_OK, True)
    code, text = run_command(capsys, "state", "info", judged.shard(1), "--json")
    assert (code, json.loads(text)["part"]) == (EXIT_OK, "shard 1 of 2")


def test_buckets_and_hosts_of_another_shard_and_a_lost_outcome_are_damage(judged: Judged, tmp_path: Path) -> None:
    shard, stranger = shutil.copytree(judged.shard(0), tmp_path / "0"), shutil.copytree(judged.shard(1), tmp_path / "1")
    found = dict[str, bytes]()
    with Databases(shard) as mine, Databases(stranger) as other:
        for family in ("buckets", "hosts"):
            # Keys of prints and titles do not tell whose they are.
            items: Iterator[Any] = iter(other[family].items())
            plain = ((key, value) for key, value in items if key[0] not in OF_HOSTS)
            found[family], value = next(plain)
            mine[family][found[family]] = value
        del mine["default"][LAST_OUTCOME]
    places = {damage.place for damage in verify(shard).damages}
    assert places >= {*(f"{family}[{key.hex()}]" for family, key in found.items()), f"meta[{LAST_OUTCOME.hex()}]"}


def test_an_entry_that_a_shard_holds_for_the_others_is_missed(judged: Judged, tmp_path: Path) -> None:
    shard = shutil.copytree(judged.shard(0), tmp_path / "0")
    with Databases(shard) as families:
        del families["entries"][(4).to_bytes(8, "big")]
    damages = {(damage.place, damage.rule) for damage in verify(shard).damages}
    last = judged.one.state.entry_count - 1
    rule = f"is missing: by the meta values entries 0 to {last} live, and shard 0 of 2 must hold this one"
    assert ("entries[0000000000000004]", rule) in damages


class Databases:
    """The families of a state at rest, to change them as a defect of ours would."""

    def __init__(self, directory: Path) -> None:
        self._database = Rdict(str(directory / INDEX_FOLDER), database_options(), column_families(None))
        names = [name for name in column_families(None) if name != "default"]
        self._families = {name: self._database.get_column_family(name) for name in names}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for family in self._families.values():
            family.close()
        self._database.close()

    def __getitem__(self, name: str) -> Rdict:
        return self._families.get(name, self._database)


@pytest.mark.guarantee("a restored shard continues from its snapshot", fault="a shard's disk is lost")
def test_a_restored_shard_goes_on_from_its_snapshot(judged: Judged, tmp_path: Path) -> None:
    restored = tmp_path / "restored"
    assert main(["state", "restore", str(judged.earlier), "--state", str(restored)]) == EXIT_OK
    assert verify(restored).damages == []
    cluster = Shards(judged.one, SHARDS)
    half = len(judged.one.log) // 2
    with opened(restored, 1) as again, opened(judged.shard(1), 1) as whole:
        assert again.position == half
        assert again.last_outcome is not None
        assert again.last_outcome != whole.last_outcome
        # The other shard responds as it did; the restored one files the rounds behind its snapshot.
        cluster.apply(judged.one.log[:half], [30])
        cluster.put(1, again)
        cluster.apply(judged.one.log, [30], half)
        assert first_difference(again, whole) is None
        assert again.last_outcome == whole.last_outcome


def test_commands_for_one_state_name_the_next_step_and_work_on_the_merged_one(
    judged: Judged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (first,) = judged.one.state.indexed(np.zeros(1, np.uint64)).entries(np.zeros(1, np.int64))
    pages = tmp_path / "pages.jsonl"
    pages.write_text("{}\n")
    merged, export, copy = tmp_path / "merged", tmp_path / "export.jsonl", tmp_path / "copy"
    commands: list[list[object]] = [
        ["query", pages, "--state"],
        ["state", "export", "--out", export, "--state"],
        ["state", "forget", "--url", first.url, "--dry-run", "--state"],
    ]
    for command in commands:
        code, text = run_command(capsys, *command, judged.shard(0))
        assert (code, "spotsieve state merge" in text) == (EXIT_STATE, True), text
    code, text = run_command(capsys, "state", "merge", judged.shard(1), judged.shard(0), "--state", merged, "--json")
    assert code == EXIT_OK, text
    assert json.loads(text)["entries"] == judged.one.state.entry_count
    for command in commands[1:]:
        code, text = run_command(capsys, *command, merged)
        assert code == EXIT_OK, text
    assert main(["state", "import", str(export), "--state", str(copy)]) == EXIT_OK
    text = verdict_settings_text(SETTINGS)
    states = (disk_state(directory, text, "log", IndexSettings()) for directory in (merged, copy))
    with next(states) as one, next(states) as other:
        assert first_difference(one, other) is None


def test_pages_are_looked_up_and_explained_by_the_merged_state(
    judged: Judged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (first,) = judged.one.state.indexed(np.zeros(1, np.uint64)).entries(np.zeros(1, np.int64))
    body = next(page.body for page in judged.pages if page.url == first.url).decode()
    copy, merged = tmp_path / "copy.jsonl", tmp_path / "merged"
    copy.write_text(json.dumps({"id": "copy", "url": first.url + "?copy", "body": body}) + "\n")
    merge_states([judged.shard(0), judged.shard(1)], merged)
    code, text = run_command(capsys, "query", copy, "--state", merged)
    assert code == EXIT_OK, text
    row = json.loads(text.splitlines()[0])
    assert (row["verdict"], row["original_url"]) == ("duplicate", first.url)
    code, text = run_command(capsys, "explain", copy, "--state", merged, "--json")
    assert code == EXIT_OK, text
    assert first.url in text


@pytest.mark.parametrize("command", ["merge", "split"])
def test_states_that_are_not_those_of_all_shards_at_one_place_are_refused(
    command: str, judged: Judged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, other, of_other_log = tmp_path / "made", tmp_path / "other", tmp_path / "of-other-log"
    disk_state(other, "{}", "log", IndexSettings(), StatePart(1, SHARDS)).close()
    with opened(of_other_log, 1) as state:
        state.adopt(draw_log_identity())
    damaged = shutil.copytree(judged.shard(1), tmp_path / "damaged")
    with Databases(damaged) as families:
        families["entries"][(3).to_bytes(8, "big")] = b"\x05cut"
    third = tmp_path / "third"
    disk_state(third, verdict_settings_text(SETTINGS), "log", IndexSettings(), StatePart(1, 3)).close()
    options: list[object] = ["--state", target] if command == "merge" else ["--shards", 3, "--out", target]
    for shards, rule, then in (
        ([judged.shard(0)], "missing: shard 1 of 2", "name the state directory of each shard once"),
        ([judged.shard(0), judged.shard(0)], "must be another shard", "name the state directory of each shard once"),
        ([judged.shard(0), third], "must be given with those of all 3 shards", "missing: shard 0 of 3, shard 2 of 3"),
        ([judged.shard(0), judged.earlier], "must stand where", "stop the workers"),
        ([judged.shard(0), other], "must be of the log and the settings", "name the shards of one service"),
        ([judged.shard(0), of_other_log], "each has its own salt", "name the shards of one service"),
        ([judged.shard(0), damaged], "entries[0000000000000003]", "rebuild the state"),
        ([judged.shard(0), tmp_path / "none"], "must hold a state", "name the directory"),
    ):
        code, text = run_command(capsys, "state", command, *shards, *options)
        assert (code, rule in text, then in text) == (EXIT_STATE, True, True), text
        assert not (target / INDEX_FOLDER).exists()
        assert command == "merge" or not list(tmp_path.glob("made*"))
    shards = [judged.shard(0), judged.shard(1)]
    code, text = run_command(capsys, "state", command, *shards, *options)
    assert code == EXIT_OK, text
    code, text = run_command(capsys, "state", command, *shards, *options)
    assert (code, "yet" in text, "name another directory" in text or "name a new directory" in text) == (
        EXIT_STATE,
        True,
        True,
    )
    whole = tmp_path / "whole"
    merge_states(shards, whole)
    code, text = run_command(capsys, "state", command, whole, judged.shard(1), *options[:-1], tmp_path / "again")
    assert (code, "must hold the part of a shard" in text) == (EXIT_STATE, True)


def test_a_split_needs_a_number_that_shards_can_have(
    judged: Judged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = [judged.shard(0), judged.shard(1)]
    for number in (0, -1, MAX_SHARDS + 1):
        code, text = run_command(capsys, "state", "split", *shards, "--shards", number, "--out", tmp_path / "split")
        assert (code, f"must be 1 to {MAX_SHARDS}" in text) == (EXIT_SETTING, True), text


def test_a_split_tells_the_size_of_each_new_state(
    judged: Judged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = [judged.shard(0), judged.shard(1)]
    code, text = run_command(capsys, "state", "split", *shards, "--shards", 3, "--out", tmp_path / "split")
    assert (code, text.count("\n  shard-")) == (EXIT_OK, 3), text
    code, text = run_command(capsys, "state", "split", *shards, "--shards", 3, "--out", tmp_path / "again", "--json")
    counts = json.loads(text)
    assert [one["shards"] for one in counts] == [SHARDS] * 3
    assert {one["log_position"] for one in counts} == {judged.one.state.position}
    for number in range(3):
        assert describe(tmp_path / "again" / f"shard-{number}")["part"] == f"shard {number} of 3"


def first_bucket(buckets: Rdict, tag: int) -> tuple[bytes, bytes]:
    """The first key with this tag, and its value. An open iterator would keep the database open."""
    items: list[Any] = list(buckets.items())
    return next((key, value) for key, value in items if key[0] == tag)


def test_keys_of_two_hosts_that_collide_have_a_bucket_in_each_shard(
    judged: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = [shutil.copytree(judged.shard(number), tmp_path / str(number)) for number in range(SHARDS)]
    with Databases(shards[0]) as mine, Databases(shards[1]) as other:
        both = [first_bucket(families["buckets"], BLOCK_TAG) for families in (mine, other)]
        # The key of a bucket of shard 1 becomes that of one of shard 0.
        (key, kept), (moved, value) = both
        other["buckets"][key] = value
        del other["buckets"][moved]
    merge_states(shards, tmp_path / "merged")
    split_states(shards, SHARDS, tmp_path / "split")
    names = decode_keys([key])
    numbers = [decode_buckets(names, [one]).numbers.tolist() for one in (kept, value)]
    with Databases(tmp_path / "merged") as merged:
        joined = decode_buckets(names, [merged["buckets"][key]]).numbers.tolist()
        assert joined == sorted(numbers[0] + numbers[1])
    for number, expected in enumerate((kept, value)):
        with Databases(tmp_path / "split" / f"shard-{number}") as families:
            assert families["buckets"][key] == expected
    # A full bucket of one host takes no posting from that of the other.
    cap = max(map(len, numbers))
    monkeypatch.setattr(resharding, "rules_of_settings", lambda _: StoredRules(bucket_cap=cap))
    merge_states(shards, tmp_path / "capped")
    with Databases(tmp_path / "capped") as merged:
        capped = decode_buckets(names, [merged["buckets"][key]]).numbers.tolist()
        assert capped == joined[:cap]
    split_states(shards, SHARDS, tmp_path / "split-capped")
    for number, expected in enumerate((kept, value)):
        with Databases(tmp_path / "split-capped" / f"shard-{number}") as families:
            assert families["buckets"][key] == expected


@pytest.mark.parametrize("command", ["merge", "split"])
def test_an_entry_beyond_the_count_is_damage(
    command: str, judged: Judged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = [shutil.copytree(judged.shard(number), tmp_path / str(number)) for number in range(SHARDS)]
    count = judged.one.state.entry_count
    with Databases(shards[0]) as families:
        families["entries"][count.to_bytes(8, "big")] = families["entries"][(2).to_bytes(8, "big")]
    options: list[object] = ["--state", tmp_path / "made"]
    if command == "split":
        options = ["--shards", 3, "--out", tmp_path / "made"]
    code, text = run_command(capsys, "state", command, *shards, *options)
    assert (code, f"must be below the count of {count} entries" in text) == (EXIT_STATE, True), text


def test_an_entry_that_no_shard_has_any_more_is_no_merged_state(judged: Judged, tmp_path: Path) -> None:
    shards = [shutil.copytree(judged.shard(number), tmp_path / str(number)) for number in range(SHARDS)]
    for shard in shards:
        with Databases(shard) as families:
            del families["entries"][(3).to_bytes(8, "big")]
    code = main(["state", "merge", *map(str, shards), "--state", str(tmp_path / "merged")])
    assert (code, (tmp_path / "merged" / INDEX_FOLDER).exists()) == (EXIT_STATE, False)


def settings_with(snapshots: str, state: Path) -> Settings:
    values = {"cluster": {"snapshots": snapshots, "shards": 3}, "index": {"directory": str(state)}}
    return Settings.model_validate({**values, "topics": {"log": "log"}})


@pytest.fixture
def snapshots(judged: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A snapshot of each shard, all of one place. No broker tells the identity of the log."""
    monkeypatch.setattr(loop, "read_log_identity", lambda _: None)
    for number in range(SHARDS):
        target = tmp_path / "backup" / f"shard-{number}"
        target.parent.mkdir(exist_ok=True)
        assert main(["state", "snapshot", "--state", str(judged.shard(number)), str(target)]) == EXIT_OK
    return tmp_path / "backup"


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_new_shard_begins_from_the_snapshots_of_all_shards(
    is_remote: bool, judged: Judged, snapshots: Path, tmp_path: Path
) -> None:
    name = str(snapshots)
    if is_remote:
        name = "memory://backup"
        remote = fsspec.filesystem("memory")
        remote.put(str(snapshots), "/backup", recursive=True)
    split_states([judged.shard(0), judged.shard(1)], 3, tmp_path / "split")
    for number in range(3):
        target = tmp_path / f"new-{number}"
        begin_from_snapshots(settings_with(name, target), Share(number, 3))
        assert [path.name for path in target.iterdir()] == [INDEX_FOLDER]
        text, part, index = verdict_settings_text(SETTINGS), StatePart(number, 3), IndexSettings()
        split = disk_state(tmp_path / "split" / f"shard-{number}", text, "log", index, part)
        with disk_state(target, text, "log", index, part) as state, split:
            assert first_difference(state, split) is None
            assert state.last_outcome == split.last_outcome


def test_an_empty_state_is_made_from_snapshots_that_were_taken_after_its_first_start(
    judged: Judged, snapshots: Path, tmp_path: Path
) -> None:
    settings, moved = settings_with(str(snapshots), tmp_path / "new"), tmp_path / "moved"
    snapshots.rename(moved)
    with open_state(settings, Share(0, 3)) as state:
        # It stops, because the topics have lost their first records.
        assert (state.position, state.last_outcome) == (0, None)
    moved.rename(snapshots)
    for _ in range(2):
        with open_state(settings, Share(0, 3)) as state:
            assert state.position == judged.one.state.position
            assert state.last_outcome is not None
    assert [path.name for path in (tmp_path / "new").iterdir()] == [INDEX_FOLDER]


def test_snapshots_of_another_log_are_refused_before_a_state_is_made(
    snapshots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger, other = draw_log_identity(), draw_log_identity()
    for number in range(SHARDS):
        shutil.rmtree(snapshots / f"shard-{number}")
        with opened(tmp_path / str(number), number) as state:
            state.adopt(stranger)
        target = snapshots / f"shard-{number}"
        assert main(["state", "snapshot", "--state", str(tmp_path / str(number)), str(target)]) == EXIT_OK
    assert place_of_snapshots(snapshots_in(snapshots), stranger) == (0, None)
    monkeypatch.setattr(loop, "read_log_identity", lambda _: other)
    with pytest.raises(StateError, match=rf"must be of the log {other} .*take snapshots of all present shards"):
        begin_from_snapshots(settings_with(str(snapshots), tmp_path / "new"), Share(0, 3))
    assert not (tmp_path / "new" / INDEX_FOLDER).exists()
    with pytest.raises(StateError, match=rf"must be of the log {other}"):
        place_of_snapshots(snapshots_in(snapshots), other)


def test_a_shard_without_snapshots_begins_from_the_topics(tmp_path: Path) -> None:
    for name in (str(tmp_path / "none"), "memory://none"):
        begin_from_snapshots(settings_with(name, tmp_path / "new"), Share(0, 3))
        assert not (tmp_path / "new" / INDEX_FOLDER).exists()


def test_snapshots_that_no_shard_can_begin_from_are_refused_with_the_next_step(
    judged: Judged, snapshots: Path, tmp_path: Path
) -> None:
    def refused() -> str:
        with pytest.raises(SpotsieveError) as caught:
            begin_from_snapshots(settings_with(str(snapshots), tmp_path / "new"), Share(0, 3))
        assert not (tmp_path / "new" / INDEX_FOLDER).exists()
        return str(caught.value)

    first = snapshots / "shard-0"
    table = next((first / INDEX_FOLDER).glob("*.sst"))
    whole = table.read_bytes()
    # A snapshot shares its files with the state.
    table.unlink()
    assert "is missing; restore another snapshot" in refused()
    table.mkdir()  # As a file that may not be read: root may read every file.
    assert "must be a directory whose files can be read: Is a directory" in refused()
    table.rmdir()
    table.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    assert "as the manifest says" in refused()
    table.write_bytes(whole)
    shutil.rmtree(snapshots / "shard-1")
    assert "missing: shard 1 of 2" in refused()
    shutil.copytree(judged.earlier, snapshots / "shard-1")
    assert "must stand where" in refused()
    assert "stop the workers" in refused()
    shutil.rmtree(snapshots / "shard-1")
    with disk_state(tmp_path / "other", "{}", "log", IndexSettings(), StatePart(1, SHARDS)):
        pass
    assert main(["state", "snapshot", "--state", str(tmp_path / "other"), str(snapshots / "shard-1")]) == EXIT_OK
    assert "name the shards of one service" in refused()


def test_a_snapshot_that_cannot_be_read_is_an_error_and_not_left_out(tmp_path: Path) -> None:
    assert snapshots_in(tmp_path / "missing") == []
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    assert snapshots_in(tmp_path) == []
    (tmp_path / "shard-1").symlink_to("shard-1")
    with pytest.raises(StateError, match=r"must be a directory that can be read with all its snapshots: .*shard-1"):
        snapshots_in(tmp_path)
    with pytest.raises(StateError, match="check the permissions there, or name another directory"):
        snapshots_in(tmp_path / "file")
