"""Memories of hosts, own texts and pending_verdicts: encoded, decoded, and kept alike by both stores."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Options, Rdict

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.format.entries import (
    decode_distinctive_texts,
    encode_entries,
    entry_fault,
    pack_entry,
    unpack_entry,
)
from spotsieve.state.format.entry_bytes import OwnParts
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
from spotsieve.state.index import NOBODY, CommitMark, HostMemories, IndexUpdate, LiveView, PendingVerdict, Removal
from spotsieve.state.snapshot.snapshots import take_snapshot
from spotsieve.state.still.reading import describe
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks_options import database_options
from spotsieve.state.store.state import State
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import CorruptRecord, StateError
from spotsieve.stream.base.page_text import ENTRY_SAMPLES
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import DistinctiveText
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.host_filings import (
    NO_BUCKETS,
    NO_KEYS,
    HostRow,
    distinctive_text,
    index_update_of,
    memories_of,
    slot,
    some_distinctive_text,
    some_memories,
)
from tests.reference.signatures import make_signatures
from tests.reference.stored import ObviousMemory, distinctive_text_of, memory_value, obvious_sample_bytes

NO_TEXT = OwnParts(0, 0, 0, 0, 0, (), (), ())
EVERYTHING = CommitMark("", -1, 0)
TRIED = PendingVerdict(3, 0.75, 2, 1)


def open_state(path: Path) -> State:
    return disk_state(path, "{}", "log", IndexSettings())


def assert_alike(one: DistinctiveText | HostMemories, other: DistinctiveText | HostMemories) -> None:
    assert type(one) is type(other)
    for name in one._fields:
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype, name
        np.testing.assert_array_equal(left, right, err_msg=name)


def rows_of(memories: HostMemories) -> list[ObviousMemory]:
    return [
        ObviousMemory(
            int(memories.urls[host]),
            int(memories.texts[host]),
            int(memories.last[host]),
            int(memories.item_hand[host]),
            int(memories.word_hand[host]),
            int(memories.item_floor[host]),
            int(memories.word_floor[host]),
            tuple(memories.items[memories.item_bounds[host] : memories.item_bounds[host + 1]].tolist()),
            tuple(memories.words[memories.word_bounds[host] : memories.word_bounds[host + 1]].tolist()),
        )
        for host in range(len(memories.hosts))
    ]


@pytest.mark.parametrize("keeps_features", [False, True])
def test_an_distinctive_text_comes_back_from_entries_with_and_without_features(keeps_features: bool) -> None:
    for count in (0, 1, 30):
        index_update = dataclasses.replace(index_update_of(0, count, seed=count), keeps_features=keeps_features)
        values = encode_entries(index_update, np.zeros(count, np.uint32))
        keys = [bytes([row]) for row in range(count)]
        assert index_update.learned is not None
        own = index_update.learned.own
        assert_alike(decode_distinctive_texts(keys, values), own)
        for row, value in enumerate(values):
            expected = (
                *(getattr(own, name)[row] for name in ("site", "main", "whole", "every", "limit")),
                tuple(own.sample[own.sample_bounds[row] : own.sample_bounds[row + 1]].tolist()),
                tuple(own.blocks[own.block_bounds[row] : own.block_bounds[row + 1]].tolist()),
                tuple(own.titles[own.title_bounds[row] : own.title_bounds[row + 1]].tolist()),
            )
            assert distinctive_text_of(value) == expected
            assert unpack_entry(b"", value).own == expected
            assert pack_entry(unpack_entry(b"", value)) == value
            assert entry_fault(value, 1) is None


def test_an_entry_of_a_scheme_that_learns_nothing_pays_no_byte_for_distinctive_text() -> None:
    learning = index_update_of(0, 5, seed=1)
    plain = encode_entries(dataclasses.replace(learning, learned=None), np.zeros(5, np.uint32))
    assert [len(value) for value in plain] == [
        42 + 16 + len(url) + len(label)
        for url, label in zip(learning.signatures.urls, learning.signatures.labels, strict=True)
    ]
    assert_alike(decode_distinctive_texts([b""] * 5, plain), distinctive_text([NO_TEXT] * 5))
    both = [plain[0], encode_entries(learning, np.zeros(5, np.uint32))[1]]
    assert decode_distinctive_texts([b"", b""], both).block_bounds[1] == 0


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda value: value[:41], "must be version 5"),
        (lambda value: b"\2" + value[1:], "must be version 5"),
        (lambda value: value[:60], "the length that it declares"),
        (lambda value: value[:-1], "the length that it declares"),
        (lambda value: value + b"x", "the length that it declares"),
        (lambda value: value[:27] + b"\0" + value[28:], "the length that it declares"),
        (lambda value: value[:27] + b"\xc0" + value[28:], "the length that it declares"),
        (lambda value: changed(value, 9, b"\xff"), "the length that it declares"),
        (lambda value: changed(value, 10, b"\xff"), "the length that it declares"),
        (lambda value: changed(value, 11, b"\xff"), "the length that it declares"),
        (lambda value: changed(value, 12, (7 | 6 << 15 | 0b011 << 30).to_bytes(5, "little")), "ascend"),
        (lambda value: changed(value, 12, (6 | 7 << 15 | 0b001 << 30).to_bytes(5, "little")), "ascend"),
        (lambda value: changed(value, 12, (6 | 7 << 15 | 0b111 << 30).to_bytes(5, "little")), "ascend"),
        (lambda value: changed(value, 12, (6 | 7 << 15 | 0b1011 << 30).to_bytes(5, "little")), "ascend"),
        (lambda value: changed(value, 17, (8).to_bytes(8, "little") + (7).to_bytes(8, "little")), "ascend"),
        (lambda value: changed(value, 17, 2 * (8).to_bytes(8, "little")), "ascend"),
        (lambda value: changed(value, 33, b"\x0a\0\x09\0"), "ascend"),
        (lambda value: changed(value, 33, b"\x09\0\x09\0"), "ascend"),
    ],
)
def test_a_damaged_distinctive_text_is_corrupt_and_named(damage: Callable[[bytes], bytes], rule: str) -> None:
    own = OwnParts(1, 2, 3, 4, 5, (6, 7), (7, 8), (9, 10))
    (sound,) = encode_entries(indexed_with(own), np.zeros(1, np.uint32))
    assert decode_distinctive_texts([b""], [sound]).titles.tolist() == [9, 10]
    with pytest.raises(CorruptRecord, match=rf"entries\[00ff\].*{rule}"):
        decode_distinctive_texts([b"\0", b"\x00\xff"], [sound, damage(sound)])
    assert entry_fault(damage(sound), 1) is not None


def changed(entry: bytes, place: int, replaced: bytes) -> bytes:
    """An entry with other bytes from a place of its own text on, which begins behind a sketch of 2 words."""
    at = 42 + 16 + place
    return entry[:at] + replaced + entry[at + len(replaced) :]


def indexed_with(own: OwnParts) -> IndexUpdate:
    """An update of one page with this own text."""
    index_update = index_update_of(0, 1)
    assert index_update.learned is not None
    return dataclasses.replace(
        index_update, learned=dataclasses.replace(index_update.learned, own=distinctive_text([own]))
    )


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**16 - 1) | st.sampled_from([0, 1, 2**16 - 1]), max_size=ENTRY_SAMPLES), st.data())
def test_a_sample_takes_the_bytes_of_its_code_and_damage_is_noticed_alike(
    hashes: list[int], data: st.DataObject
) -> None:
    own = NO_TEXT._replace(sample=tuple(sorted(hashes)))
    (entry,) = encode_entries(indexed_with(own), np.zeros(1, np.uint32))
    assert decode_distinctive_texts([b""], [entry]).sample.tolist() == sorted(hashes)
    assert distinctive_text_of(entry) == unpack_entry(b"", entry).own == own
    size = obvious_sample_bytes(len(hashes))
    assert size <= 176
    bit = data.draw(st.integers(0, max(8 * size - 1, 0)))
    damaged = changed(entry, 12 + bit // 8, bytes([entry[42 + 16 + 12 + bit // 8] ^ 1 << bit % 8]))
    if not size:
        return
    try:
        found = decode_distinctive_texts([b""], [damaged])
    except CorruptRecord:
        assert entry_fault(damaged, 1) is not None
    else:
        assert unpack_entry(b"", damaged).own == own._replace(sample=tuple(found.sample.tolist()))
        assert sorted(found.sample) == found.sample.tolist()


MOST = NO_TEXT._replace(sample=(7,) * ENTRY_SAMPLES, blocks=tuple(range(16)), titles=tuple(range(10)))


@pytest.mark.parametrize(
    "own",
    [
        MOST._replace(sample=(7,) * (ENTRY_SAMPLES + 1)),
        MOST._replace(blocks=tuple(range(17))),
        MOST._replace(titles=tuple(range(11))),
    ],
)
def test_an_distinctive_text_has_room_for_the_most_numbers_and_not_one_more(own: OwnParts) -> None:
    (sound,) = encode_entries(indexed_with(MOST), np.zeros(1, np.uint32))
    assert unpack_entry(b"", sound).own == MOST
    with pytest.raises(ValueError, match=rf"of at most \({ENTRY_SAMPLES}, 16, 10\)"):
        encode_entries(indexed_with(own), np.zeros(1, np.uint32))
    value = pack_entry(unpack_entry(b"", sound)._replace(own=own))
    rule = f"at most {ENTRY_SAMPLES} sampled hashes, 16 blocks and 10 title words, which ascend"
    with pytest.raises(CorruptRecord, match=rule):
        decode_distinctive_texts([b""], [value])
    assert rule in (entry_fault(value, 1) or "")


def test_memories_come_back_as_they_were_and_have_the_bytes_of_the_obvious_writer() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        hosts = sorted({int(host) for host in random.integers(0, 2**64, seed, np.uint64)})
        memories = some_memories(hosts, int(random.integers(2**40)), random)
        values = encode_memories(memories)
        assert values == [memory_value(row) if row.urls else None for row in rows_of(memories)]
        expected = memories._replace(last=np.where(memories.urls == 0, np.uint64(0), memories.last))
        assert_alike(decode_memories(memories.hosts, values), expected)


SOUND = ObviousMemory(3, 5, 9, 1, 0, 2, 1, (slot(1), slot(2, 3, 4, 5)), (slot(1), slot(3)))
WHOLE = memory_value(SOUND)
BROKEN = [
    SOUND._replace(urls=0),
    SOUND._replace(item_hand=2),
    SOUND._replace(word_hand=2),
    SOUND._replace(items=(), item_hand=1),
    SOUND._replace(items=(slot(2), slot(2, 1))),
    SOUND._replace(items=(slot(1), slot(2, urls=0))),
    SOUND._replace(words=(slot(1), slot(2, texts=0))),
    SOUND._replace(words=(slot(3), slot(2), slot(3, 2, 3, 4))),
    SOUND._replace(items=tuple(slot(identity) for identity in range(3073))),
    SOUND._replace(words=tuple(slot(identity) for identity in range(129))),
]


SHORT = SOUND._replace(words=(), items=(slot(1), slot(2), slot(3, 3, 4, 5), slot(4)))
TALLIES, CODES = (slot(0), slot(0, 3, 4, 5)), (1 << 1, 2 << 1, 3 << 1 | 1, 4 << 1)


def short_value(tallies: Sequence[int] = TALLIES, codes: Sequence[int] = CODES, last: int = 0) -> bytes:
    """The value of SHORT with these tallies and short slots. last: the bits that fill the last byte"""
    width = 28 + (len(tallies) - 1).bit_length()
    stored = b"".join(tally.to_bytes(4, "little") for tally in tallies)
    short = sum(code << width * place for place, code in enumerate(codes)) | last << width * len(codes)
    return memory_value(SHORT)[:31] + bytes([len(tallies)]) + stored + short.to_bytes(15, "little")


SHORT_BROKEN = [
    short_value()[:-1],
    short_value(last=1),
    short_value(last=8),
    short_value((*TALLIES, slot(0, 7)), [1 << 2, 2 << 2, 3 << 2 | 3, 4 << 2]),
    short_value(codes=[1 << 1 | 1, 2 << 1, 3 << 1, 4 << 1]),
    short_value(codes=[1 << 1, 2 << 1, 3 << 1, 4 << 1]),
    short_value(codes=[1 << 1, 2 << 1, 2 << 1 | 1, 4 << 1]),
    short_value((slot(0), slot(0))),
    short_value((slot(0), 1 << 28 | slot(0))),
    short_value((slot(0), 1 << 24)),
    memory_value(SHORT)[:31] + b"\0" + b"".join(one.to_bytes(7, "little") for one in SHORT.items),
]


@pytest.mark.parametrize(
    ("tallies", "bits"), [(1, 28), (2, 29), (16, 32), (17, 33), (150, 36), (255, 36), (256, 56), (600, 56)]
)
def test_few_tallies_are_stored_once(tallies: int, bits: int) -> None:
    slots = tuple(slot(number, number % tallies % 16, 1 + number % tallies) for number in range(600))
    memory = SOUND._replace(items=slots[:500], words=slots[500:])
    (value,) = encode_memories(memories_of([HostRow(5, *memory)]))
    assert value == memory_value(memory)
    assert len(value) == 32 + 600 * bits // 8 + (4 * tallies if bits < 56 else 0)
    assert rows_of(decode_memories(np.array([5], np.uint64), [value])) == [memory]


def test_a_host_with_one_page_of_30_blocks_and_7_title_words_takes_166_bytes() -> None:
    slots = tuple(slot(number, 0, 1 << 7, 1 << 2) for number in range(30))
    (value,) = encode_memories(memories_of([HostRow(5, items=slots, words=slots[:7])]))
    assert value is not None
    assert len(value) == 166


@pytest.mark.parametrize(
    "value",
    [
        *(
            b"",
            b"\0" + WHOLE[1:],
            b"\3" + WHOLE[1:],
            b"\5" + WHOLE[1:],
            WHOLE[:-1],
            WHOLE + b"x",
            WHOLE[:8],
            WHOLE[:31],
        ),
        *map(memory_value, BROKEN),
        *SHORT_BROKEN,
    ],
)
def test_a_damaged_memory_is_corrupt_and_names_its_host(value: bytes) -> None:
    assert short_value() == memory_value(SHORT)
    assert decode_memories(np.array([1], np.uint64), [WHOLE]).urls.tolist() == [3]
    with pytest.raises(CorruptRecord, match=r"hosts\[0000000000000005\] must be version 4"):
        decode_memories(np.array([1, 2, 5], np.uint64), [WHOLE, None, value])


@pytest.mark.parametrize(
    "broken",
    [*BROKEN, SOUND._replace(last=2**40), SOUND._replace(items=(1 << 56 | slot(1),), item_hand=0)],
)
def test_a_memory_that_breaks_a_rule_is_a_programming_error(broken: ObviousMemory) -> None:
    rows = [HostRow(4, *SOUND), HostRow(5, *broken)]
    with pytest.raises(ValueError, match="the memory of host 0000000000000005 must be version 4"):
        encode_memories(memories_of(rows))


def test_a_memory_may_have_the_most_items_and_words() -> None:
    slots = tuple(slot(identity * 2**16) for identity in range(3072))
    most = SOUND._replace(items=slots, words=slots[:128], item_hand=3071, word_hand=127)
    memories = memories_of([HostRow(host, *most) for host in range(5)])
    values = encode_memories(memories)
    assert values == [memory_value(most)] * 5
    assert_alike(decode_memories(memories.hosts, values), memories)


def test_keys_of_attempts_ascend_as_page_ids_do_and_values_come_back() -> None:
    pages = [(0, -(2**31), 5), (0, -1, 0), (0, 0, 2**63 - 1), (0, 7, 1), (1, -5, 3), (2**32 - 1, 2**31 - 1, 0)]
    keys = [pending_verdict_key(*page) for page in pages]
    assert keys == sorted(keys)
    assert [page_of_key(key) for key in keys] == pages
    without = PendingVerdict(NOBODY, float("nan"), 9, 0)
    assert decode_pending_verdict(keys[0], encode_pending_verdict(TRIED)) == TRIED
    replacing = without._replace(original=0)
    for novel in (without, replacing):
        assert repr(decode_pending_verdict(keys[0], encode_pending_verdict(novel))) == repr(novel)
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
    wanted = [(f"source {source}", partition, offset) for source in range(6) for partition in (-2, -1, 0, 1, 2)
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
            assert memory.pending_verdicts(wanted) == store.pending_verdicts(wanted)
            assert_alike(memory.memories(hosts), store.memories(hosts))
            for state in (LiveView(memory, memory.clock.floor), memory):
                numbers = np.arange(memory.clock.floor, memory.entry_count, dtype=np.uint64)
                assert_alike(state.indexed(numbers).distinctive_texts(), store.indexed(numbers).distinctive_texts())
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


def test_a_memory_without_urls_is_deleted_and_a_dead_one_hidden_and_then_swept(tmp_path: Path) -> None:
    for state in both(tmp_path):
        rows = [HostRow(1, 2, items=[slot(1)]), HostRow(5), HostRow(9, 3, words=[slot(1)])]
        state.file(index_update_of(0, 2, memories_of(rows)), 1, 0)
        hosts = np.array([1, 5, 9], np.uint64)
        assert state.memories(hosts).urls.tolist() == [2, 1, 3]
        state.file(index_update_of(2, 2, memories_of([HostRow(5, urls=0, last=2)])), 2, 0)
        assert state.memories(hosts).urls.tolist() == [2, 0, 3]
        clock = Clock(1, (StepMark(0, 2),))
        state.file(index_update_of(4, 1, memories_of([HostRow(9, 4, 1, 4, words=[slot(2)])])), 3, 0, clock=clock)
        living = LiveView(state, 2).memories(hosts)
        assert (living.urls.tolist(), living.words.tolist()) == ([0, 0, 4], [slot(2)])
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


def test_a_view_of_distinctive_texts_reads_what_was_filed(tmp_path: Path) -> None:
    for state in both(tmp_path):
        state.file(index_update_of(0, 20, seed=5), 1, 0)
        assert_alike(
            state.indexed(np.arange(20, dtype=np.uint64)).distinctive_texts(),
            some_distinctive_text(20, np.random.default_rng(5)),
        )
        state.close()


def test_a_state_of_the_format_before_lacks_families_and_is_refused_by_its_format(tmp_path: Path) -> None:
    families = {name: Options(raw_mode=True) for name in ("buckets", "entries", "sources")}
    database = Rdict(str(tmp_path / INDEX_FOLDER), database_options(), families)
    text = json.dumps({"format": 3, "log": "log", "settings": "{}"}, sort_keys=True)
    database[IDENTITY] = seal(b"\x01" + text.encode())
    database.close()
    for read in (
        lambda: open_state(tmp_path),
        lambda: describe(tmp_path),
        lambda: take_snapshot(tmp_path, tmp_path / "to"),
        lambda: verify(tmp_path),
    ):
        with pytest.raises(StateError, match=r"must have format 4, got 3; use the release that wrote it"):
            read()
