"""Forgetting goes through the log: whoever reads it holds the same state, and no other page changes."""

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.state.format.entries import FORGOTTEN
from spotsieve.state.log.record import encode, encode_forget
from spotsieve.state.portable.export import export_lines
from spotsieve.state.portable.importing import import_state
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.still.reading import read_only_state
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import page_id_text
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import PLAIN, Policy
from spotsieve.stream.sign.fingerprints.permuted_tables import BARE_TAGS
from tests.fixtures.pages.generated import (
    PROFILE,
    SCHEME_CASES,
    Look,
    SchemeCase,
    Submitted,
    caps,
    limits,
    pages_of,
    policies,
    scheme_cases,
    signatures_of,
    without_reason,
)
from tests.fixtures.states.comparison import first_difference
from tests.reference.judge import ObviousJudge, Outcome, original_id

WRITER, DIGEST = bytes(16), bytes(16)
NO_LIMIT = 10**6


class Reader:
    """A reader of the log of these tests. outcomes: its verdict of every page"""

    def __init__(
        self,
        case: SchemeCase,
        state: State,
        cap: int,
        candidate_limit: int = NO_LIMIT,
        horizon_hours: float = 0.0,
        policy: Policy = PLAIN,
    ) -> None:
        limits = IndexSettings.model_construct(
            bucket_cap=cap, candidate_limit=candidate_limit, horizon_hours=horizon_hours
        )
        self.state = state
        self.engine = Engine(case.scheme, state, limits, DIGEST, "log", policy)
        self.outcomes: list[Outcome] = []

    def read(self, log: Sequence[bytes], first: int = 0) -> None:
        """Apply the log from record `first` on."""
        for offset, record in enumerate(log[first:], first):
            verdicts = self.engine.apply(record, offset).verdicts
            for row in range(len(verdicts)):
                score = float(verdicts.score[row])
                self.outcomes.append(
                    (
                        Kind(verdicts.kind[row]).name.lower(),
                        original_id(verdicts.originals[row] or verdicts.replaces[row]),
                        None if score != score else score,
                        Reason(verdicts.reason[row]).label,
                        int(verdicts.found_by[row]),
                        bool(verdicts.cut[row]),
                    )
                )


def indexed_page(state: State, number: int) -> ForgottenPage:
    """Return what a record must say to forget this entry, by a scan of everything."""
    (page_id,) = state.page_ids(np.array([number], "u8"))
    assert page_id is not None
    keys = [
        int.from_bytes(name[8:], "big")
        for name, value in state.items()
        if name.startswith(b"buckets/") and number in posting_numbers(name[8:], value)
    ]
    return ForgottenPage(number, *page_id, tuple(keys))


def posting_numbers(key: bytes, value: bytes) -> list[int]:
    size = 5 if key[0] in BARE_TAGS else 13
    return [int.from_bytes(value[at : at + 5], "little") for at in range(1, len(value), size)]


def draw_log(
    data: st.DataObject,
    case: SchemeCase,
    cap: int,
    candidate_limit: int,
    horizon_hours: float = 0.0,
    policy: Policy = PLAIN,
) -> tuple[list[bytes], list[object]]:
    """Draw a log that signs and forgets in any order, and its steps: pages, or the numbers to forget."""
    reader = Reader(case, memory_state(), cap, candidate_limit, horizon_hours, policy)
    pages = pages_of(data.draw(st.lists(case.looks, min_size=2, max_size=40)))
    log, steps, at = list[bytes](), list[object](), 0
    known = dict[int, ForgottenPage]()
    while at < len(pages):
        size = data.draw(st.sampled_from([1, 2, 3, 7, 20]))
        some: list[Submitted] = pages[at : at + size]
        # A forgotten page may come again, and so may any other.
        some += data.draw(st.lists(st.sampled_from(pages[: at + 1]), max_size=2))
        at += size
        log.append(encode(signatures_of(some), WRITER, len(log), DIGEST))
        steps.append(some)
        reader.read(log, len(log) - 1)
        for number in range(reader.state.clock.floor, reader.state.entry_count):
            if number not in known:
                known[number] = indexed_page(reader.state, number)
        if data.draw(st.booleans()) and known:
            # Also numbers that were forgotten before, or twice in one record.
            numbers = data.draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=6))
            log.append(encode_forget([known[number] for number in numbers], WRITER, len(log), DIGEST))
            steps.append(tuple(numbers))
            reader.read(log, len(log) - 1)
    return log, steps


@pytest.mark.guarantee("every reader of the log forgets the same pages", fault="pages forgotten anywhere in a log")
@scheme_cases
@pytest.mark.timeout(300)
@settings(PROFILE, max_examples=20)
@given(st.data(), caps, limits)
def test_with_forgetting_anywhere_in_a_log_all_readers_hold_the_same_whole_state(
    case: SchemeCase, data: st.DataObject, cap: int, limit: int
) -> None:
    # Pages are a second apart. With a horizon of eight some forgotten pages are dead already.
    horizon = data.draw(st.sampled_from([0.0, 8 / 3600]))
    log, steps = draw_log(data, case, cap, limit, horizon)
    memory = Reader(case, memory_state(), cap, limit, horizon)
    memory.read(log)
    middle = data.draw(st.integers(0, len(log)))
    with tempfile.TemporaryDirectory() as scratch:
        with disk_state(Path(scratch), "{}", "log", IndexSettings()) as rocks:
            reader = Reader(case, rocks, cap, limit, horizon)
            reader.read(log[:middle])
        with disk_state(Path(scratch), "{}", "log", IndexSettings()) as rocks:
            again = Reader(case, rocks, cap, limit, horizon)
            again.read(log, middle)
            assert first_difference(rocks, memory.state) is None
            assert (rocks.position, rocks.entry_count) == (len(log), memory.state.entry_count)
        assert reader.outcomes + again.outcomes == memory.outcomes
        assert verify(Path(scratch), 10**6).damages == []
        with read_only_state(Path(scratch)) as still:
            lines = b"\n".join(export_lines(still)).split(b"\n")
        import_state(iter(lines), "export", Path(scratch) / "copy")
        with disk_state(Path(scratch) / "copy", "{}", "log", IndexSettings()) as rocks:
            assert first_difference(rocks, memory.state) is None
    gone = {number for step in steps if isinstance(step, tuple) for number in step}
    for name, value in memory.state.items():
        if name.startswith(b"buckets/"):
            numbers = {number for number in posting_numbers(name[8:], value) if number >= memory.state.clock.floor}
            assert not gone & numbers
        if name.startswith(b"entries/"):
            assert (value == FORGOTTEN) == (int.from_bytes(name[8:], "big") in gone)


@scheme_cases
@PROFILE
@given(st.data(), caps, limits, policies)
def test_with_forgetting_verdicts_are_those_of_the_obvious_judge(
    case: SchemeCase, data: st.DataObject, cap: int, limit: int, policy: Policy
) -> None:
    log, steps = draw_log(data, case, cap, limit, policy=policy)
    reader, reference_kernel = (
        Reader(case, memory_state(), cap, limit, 0.0, policy),
        case.reference_kernel(cap, limit, policy),
    )
    reader.read(log)
    expected = list[Outcome]()
    for step in steps:
        if isinstance(step, tuple):
            for number in step:
                forget_obviously(reference_kernel, number)
        else:
            assert isinstance(step, list)
            expected += reference_kernel.judge(signatures_of(step))
    assert reader.outcomes == expected


def forget_obviously(reference_kernel: ObviousJudge, number: int) -> None:
    for bucket, postings in reference_kernel.buckets.items():
        reference_kernel.buckets[bucket] = [posting for posting in postings if posting[0] != number]


@pytest.mark.guarantee(
    "forgetting a page changes no verdict of another", fault="any pages forgotten, all others submitted again"
)
@scheme_cases
@PROFILE
@given(st.data(), caps, policies)
def test_resubmitted_pages_whose_original_is_still_known_keep_their_verdicts(
    case: SchemeCase, data: st.DataObject, cap: int, policy: Policy
) -> None:
    pages = pages_of(data.draw(st.lists(case.looks, min_size=2, max_size=40)))
    log = [encode(signatures_of(pages), WRITER, 0, DIGEST)]
    reader = Reader(case, memory_state(), cap, policy=policy)
    reader.read(log)
    ids = reader.state.page_ids(np.arange(reader.state.entry_count, dtype="u8"))
    numbers = data.draw(st.sets(st.sampled_from(range(len(ids))), max_size=5)) if ids else set[int]()
    if numbers:
        log.append(encode_forget([indexed_page(reader.state, number) for number in numbers], WRITER, 1, DIGEST))
        reader.read(log, 1)
    kept = {page_id_text(*page_id) for number, page_id in enumerate(ids) if page_id and number not in numbers}
    first = list(zip(pages, without_reason(reader.outcomes), strict=True))
    names = {page: original_id_of(page) for page, _ in first}
    # A novel page met itself. So it must be there too, and not only the page it replaced.
    untouched = [
        (page, outcome)
        for page, outcome in first
        if (outcome[1] or names[page]) in kept and (outcome[0] == "duplicate" or names[page] in kept)
    ]
    reader.outcomes.clear()
    log.append(encode(signatures_of([page for page, _ in untouched]), WRITER, 2, DIGEST))
    reader.read(log, len(log) - 1)
    assert without_reason(reader.outcomes) == [outcome for _, outcome in untouched]


def original_id_of(page: Submitted) -> str:
    """Return the page id that signatures_of gives a page."""
    _, number = page
    return page_id_text(("one", "two")[number % 2], number % 3, number)


@pytest.mark.guarantee("the next copy of a forgotten page is novel", fault="a page is forgotten, then copied twice")
@scheme_cases
@pytest.mark.parametrize("stored", [False, True])
def test_the_next_copy_of_a_forgotten_page_is_novel_and_becomes_the_original(
    case: SchemeCase, stored: bool, tmp_path: Path
) -> None:
    look = Look(5, sketch=3, minima=(1, 2), text=7, host=1)
    other = Look(2**63 | 5 << 20, sketch=0xFF, minima=(2,), host=1)
    with disk_state(tmp_path, "{}", "log", IndexSettings()) as rocks:
        reader = Reader(case, rocks if stored else memory_state(), 4)
        log = [encode(signatures_of([(look, 0), (other, 1), (look, 2)]), WRITER, 0, DIGEST)]
        reader.read(log)
        assert [outcome[0] for outcome in reader.outcomes] == ["novel", "novel", "duplicate"]
        page = indexed_page(reader.state, 0)
        assert page.keys, "a filed page is in a bucket"
        log += [
            encode_forget([page], WRITER, 1, DIGEST),
            encode(signatures_of([(look, 3), (look, 4), (other, 5), (look, 0)]), WRITER, 2, DIGEST),
        ]
        applied = reader.engine.apply(log[1], 1)
        assert (applied.forgotten, len(applied.verdicts), applied.indexed) == ((("one", 0, 0),), 0, 0)
        reader.read(log, 2)
    assert [outcome[:2] for outcome in reader.outcomes[3:]] == [
        ("novel", ""),
        ("duplicate", "two/0/3"),
        ("duplicate", "two/1/1"),
        ("duplicate", "two/0/3"),
    ]


@scheme_cases
def test_the_forgotten_page_itself_submitted_again_is_novel_again(case: SchemeCase) -> None:
    reader, pages = Reader(case, memory_state(), 4), [(Look(5, minima=(1,)), 0)]
    record = encode(signatures_of(pages), WRITER, 0, DIGEST)
    reader.read([record])
    reader.read([record, encode_forget([indexed_page(reader.state, 0)], WRITER, 1, DIGEST), record, record], 1)
    assert [outcome[3] for outcome in reader.outcomes] == ["no_match", "no_match", "first_attempt"]
    assert reader.state.entry_count == 2


def test_a_full_bucket_has_room_again_and_what_is_in_it_is_still_found() -> None:
    # 32 bits apart in the lowest 16 bits only: tables share the buckets of the other three blocks, which take two pages
    case, looks = SCHEME_CASES["chain"], [Look(word) for word in (0x000F, 0x00F0, 0x0F00, 0xF000)]
    reader = Reader(case, memory_state(), 2)
    log = [encode(signatures_of(pages_of(looks)), WRITER, 0, DIGEST)]
    reader.read(log)
    near = [(Look(0x00F1), 8), (Look(0x0F01), 9)]
    log.append(encode(signatures_of(near), WRITER, 1, DIGEST))
    reader.read(log, 1)
    assert [outcome[:2] for outcome in reader.outcomes[4:]] == [("duplicate", "two/1/1"), ("novel", "")]
    log.append(encode_forget([indexed_page(reader.state, 0)], WRITER, 2, DIGEST))
    log.append(encode(signatures_of([near[0], (Look(0xF00F), 10), (Look(0xF00B), 11)]), WRITER, 3, DIGEST))
    reader.read(log, 2)
    assert [outcome[:2] for outcome in reader.outcomes[6:]] == [
        ("duplicate", "two/1/1"),
        ("novel", ""),
        ("duplicate", "one/1/10"),
    ]


def test_a_record_that_names_another_page_or_none_changes_nothing_but_the_position() -> None:
    case = SCHEME_CASES["chain"]
    reader = Reader(case, memory_state(), 4)
    log = [encode(signatures_of([(Look(5), 0)]), WRITER, 0, DIGEST)]
    reader.read(log)
    page = indexed_page(reader.state, 0)
    others = [page._replace(source="two"), page._replace(partition=1), page._replace(offset=1), page._replace(number=1)]
    before = dict(reader.state.items())
    log.append(encode_forget(others, WRITER, 1, DIGEST))
    applied = reader.engine.apply(log[1], 1)
    assert applied.forgotten == ()
    after = dict(reader.state.items())
    assert {name for name in after if before[name] != after[name]} == {b"meta/progress"}
    assert reader.state.position == 2
    # Reading the same record again, as for old verdicts, moves nothing.
    assert reader.engine.apply(encode_forget([page], WRITER, 1, DIGEST), 1).again
    assert dict(reader.state.items()) == after


def test_a_key_that_does_not_hold_the_page_is_left_alone() -> None:
    case = SCHEME_CASES["chain"]
    reader = Reader(case, memory_state(), 4)
    log = [encode(signatures_of([(Look(5), 0), (Look(2**64 - 1), 1)]), WRITER, 0, DIGEST)]
    reader.read(log)
    page, other = indexed_page(reader.state, 0), indexed_page(reader.state, 1)
    assert not set(page.keys) & set(other.keys)
    log.append(encode_forget([page._replace(keys=(*page.keys, *other.keys, 77))], WRITER, 1, DIGEST))
    reader.read(log, 1)
    assert indexed_page(reader.state, 1) == other
    names = {name for name, _ in reader.state.items() if name.startswith(b"buckets/")}
    assert names == {b"buckets/" + struct.pack(">Q", key) for key in other.keys}
