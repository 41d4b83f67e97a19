"""Memories of hosts, own texts and pending_verdicts: encoded, decoded, and kept alike by both stores."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rocksdict import Options, Rdict

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.format.entries import decode_own_texts, encode_entries, entry_fault, pack_entry, unpack_entry
from spotsieve.state.format.host_memory import decode_memories, encode_memories
from spotsieve.state.format.meta import (
    IDENTITY,
    decode_pending_verdict,
    encode_pending_verdict,
    page_of_key,
    pending_verdict_key,
    seal,
)
from spotsieve.state.horizon import Clock, StepMark
from spotsieve.state.index import NOBODY, CommitMark, HostMemories, LiveView, PendingVerdict, Removal
from spotsieve.state.snapshot.snapshots import take_snapshot
from spotsieve.state.still.reading import describe
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks_options import database_options
from spotsieve.state.store.state import State, first_difference
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import CorruptRecord, StateError
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import OwnText
from tests.fixtures.states.host_filings import (
    NO_BUCKETS,
    NO_KEYS,
    index_update_of,
    memories_of,
    own_text,
    some_memories,
    some_own_text,
)
from tests.reference.signatures import make_signatures
from tests.reference.stored import ObviousMemory, memory_value, own_text_of

EVERYTHING = CommitMark("", -1, 0)
TRIED = PendingVerdict(3, 0.75, 2, 1)


def open_state(path: Path) -> State:
    return disk_state(path, "{}", "log", IndexSettings())


def assert_alike(one: OwnText | HostMemories, other: OwnText | HostMemories) -> None:
    assert type(one) is type(other)
    for name in one._fields:
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype, name
        np.testing.assert_array_equal(left, right, err_msg=name)


def rows_of(memories: HostMemories) -> list[ObviousMemory]:
    return [
        ObviousMemory(
            int(memories.pages[host]),
            int(memories.last[host]),
            int(memories.first[host]),
            tuple(memories.items[memories.item_bounds[host] : memories.item_bounds[host + 1]].tolist()),
            tuple(memories.words[memories.word_bounds[host] : memories.word_bounds[host + 1]].tolist()),
        )
        for host in range(len(memories.hosts))
    ]


@pytest.mark.parametrize("keeps_features", [False, True])
def test_an_own_text_comes_back_from_entries_with_and_without_features(keeps_features: bool) -> None:
    for count in (0, 1, 30):
        index_update = dataclasses.replace(index_update_of(0, count, seed=count), keeps_features=keeps_features)
        values = encode_entries(index_update, np.zeros(count, np.uint32))
        keys = [bytes([row]) for row in range(count)]
        assert index_update.learned is not None
        own = index_update.learned.own
        assert_alike(decode_own_texts(keys, values), own)
        for row, value in enumerate(values):
            expected = (
                own.site[row],
                own.share[row],
                own.listed[row],
                tuple(own.prints[own.print_bounds[row] : own.print_bounds[row + 1]].tolist()),
                tuple(own.titles[own.title_bounds[row] : own.title_bounds[row + 1]].tolist()),
            )
            assert own_text_of(value) == expected
            assert unpack_entry(b"", value).own == expected
            assert pack_entry(unpack_entry(b"", value)) == value
            assert entry_fault(value, value[1], 1) is None


def test_an_entry_of_a_scheme_that_learns_nothing_pays_no_byte_for_own_text() -> None:
    learning = index_update_of(0, 5, seed=1)
    plain = encode_entries(dataclasses.replace(learning, learned=None), np.zeros(5, np.uint32))
    assert [len(value) for value in plain] == [
        42 + 16 + len(url) + len(label)
        for url, label in zip(learning.signatures.urls, learning.signatures.labels, strict=True)
    ]
    assert_alike(decode_own_texts([b""] * 5, plain), own_text([(0, 0, 0, (), ())] * 5))
    both = [plain[0], encode_entries(learning, np.zeros(5, np.uint32))[1]]
    assert decode_own_texts([b"", b""], both).print_bounds[1] == 0


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda value: value[:41], "must be version 3"),
        (lambda value: b"\2" + value[1:], "must be version 3"),
        (lambda value: value[:60], "the length that it declares"),
        (lambda value: value[:-1], "the length that it declares"),
        (lambda value: value + b"x", "the length that it declares"),
        (lambda value: value[:27] + b"\0" + value[28:], "the length that it declares"),
        (lambda value: value[:27] + b"\xc0" + value[28:], "the length that it declares"),
        (lambda value: value[:63] + b"\xff" + value[64:], "the length that it declares"),
        (lambda value: value[:65] + value[69:73] + value[65:69] + value[73:], "ascend"),
        (lambda value: value[:65] + value[65:69] + value[65:69] + value[73:], "ascend"),
        (lambda value: value[:73] + value[75:77] + value[73:75] + value[77:], "ascend"),
    ],
)
def test_a_damaged_own_text_is_corrupt_and_named(damage: Callable[[bytes], bytes], rule: str) -> None:
    index_update = index_update_of(0, 1)
    assert index_update.learned is not None
    learned = dataclasses.replace(index_update.learned, own=own_text([(1, 2, 3, [5 << 5, 6 << 5], [7, 8])]))
    (sound,) = encode_entries(dataclasses.replace(index_update, learned=learned), np.zeros(1, np.uint32))
    assert decode_own_texts([b""], [sound]).titles.tolist() == [7, 8]
    with pytest.raises(CorruptRecord, match=rf"entries\[00ff\].*{rule}"):
        decode_own_texts([b"\0", b"\x00\xff"], [sound, damage(sound)])
    assert entry_fault(damage(sound), 2, 1) is not None


def test_an_own_text_with_more_than_an_entry_has_room_for_is_a_programming_error() -> None:
    index_update = index_update_of(0, 1)
    assert index_update.learned is not None
    own = own_text([(0, 0, 0, [identity << 5 for identity in range(256)], [])])
    with pytest.raises(ValueError, match="256 block fingerprints or title words, an entry has room for 255"):
        encode_entries(
            dataclasses.replace(index_update, learned=dataclasses.replace(index_update.learned, own=own)),
            np.zeros(1, np.uint32),
        )


def test_memories_come_back_as_they_were_and_have_the_bytes_of_the_obvious_writer() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        hosts = sorted({int(host) for host in random.integers(0, 2**64, seed, np.uint64)})
        memories = some_memories(hosts, int(random.integers(2**40)), random)
        values = encode_memories(memories)
        assert values == [memory_value(row) if row.pages else None for row in rows_of(memories)]
        unknown = memories.pages == 0
        expected = memories._replace(last=np.where(unknown, np.uint64(0), memories.last))
        assert_alike(decode_memories(memories.hosts, values), expected)


def test_a_host_with_one_filed_page_costs_eleven_bytes() -> None:
    (value,) = encode_memories(memories_of([(1, 1, 7, 7, [], [])]))
    assert value is not None
    assert len(value) == 11


WHOLE = memory_value(ObviousMemory(3, 9, NOBODY, (0x11, 0x22), (0x101, 0x203)))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0" + WHOLE[1:],
        b"\3" + WHOLE[1:],
        b"\1" + WHOLE[1:],
        WHOLE[:-1],
        WHOLE + b"x",
        WHOLE[:8],
        memory_value(ObviousMemory(1, 5, 5, (), ()))[:-1],
        b"\2" + memory_value(ObviousMemory(1, 5, 5, (), ()))[1:],
        memory_value(ObviousMemory(0, 9, NOBODY, (), ())),
        memory_value(ObviousMemory(3, 9, NOBODY, (0x22, 0x11), ())),
        memory_value(ObviousMemory(3, 9, NOBODY, (0x11, 0x12), ())),
        memory_value(ObviousMemory(3, 9, NOBODY, (0x10,), ())),
        memory_value(ObviousMemory(3, 9, NOBODY, (), (0x203, 0x101))),
        memory_value(ObviousMemory(3, 9, NOBODY, (), (0x101, 0x102))),
        memory_value(ObviousMemory(3, 9, NOBODY, (), (0x100,))),
    ],
)
def test_a_damaged_memory_is_corrupt_and_names_its_host(value: bytes) -> None:
    assert decode_memories(np.array([1], np.uint64), [WHOLE]).pages.tolist() == [3]
    with pytest.raises(CorruptRecord, match=r"hosts\[0000000000000005\] must be version 1 or 2"):
        decode_memories(np.array([1, 2, 5], np.uint64), [WHOLE, None, value])


def test_a_memory_that_has_no_room_or_two_places_is_a_programming_error() -> None:
    for row in (
        (1, 2, 3, NOBODY, (), [word << 8 | 1 for word in range(256)]),
        (1, 2, 3, NOBODY, [item << 4 | 1 for item in range(2**16)], ()),
        (1, 1, 3, 3, (0x11,), ()),
        (1, 2, 3, 3, (), ()),
    ):
        with pytest.raises(ValueError, match="a memory must have at most 65535 items and 255 words"):
            encode_memories(memories_of([row]))


def test_keys_of_attempts_ascend_as_page_ids_do_and_values_come_back() -> None:
    pages = [(0, -(2**31), 5), (0, -1, 0), (0, 0, 2**63 - 1), (0, 7, 1), (1, -5, 3), (2**32 - 1, 2**31 - 1, 0)]
    keys = [pending_verdict_key(*page) for page in pages]
    assert keys == sorted(keys)
    assert [page_of_key(key) for key in keys] == pages
    without = PendingVerdict(NOBODY, float("nan"), 9, 0)
    assert decode_pending_verdict(b"", encode_pending_verdict(TRIED)) == TRIED
    replacing = without._replace(original=0)
    for novel in (without, replacing):
        assert repr(decode_pending_verdict(b"", encode_pending_verdict(novel))) == repr(novel)
    for value in (
        b"", encode_pending_verdict(TRIED)[:-1], b"\0" + encode_pending_verdict(TRIED)[1:],
        encode_pending_verdict(TRIED._replace(original=NOBODY)), encode_pending_verdict(TRIED._replace(original=-2)),
        encode_pending_verdict(without._replace(original=-2)),
    ):  # fmt: skip
        with pytest.raises(CorruptRecord, match=r"attempts\[00ff\]"):
            decode_pending_verdict(b"\x00\xff", value)


def steps(random: np.random.Generator, count: int = 40) -> list[dict[str, Any]]:
    """Filings of pages, memories, attempts, marks and horizons, each of them made once and applied to any state."""
    made, number, offset = list[dict[str, Any]](), 0, 0
    marks: tuple[StepMark, ...] = (StepMark(0, 0),)
    for position in range(1, count + 1):
        indexed = int(random.integers(0, 6))
        hosts = sorted({int(host) << 56 for host in random.integers(0, 200, random.integers(0, 20))})
        tried = [
            ((f"source {random.integers(4)}", int(random.integers(-2, 2)), offset + place), TRIED)
            for place in range(random.integers(0, 5))
        ]
        committed = [
            CommitMark(
                f"source {random.integers(6)}", int(random.integers(-2, 2)), offset - int(random.integers(-3, 9))
            )
            for _ in range(random.integers(0, 4))
        ]
        index_update = index_update_of(
            number, indexed, some_memories(hosts, number, random), tried, committed, int(random.integers(2**32))
        )
        offset, number = offset + 5, number + indexed
        if position % 4 == 0 and number - indexed > marks[-1].number:
            marks = (*marks[-2:], StepMark(marks[-1].step + 1, number - indexed))
        clock = Clock(position, marks)
        made.append({"index_update": index_update, "position": position, "last_record": 0, "clock": clock})
    return made


@pytest.mark.parametrize("seed", range(5))
def test_both_stores_hold_the_same_after_any_filings_also_when_reopened(seed: int, tmp_path: Path) -> None:
    random, memory = np.random.default_rng(seed), memory_state()
    asked = [(f"source {source}", partition, offset) for source in range(6) for partition in (-2, -1, 0, 1, 2)
             for offset in range(0, 210, 1)]  # fmt: skip
    hosts = np.array([host << 56 for host in range(200)], np.uint64)
    store = open_state(tmp_path)
    for step, indexed in enumerate(steps(random)):
        memory.file(**indexed)
        store.file(**indexed)
        if step % 7 == 6:
            store.close()
            store = open_state(tmp_path)
        if step % 4 == 3:
            assert first_difference(memory, store) is None
            assert memory.pending_verdicts(asked) == store.pending_verdicts(asked)
            assert_alike(memory.memories(hosts), store.memories(hosts))
            for state in (LiveView(memory, memory.clock.floor), memory):
                numbers = np.arange(memory.clock.floor, memory.entry_count, dtype=np.uint64)
                assert_alike(state.indexed(numbers).own_texts(), store.indexed(numbers).own_texts())
    assert memory.stats()["attempts"] > 0
    assert memory.stats()["hosts"] > 0
    assert memory.clock.floor > 0
    store.close()


def both(tmp_path: Path) -> list[State]:
    return [memory_state(), open_state(tmp_path)]


def test_a_mark_removes_the_attempts_below_it_before_those_of_its_record_are_added(tmp_path: Path) -> None:
    for state in both(tmp_path):
        pages = [("a", 0, 5), ("a", 0, 6), ("a", 1, 5), ("b", 0, 5)]
        state.file(index_update_of(0, 0, pending_verdicts=[(page, TRIED) for page in pages]), 1, 0)
        assert state.pending_verdicts([*pages, ("a", 0, 7), ("c", 0, 5)]) == [TRIED] * 4 + [None] * 2
        marks = [CommitMark("a", 0, 6), CommitMark("unknown", 0, 9), CommitMark("b", 1, 9)]
        state.file(index_update_of(0, 0, pending_verdicts=[(("a", 0, 2), TRIED)], committed=marks), 2, 0)
        assert state.pending_verdicts([*pages, ("a", 0, 2)]) == [None, TRIED, TRIED, TRIED, TRIED]
        state.file(index_update_of(0, 0, committed=[EVERYTHING]), 3, 0)
        assert state.pending_verdicts([*pages, ("a", 0, 2)]) == [None] * 5
        assert not any(name.startswith(b"attempts/") for name, _ in state.items())
        state.close()


def test_marks_count_without_anything_learned(tmp_path: Path) -> None:
    for state in both(tmp_path):
        state.file(index_update_of(0, 0, pending_verdicts=[(("a", 0, 5), TRIED)]), 1, 0)
        marked = dataclasses.replace(index_update_of(0, 0, committed=[CommitMark("a", 0, 6)]), learned=None)
        state.file(marked, 2, 0)
        assert state.pending_verdicts([("a", 0, 5)]) == [None]
        state.close()


def test_an_attempt_survives_a_reopening_and_states_without_attempts_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [("a", partition, offset) for partition in (-3, 0, 4) for offset in (7, 9, 12)]
    with open_state(tmp_path) as state:
        state.file(index_update_of(0, 0, pending_verdicts=[(page, TRIED) for page in pages]), 1, 0)
    with open_state(tmp_path) as state:
        assert state.pending_verdicts(pages) == [TRIED] * 9
        assert state.pending_verdicts([("a", 0, 8)]) == [None]
        state.file(index_update_of(0, 0, committed=[CommitMark("a", partition, 13) for partition in (-3, 0, 4)]), 2, 0)
        with monkeypatch.context() as patched:
            patched.setattr(state.backend, "get", None)
            assert state.pending_verdicts(pages) == [None] * 9
        assert state.stats()["attempts"] == 0
    with open_state(tmp_path) as state, monkeypatch.context() as patched:
        patched.setattr(state.backend, "get", None)
        assert state.pending_verdicts(pages) == [None] * 9


def test_a_source_that_only_an_attempt_names_is_numbered_behind_those_of_filed_pages(tmp_path: Path) -> None:
    for state in both(tmp_path):
        signatures = make_signatures(3, seed=0, sources=("filed",))
        index_update = index_update_of(
            0, 3, pending_verdicts=[(("tried", 0, 1), TRIED), (("also", 0, 1), TRIED)], signatures=signatures
        )
        state.file(index_update, 1, 0)
        state.file(index_update_of(3, 1, signatures=make_signatures(1, seed=0, sources=("tried",))), 2, 0)
        names = [value[1:].decode() for name, value in state.items() if name.startswith(b"sources/")]
        assert names == ["filed", "tried", "also"]
        assert state.page_ids(np.array([3], np.uint64))[0] == ("tried", 0, 0)
        state.close()


def test_a_memory_of_no_pages_is_deleted_and_a_dead_one_hidden_and_then_swept(tmp_path: Path) -> None:
    for state in both(tmp_path):
        rows = [(1, 2, 0, NOBODY, [0x11], []), (5, 1, 0, 0, [], []), (9, 3, 0, NOBODY, [], [0x101])]
        state.file(index_update_of(0, 2, memories_of(rows)), 1, 0)
        hosts = np.array([1, 5, 9], np.uint64)
        assert state.memories(hosts).pages.tolist() == [2, 1, 3]
        state.file(index_update_of(2, 2, memories_of([(5, 0, 2, NOBODY, [], [])])), 2, 0)
        assert state.memories(hosts).pages.tolist() == [2, 0, 3]
        clock = Clock(1, (StepMark(0, 2),))
        state.file(index_update_of(4, 1, memories_of([(9, 4, 4, NOBODY, [], [0x102])])), 3, 0, clock=clock)
        assert LiveView(state, 2).memories(hosts).pages.tolist() == [0, 0, 4]
        assert [name for name, _ in state.items() if name.startswith(b"hosts/")] == [b"hosts/" + bytes(7) + b"\x09"]
        state.close()


def test_a_forgotten_page_loses_its_attempt(tmp_path: Path) -> None:
    for state in both(tmp_path):
        page = ("pages", 0, 0)
        index_update = index_update_of(
            0, 1, pending_verdicts=[(page, TRIED)], signatures=make_signatures(1, seed=0, sources=("pages",))
        )
        state.file(index_update, 1, 0)
        state.remove(Removal((page,), np.array([0], np.uint64), NO_KEYS, NO_BUCKETS, NO_KEYS), 2, 0)
        assert state.pending_verdicts([page]) == [None]
        assert not any(name.startswith(b"attempts/") for name, _ in state.items())
        state.close()


def test_a_view_of_own_texts_reads_what_was_filed(tmp_path: Path) -> None:
    for state in both(tmp_path):
        state.file(index_update_of(0, 20, seed=5), 1, 0)
        assert_alike(
            state.indexed(np.arange(20, dtype=np.uint64)).own_texts(), some_own_text(20, np.random.default_rng(5))
        )
        state.close()


def test_a_state_of_the_format_before_lacks_families_and_is_refused_by_its_format(tmp_path: Path) -> None:
    families = {name: Options(raw_mode=True) for name in ("buckets", "entries", "sources")}
    database = Rdict(str(tmp_path / INDEX_FOLDER), database_options(), families)
    text = json.dumps({"format": 2, "log": "log", "settings": "{}"}, sort_keys=True)
    database[IDENTITY] = seal(b"\x01" + text.encode())
    database.close()
    for read in (
        lambda: open_state(tmp_path),
        lambda: describe(tmp_path),
        lambda: take_snapshot(tmp_path, tmp_path / "to"),
        lambda: verify(tmp_path),
    ):
        with pytest.raises(StateError, match=r"must have format 3, got 2; use the release that wrote it"):
            read()
