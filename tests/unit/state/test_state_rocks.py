"""The state on disk: bound to its settings and log, owned by one process, whole after a full disk or damage."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rocksdict import Rdict

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.format.buckets import encode_keys
from spotsieve.state.identity import check_last_record, check_log_range
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import encode
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks import RocksBackend
from spotsieve.state.store.rocks_errors import explain
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import CorruptRecord, SettingsMismatch, StateError, StateLockedError
from spotsieve.stream.base.settings.digest import digest_of_settings, verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.schemes.simhash import ChainScheme
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.local_states import families_of
from tests.reference.signatures import make_signatures

DIGEST = bytes(16)
SCHEME = ChainScheme(ChainSettings())


def open_state(directory: Path, settings_text: str = "{}", log_name: str = "log") -> State:
    return disk_state(directory, settings_text, log_name, IndexSettings(write_buffer_mb=1))


def records(count: int, pages: int = 40, seeds: int = 7) -> list[bytes]:
    """Make records. From the seventh on, all pages are near those of earlier records."""
    return [
        encode(make_signatures(pages, seed=number % seeds, first=number * pages), bytes(16), number, DIGEST)
        for number in range(count)
    ]


def apply_all(state: State, log: list[bytes], first: int = 0) -> Engine:
    engine = Engine(SCHEME, state, IndexSettings(), DIGEST, "log")
    for offset in range(first, len(log)):
        engine.apply(log[offset], offset)
    return engine


def test_a_state_in_use_by_another_process_is_refused(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from spotsieve.state.store.state import State
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.settings.model import IndexSettings
state = disk_state(Path({str(tmp_path)!r}), "{{}}", "log", IndexSettings())
print("open", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(
            StateLockedError, match="must belong to one process, and another one holds its lock"
        ) as refused:
            open_state(tmp_path)
        assert str(tmp_path) in str(refused.value)
        assert "stop the other process" in str(refused.value)
        holder.stdin.close()
    open_state(tmp_path).close()


@pytest.mark.guarantee(
    "other settings than those of the state or log are rejected, and the error names them", fault="the settings changed"
)
def test_other_settings_on_the_same_state_are_refused_naming_each_difference(tmp_path: Path) -> None:
    ours = Settings.model_validate({"scheme": {"minima": 8, "min_containment": 0.5}})
    theirs = Settings.model_validate({"scheme": {"minima": 6, "min_containment": 0.7}, "index": {"bucket_cap": 9}})
    open_state(tmp_path, verdict_settings_text(ours)).close()
    with pytest.raises(SettingsMismatch) as refused:
        open_state(tmp_path, verdict_settings_text(theirs))
    message = str(refused.value)
    assert "scheme.minima is 8 in the state and 6 in the configuration" in message
    assert "scheme.min_containment is 0.5 in the state and 0.7 in the configuration" in message
    assert "index.bucket_cap is 256 in the state and 9 in the configuration" in message
    assert "spotsigs" not in message
    assert "restore these settings; carry the state over" in message
    open_state(tmp_path, verdict_settings_text(ours)).close()


def test_settings_that_change_no_verdict_may_change(tmp_path: Path) -> None:
    other = Settings.model_validate(
        {"index": {"directory": str(tmp_path), "cache_mb": 8}, "kafka": {"group_id": "x"}, "service": {"linger_ms": 1}}
    )
    assert verdict_settings_text(other) == verdict_settings_text(Settings())
    assert "bucket_cap" in verdict_settings_text(other)
    assert len(digest_of_settings(other)) == 16


def test_another_log_on_the_same_state_is_refused(tmp_path: Path) -> None:
    open_state(tmp_path, log_name="cluster-a/signatures").close()
    with pytest.raises(StateError, match="must follow the log it was built from, 'cluster-a/signatures', got 'local'"):
        open_state(tmp_path, log_name="local")


def test_a_record_signed_with_other_settings_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with open_state(tmp_path) as state:
        engine = Engine(SCHEME, state, IndexSettings(), bytes(range(16)), "signatures")
        with pytest.raises(SettingsMismatch, match=r"log signatures\[5\] was signed with other settings"):
            engine.apply(records(1)[0], 5)
        assert (state.position, state.entry_count) == (0, 0)


def test_a_state_of_an_earlier_format_is_refused_and_says_to_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("spotsieve.state.store.opening.STATE_FORMAT", 1)
        open_state(tmp_path).close()
    with pytest.raises(StateError, match="must have format 4, got 1; use the release that wrote it, or start with"):
        open_state(tmp_path)


@pytest.mark.parametrize(("position", "first", "end"), [(0, 0, 0), (5, 0, 5), (5, 5, 5), (5, 3, 9)])
def test_a_log_that_reaches_the_state_is_accepted(position: int, first: int, end: int) -> None:
    check_log_range("signatures", position, first, end)


def test_a_log_that_ends_before_or_begins_after_the_state_is_refused() -> None:
    with pytest.raises(StateError, match="must reach the state's position 9, but ends at 8"):
        check_log_range("signatures", 9, 0, 8)
    with pytest.raises(StateError, match=r"from the state's position on, but offsets 4\.\.6 are gone"):
        check_log_range("signatures", 4, 7, 20)


def test_a_log_refilled_beyond_the_state_is_refused_by_the_last_record_applied() -> None:
    check_last_record("signatures", 9, 0xAB, 0xAB)
    check_last_record("signatures", 9, 0xAB, None)
    check_last_record("signatures", 0, 0, 0xAB)
    with pytest.raises(StateError, match=r"log signatures\[8\] must be .* \(checksum 0{14}ab\).*recreated"):
        check_last_record("signatures", 9, 0xAB, 0xAC)


def test_a_deleted_state_is_rebuilt_from_the_log_equal_to_the_byte(tmp_path: Path) -> None:
    with LocalLog(tmp_path) as log:
        for record in records(30):
            log.append(record)
        with open_state(tmp_path / "one") as one, open_state(tmp_path / "two") as two:
            engine = Engine(SCHEME, one, IndexSettings(), DIGEST, "log")
            for offset, record in log.read_from(0):
                engine.apply(record, offset)
            again = Engine(SCHEME, two, IndexSettings(), DIGEST, "log")
            for offset, record in log.read_from(0):
                again.apply(record, offset)
            assert first_difference(one, two) is None
            assert one.entry_count > 100
            again.apply(records(31)[30], 30)
            assert first_difference(one, two) is not None


def test_an_applied_record_gives_the_same_verdicts_again_and_files_nothing(tmp_path: Path) -> None:
    log = records(4)
    with open_state(tmp_path) as state:
        engine = Engine(SCHEME, state, IndexSettings(), DIGEST, "log")
        first = [engine.apply(record, offset) for offset, record in enumerate(log)]
        before = list(state.items())
        for offset, record in enumerate(log):
            again = engine.apply(record, offset)
            assert again.again
            assert again.indexed == 0
            np.testing.assert_array_equal(again.verdicts.kind, first[offset].verdicts.kind)
            np.testing.assert_array_equal(again.verdicts.score, first[offset].verdicts.score)
            assert again.verdicts.originals == first[offset].verdicts.originals
        assert list(state.items()) == before
        assert first[0].indexed > 0


def test_a_position_moves_even_where_nothing_is_filed_and_offsets_may_be_skipped(tmp_path: Path) -> None:
    with open_state(tmp_path) as state:
        engine = Engine(SCHEME, state, IndexSettings(), DIGEST, "log")
        engine.apply(encode(make_signatures(0, seed=1), bytes(16), 0, DIGEST), 41)
        assert (state.position, state.entry_count) == (42, 0)
    with open_state(tmp_path) as state:
        assert state.position == 42


def test_a_full_disk_is_a_clear_error_and_the_state_is_intact_after_it(tmp_path: Path) -> None:
    log = records(400, seeds=400)
    for number, record in enumerate(log):
        (tmp_path / f"{number}.record").write_bytes(record)
    program = f"""
import resource
from pathlib import Path
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.engine import Engine
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.sign.schemes.simhash import ChainScheme
from spotsieve.state.store.state import State
from spotsieve.state.store.opening import disk_state
directory = Path({str(tmp_path)!r})
state = disk_state(directory / "state", "{{}}", "log", IndexSettings(write_buffer_mb=1))
engine = Engine(ChainScheme(ChainSettings()), state, IndexSettings(), bytes(16), "log")
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
try:
    for offset in range(400):
        engine.apply((directory / f"{{offset}}.record").read_bytes(), offset)
except StateError as error:
    print(offset, state.position, error)
state.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    failed_at, position, message = done.stdout.split(" ", 2)
    assert int(failed_at) == int(position) > 0
    assert message.startswith("index.directory must have room to grow")
    assert "raise the limit of file sizes (ulimit -f) and start again: the state is intact" in message
    with open_state(tmp_path / "state") as state:
        assert state.position <= int(position)
        rebuilt = memory_state()
        apply_all(rebuilt, log[: state.position])
        assert first_difference(state, rebuilt) is None
        apply_all(state, log, state.position)
        apply_all(rebuilt, log, rebuilt.position)
        assert first_difference(state, rebuilt) is None


def test_a_damaged_table_file_is_corrupt_and_says_to_rebuild(tmp_path: Path) -> None:
    with open_state(tmp_path) as state:
        apply_all(state, records(20, seeds=20))
    largest = max((tmp_path / INDEX_FOLDER).glob("*.sst"), key=lambda path: path.stat().st_size)
    damaged = bytearray(largest.read_bytes())
    for place in range(1000, len(damaged) // 2, 500):
        damaged[place] ^= 0xFF
    largest.write_bytes(damaged)
    with open_state(tmp_path) as state:
        with pytest.raises(CorruptRecord, match="rebuild the state from the log"):
            list(state.items())
        with pytest.raises(CorruptRecord, match="rebuild the state from the log"):
            apply_all(state, records(20, seeds=20))


def test_a_first_start_that_was_killed_before_anything_was_written_is_begun_again(tmp_path: Path) -> None:
    database = Rdict(str(tmp_path / INDEX_FOLDER), database_options())
    database.close()
    with open_state(tmp_path) as state:
        apply_all(state, records(2))
        assert state.position == 2


def test_a_family_that_is_lost_is_not_recreated(tmp_path: Path) -> None:
    with open_state(tmp_path) as state:
        apply_all(state, records(2))
    database = Rdict(str(tmp_path / INDEX_FOLDER), database_options(), column_families(None))
    database.drop_column_family("buckets")
    database.close()
    with pytest.raises(CorruptRecord, match="buckets"):
        open_state(tmp_path)


def test_a_directory_that_cannot_be_made_is_a_state_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"index\.directory must be a directory that can be written: Not a directory"):
        open_state(tmp_path / "file" / "below")


def test_a_closed_state_says_so_and_may_be_closed_again(tmp_path: Path) -> None:
    state = open_state(tmp_path)
    state.close()
    state.close()
    with pytest.raises(StateError, match="is closed"):
        state.file(None, 1, 0)


def test_a_record_is_filed_in_one_write_with_its_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched:
        """A database that notes every call."""

        def __init__(self, database: object) -> None:
            self.database, self.called = database, list[str]()

        def __getattr__(self, name: str) -> object:
            self.called.append(name)
            return getattr(self.database, name)

        def __setitem__(self, key: bytes, value: bytes) -> None:
            self.called.append("put")

    with open_state(tmp_path) as state:
        assert isinstance(state.backend, RocksBackend)
        watched = Watched(state.backend.database)
        with monkeypatch.context() as patched:
            patched.setattr(state.backend, "database", watched)
            apply_all(state, records(3))
        assert watched.called == ["write"] * 3
        assert state.entry_count > 0


def test_sources_are_numbered_as_filed_and_originals_keep_theirs_after_reopening(tmp_path: Path) -> None:
    log = [
        encode(make_signatures(40, seed=seed, first=40 * seed, sources=sources), bytes(16), seed, DIGEST)
        for seed, sources in enumerate([("b", "a"), ("c", "b"), ("a", "d")])
    ]
    memory = apply_all(memory_state(), log)
    expected = [memory.apply(record, offset).verdicts.originals for offset, record in enumerate(log)]
    with open_state(tmp_path) as state:
        apply_all(state, log)
        assert state.stats()["sources"] == 4
    with open_state(tmp_path) as state:
        engine = Engine(SCHEME, state, IndexSettings(), DIGEST, "log")
        found = [engine.apply(record, offset).verdicts.originals for offset, record in enumerate(log)]
    assert found == expected
    assert {original.source for originals in found for original in originals if original} == {"a", "b", "c", "d"}


def test_figures_of_a_state(tmp_path: Path) -> None:
    with open_state(tmp_path) as state:
        apply_all(state, records(10))
        figures = state.stats()
        assert figures["entries"] == state.entry_count
        assert figures["position"] == 10
        assert figures["sources"] == 2
        assert figures["memtable_bytes"] > 0
        assert state.compact() > 10_000
        assert state.stats()["memtable_bytes"] < figures["memtable_bytes"]
    with open_state(tmp_path) as state:
        assert state.stats()["bytes_on_disk"] > 10_000


@pytest.mark.guarantee("the memory of the index is bounded", fault="filters and indexes of a large state")
def test_filters_and_indexes_are_held_in_the_cache_and_not_beside_it(tmp_path: Path) -> None:
    with open_state(tmp_path) as state:
        for name in encode_keys(np.random.default_rng(1).integers(0, 2**64, 50_000, np.uint64)):
            families_of(state)["buckets"][name] = bytes(6)
        state.compact()
        assert state.stats()["table_reader_bytes"] < 20_000, "the filter has 62,500 bytes"
        before = state.stats()["cache_bytes"]
        state.buckets(np.random.default_rng(2).integers(0, 2**64, 1000, np.uint64))
        figures = state.stats()
        assert figures["cache_bytes"] > before, "the filter was read into the cache"
        assert figures["cache_pinned_bytes"] <= figures["cache_bytes"] <= figures["cache_capacity_bytes"]


def partitions(directory: Path) -> list[str]:
    """The option `partition_filters` of all families, as RocksDB last wrote its options."""
    written = max((directory / INDEX_FOLDER).glob("OPTIONS-*")).read_text("utf-8").splitlines()
    return [line.strip().removeprefix("partition_filters=") for line in written if "  partition_filters=" in line]


def test_filters_are_whole_in_a_small_state_and_in_parts_once_it_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotsieve.state.store.rocks._CHECKED_BATCHES", 3)
    log = records(40)
    with open_state(tmp_path) as state:
        apply_all(state, log[:20])
        assert set(partitions(tmp_path)) == {"false"}
        monkeypatch.setattr(state.backend, "_most_whole", 0)
        apply_all(state, log[:30], 20)
        assert set(partitions(tmp_path)) == {"false"}, "no table file is written yet"
        state.compact()
        apply_all(state, log, 30)
        assert partitions(tmp_path).count("true") == 3
        state.compact()
        with memory_state() as plain:
            apply_all(plain, log)
            assert first_difference(state, plain) is None
    monkeypatch.setattr("spotsieve.state.store.rocks.WHOLE_PER_CACHE", 0)
    with open_state(tmp_path) as state:
        assert partitions(tmp_path).count("true") == 3
        assert state.position == 40


@pytest.mark.parametrize(("limit", "most"), [(1024, 512), (40, 32), (2**20, 4096), (resource.RLIM_INFINITY, 4096)])
def test_open_table_files_leave_room_for_connections(
    limit: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    with open_state(tmp_path) as state:
        apply_all(state, records(2))
    (written,) = sorted((tmp_path / INDEX_FOLDER).glob("OPTIONS-*"))[-1:]
    assert f"max_open_files={most}\n" in written.read_text("utf-8")


@pytest.mark.guarantee("no error advises deleting a whole state", fault="too many open files")
def test_too_many_open_files_never_lead_to_a_deleted_state(tmp_path: Path) -> None:
    message = "IO error: While open a file for random read: /state/index/000123.sst: Too many open files"
    for action in ("open", "read", "write"):
        error = explain(message, tmp_path, action)
        assert not isinstance(error, CorruptRecord)
        assert "raise the limit of open files" in str(error)
        assert "the state is intact" in str(error)
        assert "delete" not in str(error)


@pytest.mark.guarantee("no error advises deleting a whole state", fault="a read-only file system")
def test_a_read_only_file_system_never_leads_to_a_deleted_state(tmp_path: Path) -> None:
    text = "IO error: While open a file for appending: /state/index/000123.log: Read-only file system"
    denied = "IO error: While lock file: /mnt/read-only-copy/index/LOCK: Permission denied"
    assert "run this as the owner" in str(explain(denied, tmp_path, "open"))
    for action in ("open", "write"):
        error = explain(text, tmp_path, action)
        assert not isinstance(error, CorruptRecord)
        assert "must be on a file system that can be written" in str(error)
        assert "make the file system writable" in str(error)
        assert "delete" not in str(error)


def test_writing_the_same_entry_number_twice_is_a_programming_error(tmp_path: Path) -> None:
    from spotsieve.stream.judge import judge

    with open_state(tmp_path) as state:
        _, index_update = judge(make_signatures(5, seed=1), SCHEME, state, 256, 64)
        state.file(index_update, 1, 0)
        with pytest.raises(ValueError, match="update begins at entry 0, the state at"):
            state.file(index_update, 2, 0)


def test_a_damaged_table_is_named_in_its_state_although_a_copy_of_it_was_read(tmp_path: Path) -> None:
    message = "Corruption: block checksum mismatch in /tmp/copy/index/000013.sst offset 3767 size 3805"
    assert str(explain(message, tmp_path / "state", "read")).startswith(f"{tmp_path}/state/index/000013.sst[3767] must")
