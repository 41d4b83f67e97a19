"""A verdict depends on the log's order and on nothing else: not on batches, stores or repeated submission."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state.index import State, first_difference
from state.memory import MemoryState
from state.rocks import RocksState
from stream.config import IndexSettings, SchemeSettings, SpotsSection
from stream.judge import judge
from stream.schemes.chain import ChainScheme
from stream.signature import Signatures, Status, unused_columns
from stream.verdict import Kind, Reason
from tests.reference.judge import ObviousJudge, original_id

Row = tuple[int, int, int]
"""Of a page: fingerprint or digest, status, page id."""
Outcome = tuple[str, str, float | None, str]

SCHEME = ChainScheme(SchemeSettings(max_distance_bits=3, tables=4), SpotsSection())
NEAR = [0, 1, 3, 7, 15, 31, 1 << 20, (1 << 20) | 1, 1 << 40, (1 << 40) | 3, (1 << 60) | (1 << 40), 2**64 - 1]
"""Fingerprints that share buckets and lie 1..6 bits apart: chains of near pages and full buckets are common."""

PROFILE = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def rows(most: int = 40) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Pages by what they look like: (word, status)."""
    status = st.sampled_from([Status.FINGERPRINTED] * 6 + [Status.TOO_FEW_FEATURES, Status.EMPTY, Status.NOT_TEXT])
    return st.lists(st.tuples(st.sampled_from(NEAR), status.map(int)), min_size=1, max_size=most)


caps = st.integers(1, 4)
cuts = st.lists(st.integers(1, 9), max_size=40)


def pages_of(looks: Sequence[tuple[int, int]]) -> list[Row]:
    """Give every page an id of its own."""
    return [(word, status, page_id) for page_id, (word, status) in enumerate(looks)]


def signatures_of(pages: Sequence[Row]) -> Signatures:
    """Pages of two sources; the id is spread over source, partition and offset."""
    words, status, ids = ([row[column] for row in pages] for column in range(3))
    count = len(pages)
    return Signatures(
        ("one", "two"),
        np.array([i % 2 for i in ids], np.uint16),
        np.array([i % 3 for i in ids], np.int32),
        np.array(ids, np.int64),
        np.array(ids, np.int64) * 1000,
        np.array([[w, w // 3] for w in words], np.uint64).reshape(-1, 2),
        np.array(words, np.uint64),
        np.array(status, np.uint8),
        np.ones(count, np.uint32),
        tuple(b"http://x/%d" % i for i in ids),
        (b"",) * count,
        **unused_columns(count),
    )


def run(state: State, pages: Sequence[Row], sizes: Sequence[int], cap: int) -> tuple[list[Outcome], int]:
    """Judge pages in records of these sizes (then one by one); -> outcomes, capped filings."""
    outcomes: list[Outcome] = []
    capped, at, remaining = 0, 0, list(sizes)
    while at < len(pages):
        size = remaining.pop(0) if remaining else 1
        verdicts, filing = judge(signatures_of(pages[at : at + size]), SCHEME, state, cap, 64)
        state.file(filing, state.position + 1)
        capped += filing.capped
        for index in range(len(verdicts)):
            score = float(verdicts.score[index])
            outcomes.append(
                (
                    Kind(verdicts.kind[index]).name.lower(),
                    original_id(verdicts.originals[index]),
                    None if np.isnan(score) else score,
                    Reason(verdicts.reason[index]).label,
                )
            )
        at += size
    return outcomes, capped


def without_reason(outcomes: Sequence[Outcome]) -> list[tuple[str, str, float | None]]:
    """The verdict proper: a page's second attempt says so in its reason, and in nothing else."""
    return [outcome[:3] for outcome in outcomes]


@PROFILE
@given(rows(), caps, cuts)
def test_verdicts_are_those_of_the_obvious_judge(looks: list[tuple[int, int]], cap: int, sizes: list[int]) -> None:
    pages = pages_of(looks)
    twin = ObviousJudge(SCHEME.design.masks, 3, cap)
    expected = twin.judge(signatures_of(pages))
    outcomes, capped = run(MemoryState(), pages, sizes, cap)
    assert outcomes == expected
    assert capped == twin.capped


@PROFILE
@given(rows(), caps, cuts, cuts)
def test_batch_boundaries_change_neither_verdicts_nor_the_state(
    looks: list[tuple[int, int]], cap: int, sizes: list[int], other_sizes: list[int]
) -> None:
    pages, one, other = pages_of(looks), MemoryState(), MemoryState()
    assert run(one, pages, sizes, cap) == run(other, pages, other_sizes, cap)
    for state in (one, other):
        state.file(None, 1000)
    assert first_difference(one, other) is None


@PROFILE
@given(rows(), caps, cuts, st.data())
def test_pages_submitted_again_at_any_later_point_get_the_verdicts_they_had(
    looks: list[tuple[int, int]], cap: int, sizes: list[int], data: st.DataObject
) -> None:
    pages = pages_of(looks)
    first, _ = run(MemoryState(), pages, sizes, cap)
    expected = dict(zip((page[2] for page in pages), without_reason(first), strict=True))
    # every page once in order, with repeats of pages already seen thrown in anywhere, in the same record or a later one
    mixed: list[Row] = []
    for index, page in enumerate(pages):
        mixed.append(page)
        mixed += data.draw(st.lists(st.sampled_from(pages[: index + 1]), max_size=3))
    state, plain = MemoryState(), MemoryState()
    outcomes, _ = run(state, mixed, data.draw(cuts), cap)
    for page, outcome in zip(mixed, without_reason(outcomes), strict=True):
        assert outcome == expected[page[2]]
    run(plain, pages, [], cap)
    for one in (state, plain):
        one.file(None, 1000)
    assert first_difference(state, plain) is None


@settings(PROFILE, max_examples=25)
@given(rows(), caps, cuts)
def test_the_state_on_disk_and_in_memory_agree_and_reopening_changes_nothing(
    looks: list[tuple[int, int]], cap: int, sizes: list[int]
) -> None:
    pages, memory = pages_of(looks), MemoryState()
    middle = len(pages) // 2
    with tempfile.TemporaryDirectory() as scratch:
        with RocksState.open(Path(scratch), "{}", "log", IndexSettings()) as rocks:
            assert run(rocks, pages[:middle], sizes, cap) == run(memory, pages[:middle], sizes, cap)
        with RocksState.open(Path(scratch), "{}", "log", IndexSettings()) as rocks:
            assert first_difference(rocks, memory) is None
            assert run(rocks, pages[middle:], sizes, cap) == run(memory, pages[middle:], sizes, cap)
            assert first_difference(rocks, memory) is None
            assert (rocks.position, rocks.entry_count) == (memory.position, memory.entry_count)


def test_a_page_is_never_the_duplicate_of_its_own_first_attempt() -> None:
    state = MemoryState()
    page = [(5, int(Status.FINGERPRINTED), 1)]
    assert run(state, page, [], 4)[0] == [("novel", "", None, "no_match")]
    assert run(state, page * 2, [2], 4)[0] == [("novel", "", None, "first_attempt")] * 2
    assert state.entry_count == 1


@pytest.mark.parametrize("state", [MemoryState, None])
@pytest.mark.parametrize("other", ["source", "partition", "offset"])
def test_an_equal_page_elsewhere_is_a_duplicate_though_all_but_one_part_of_its_id_agree(
    other: str, state: type[MemoryState] | None, tmp_path: Path
) -> None:
    first = signatures_of([(5, int(Status.FINGERPRINTED), 0)])
    again = replace(first, **{other: getattr(first, other) + 1})
    with RocksState.open(tmp_path, "{}", "log", IndexSettings()) as rocks:
        view: State = rocks if state is None else state()
        view.file(judge(first, SCHEME, view, 4, 64)[1], 1)
        verdicts, _ = judge(again, SCHEME, view, 4, 64)
    assert (verdicts.kind[0], verdicts.reason[0]) == (Kind.DUPLICATE, Reason.NEAR)
    assert original_id(verdicts.originals[0]) == "one/0/0"


@pytest.mark.parametrize("sizes", [[6], [1, 5], [3, 3]])
def test_postings_of_this_record_count_as_candidates_like_those_filed_before(sizes: list[int]) -> None:
    looks = [(0, int(Status.FINGERPRINTED)), (0xFFFF, int(Status.FINGERPRINTED)), (1, int(Status.FINGERPRINTED))] * 2
    pages, state, candidates = pages_of(looks), MemoryState(), list[int]()
    for size in sizes:
        at = len(candidates)
        verdicts, filing = judge(signatures_of(pages[at : at + size]), SCHEME, state, 4, 64)
        state.file(filing, state.position + 1)
        candidates += verdicts.candidates.tolist()
    # The first two share the buckets of three of the four tables; the third is the first's neighbour in all but one.
    assert candidates == [0, 3, 6, 7, 7, 6]


def test_a_full_bucket_is_probed_but_takes_no_more_and_is_counted() -> None:
    # 32 bits apart in the lowest 16 bits only: table designs of 4 blocks share the other three blocks' buckets
    words = (0x000F, 0x00F0, 0x0F00, 0xF000)
    far_apart = [(word, int(Status.FINGERPRINTED), index) for index, word in enumerate(words)]
    state = MemoryState()
    outcomes, capped = run(state, far_apart, [4], 2)
    assert [outcome[0] for outcome in outcomes] == ["novel"] * 4
    assert capped == 6, "the third and fourth page find three full buckets each"
    near_first = [(0x0007, int(Status.FINGERPRINTED), 9)]
    assert run(state, near_first, [], 2)[0][0][:2] == ("duplicate", "one/0/0")


@pytest.mark.parametrize("size", [1, 7, 512])
def test_an_empty_page_matches_nothing_and_is_not_remembered(size: int) -> None:
    state = MemoryState()
    outcomes, _ = run(state, [(0, int(Status.EMPTY), index) for index in range(size)], [size], 4)
    assert {outcome[0] for outcome in outcomes} == {"unchecked"}
    assert state.entry_count == 0


def test_pages_without_a_fingerprint_match_by_digest_alone_and_stay_unchecked() -> None:
    few, text = int(Status.TOO_FEW_FEATURES), int(Status.FINGERPRINTED)
    pages = [(0, few, 0), (0, text, 1), (1, few, 2), (0, few, 3), (0, int(Status.NOT_TEXT), 4)]
    outcomes, _ = run(MemoryState(), pages, [5], 4)
    assert [(verdict, original, reason) for verdict, original, _, reason in outcomes] == [
        ("unchecked", "", "too_few_features"),
        ("novel", "", "no_match"),
        ("unchecked", "", "too_few_features"),
        ("duplicate", "one/0/0", "exact"),
        ("duplicate", "one/0/0", "exact"),
    ]
