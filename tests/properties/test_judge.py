"""A verdict depends on the log's order and on nothing else: not on batches, stores or repeated submission.

Each property is shown of `chain`, whose keys all decide, and of a scheme that confirms candidates by their sketch. Of
a scheme with a memory of hosts test_host_memory.py shows them.
"""

import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.base.verdict import KeyKind, Kind, Reason
from spotsieve.stream.judge import PLAIN, Policy, judge
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.generated import (
    CHAIN,
    DESIGN,
    POLICIES,
    PROFILE,
    SCHEME_CASES,
    Look,
    SchemeCase,
    Submitted,
    any_look,
    caps,
    limits,
    outcomes_of,
    pages_of,
    policies,
    scheme_cases,
    signatures_of,
    some,
    without_reason,
)
from tests.fixtures.states.comparison import first_difference
from tests.reference.confirming import MINIMA_CAP, ConfirmingScheme
from tests.reference.judge import Outcome, original_id

cuts = st.lists(st.sampled_from([1, 2, 3, 5, 9, 80]), max_size=40)


def run(
    case: SchemeCase,
    state: State,
    pages: Sequence[Submitted],
    sizes: Sequence[int],
    cap: int,
    candidate_limit: int = 64,
    policy: Policy = PLAIN,
) -> tuple[list[Outcome], int]:
    """Judge pages in records of these sizes (then one by one); -> outcomes, capped filings."""
    outcomes: list[Outcome] = []
    capped, at, remaining = 0, 0, list(sizes)
    while at < len(pages):
        size = remaining.pop(0) if remaining else 1
        verdicts, index_update = judge(
            signatures_of(pages[at : at + size]), case.scheme, state, cap, candidate_limit, policy
        )
        state.file(index_update, state.position + 1, 0)
        capped += index_update.capped
        outcomes += outcomes_of(verdicts)
        at += size
    return outcomes, capped


@scheme_cases
@PROFILE
@given(st.data(), caps, limits, policies, cuts)
def test_verdicts_are_those_of_the_obvious_judge(
    case: SchemeCase, data: st.DataObject, cap: int, limit: int, policy: Policy, sizes: list[int]
) -> None:
    pages = some(case, data)
    reference_kernel = case.reference_kernel(cap, limit, policy)
    expected = reference_kernel.judge(signatures_of(pages))
    outcomes, capped = run(case, memory_state(), pages, sizes, cap, limit, policy)
    assert outcomes == expected
    assert capped == reference_kernel.capped


@pytest.mark.parametrize("seed", mostly_long(range(60), 10))
def test_verdicts_over_alike_pages_of_all_lengths_are_those_of_the_obvious_judge(seed: int) -> None:
    # Copies that differ in nothing but their length, and ties of length, which hypothesis draws too seldom.
    dice = random.Random(seed)
    policy, cap, limit = dice.choice(POLICIES), dice.randrange(1, 9), dice.choice([1, 2, 3, 8, 64])
    for name, case in SCHEME_CASES.items():
        looks = [any_look(dice, name == "confirming") for _ in range(dice.randrange(10, 60))]
        looks += [look._replace(length=dice.choice([8, 10, 12, 30])) for look in dice.choices(looks, k=20)]
        sizes = dice.choices([1, 2, 5, 9, 80], k=len(looks))
        outcomes, _ = run(case, memory_state(), pages_of(looks), sizes, cap, limit, policy)
        assert outcomes == case.reference_kernel(cap, limit, policy).judge(signatures_of(pages_of(looks)))


@pytest.mark.guarantee("batch sizes, timing and rebalances change no verdict", fault="the same pages in other batches")
@scheme_cases
@PROFILE
@given(st.data(), caps, limits, policies, cuts, cuts)
def test_batch_boundaries_change_neither_verdicts_nor_the_state(
    case: SchemeCase,
    data: st.DataObject,
    cap: int,
    limit: int,
    policy: Policy,
    sizes: list[int],
    other_sizes: list[int],
) -> None:
    pages, one, other = some(case, data), memory_state(), memory_state()
    assert run(case, one, pages, sizes, cap, limit, policy) == run(case, other, pages, other_sizes, cap, limit, policy)
    for state in (one, other):
        state.file(None, 1000, 0)
    assert first_difference(one, other) is None


@pytest.mark.guarantee(
    "no page is dropped as a duplicate of its own first attempt", fault="any page is submitted again at any later point"
)
@scheme_cases
@settings(PROFILE, max_examples=25)
@given(st.data(), caps, limits, policies, cuts)
def test_pages_submitted_again_at_any_later_point_get_the_verdicts_they_had(
    case: SchemeCase, data: st.DataObject, cap: int, limit: int, policy: Policy, sizes: list[int]
) -> None:
    pages = some(case, data, 25)
    first, _ = run(case, memory_state(), pages, sizes, cap, limit, policy)
    expected = dict(zip((page_id for _, page_id in pages), without_reason(first), strict=True))
    # every page once in order, with repeats of pages already seen thrown in anywhere, in the same record or a later one
    mixed: list[Submitted] = []
    for index, page in enumerate(pages):
        mixed.append(page)
        mixed += data.draw(st.lists(st.sampled_from(pages[: index + 1]), max_size=3))
    state, plain = memory_state(), memory_state()
    outcomes, _ = run(case, state, mixed, data.draw(cuts), cap, limit, policy)
    for page, outcome in zip(mixed, without_reason(outcomes), strict=True):
        assert outcome == expected[page[1]]
    run(case, plain, pages, [], cap, limit, policy)
    for one in (state, plain):
        one.file(None, 1000, 0)
    assert first_difference(state, plain) is None


@scheme_cases
@settings(PROFILE, max_examples=25)
@given(st.data(), caps, limits, policies, cuts)
def test_the_state_on_disk_and_in_memory_agree_and_reopening_changes_nothing(
    case: SchemeCase, data: st.DataObject, cap: int, limit: int, policy: Policy, sizes: list[int]
) -> None:
    pages, memory = some(case, data), memory_state()
    middle = len(pages) // 2
    with tempfile.TemporaryDirectory() as scratch:
        with disk_state(Path(scratch), "{}", "log", IndexSettings()) as rocks:
            found = run(case, rocks, pages[:middle], sizes, cap, limit, policy)
            assert found == run(case, memory, pages[:middle], sizes, cap, limit, policy)
        with disk_state(Path(scratch), "{}", "log", IndexSettings()) as rocks:
            assert first_difference(rocks, memory) is None
            found = run(case, rocks, pages[middle:], sizes, cap, limit, policy)
            assert found == run(case, memory, pages[middle:], sizes, cap, limit, policy)
            assert first_difference(rocks, memory) is None
            assert (rocks.position, rocks.entry_count) == (memory.position, memory.entry_count)


@pytest.mark.guarantee(
    "no page is dropped as a duplicate of its own first attempt", fault="a page is submitted again at once"
)
@scheme_cases
def test_a_page_is_never_the_duplicate_of_its_own_first_attempt(case: SchemeCase) -> None:
    state = memory_state()
    page = [(Look(5), 1)]
    assert run(case, state, page, [], 4)[0] == [("novel", "", None, "no_match", 0, False)]
    assert run(case, state, page * 2, [2], 4)[0] == [("novel", "", None, "first_attempt", 0, False)] * 2
    assert state.entry_count == 1


@scheme_cases
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("other", ["source", "partition", "offset"])
def test_an_equal_page_is_a_duplicate_though_all_but_one_part_of_its_id_agree(
    case: SchemeCase, other: str, stored: bool, tmp_path: Path
) -> None:
    first = signatures_of([(Look(5), 0)])
    again = replace(first, **{other: getattr(first, other) + 1})
    with disk_state(tmp_path, "{}", "log", IndexSettings()) as rocks:
        view = rocks if stored else memory_state()
        view.file(judge(first, case.scheme, view, 4, 64)[1], 1, 0)
        verdicts, _ = judge(again, case.scheme, view, 4, 64)
    reason = Reason.NEAR if case.decisive_tables else Reason.EXACT
    assert (verdicts.kind[0], verdicts.reason[0]) == (Kind.DUPLICATE, reason)
    assert original_id(verdicts.originals[0]) == "one/0/0"


@pytest.mark.parametrize("sizes", [[6], [1, 5], [3, 3]])
def test_postings_of_this_record_count_as_candidates_like_those_filed_before(sizes: list[int]) -> None:
    pages, state, candidates = pages_of([Look(0), Look(0xFFFF), Look(1)] * 2), memory_state(), list[int]()
    for size in sizes:
        at = len(candidates)
        verdicts, index_update = judge(signatures_of(pages[at : at + size]), CHAIN, state, 4, 64)
        state.file(index_update, state.position + 1, 0)
        candidates += verdicts.candidates.tolist()
    # The first two share the buckets of three of the four tables; the third is the first's neighbour in all but one.
    assert candidates == [0, 3, 6, 7, 7, 6]


def test_a_full_bucket_is_probed_but_takes_no_more_and_is_counted() -> None:
    # 32 bits apart in the lowest 16 bits only: table designs of 4 blocks share the other three blocks' buckets
    far_apart = pages_of([Look(word) for word in (0x000F, 0x00F0, 0x0F00, 0xF000)])
    state, chain = memory_state(), SCHEME_CASES["chain"]
    outcomes, capped = run(chain, state, far_apart, [4], 2)
    assert [outcome[0] for outcome in outcomes] == ["novel"] * 4
    assert capped == 6, "the third and fourth page find three full buckets each"
    assert run(chain, state, [(Look(0x0007), 9)], [], 2)[0][0][:2] == ("duplicate", "one/0/0")


@scheme_cases
@pytest.mark.parametrize("size", [1, 7, 512])
def test_an_empty_page_matches_nothing_and_is_not_remembered(case: SchemeCase, size: int) -> None:
    state = memory_state()
    outcomes, _ = run(case, state, pages_of([Look(0, int(SignatureStatus.EMPTY))] * size), [size], 4)
    assert {outcome[0] for outcome in outcomes} == {"unchecked"}
    assert state.entry_count == 0


@scheme_cases
def test_pages_without_a_fingerprint_match_by_digest_alone_and_stay_unchecked(case: SchemeCase) -> None:
    few = int(SignatureStatus.TOO_FEW_FEATURES)
    looks = [Look(0, few), Look(0), Look(1, few), Look(0, few), Look(0, int(SignatureStatus.NOT_TEXT))]
    outcomes, _ = run(case, memory_state(), pages_of(looks), [5], 4)
    assert [outcome[:2] + outcome[3:4] for outcome in outcomes] == [
        ("unchecked", "", "too_few_features"),
        ("novel", "", "no_match"),
        ("unchecked", "", "too_few_features"),
        ("duplicate", "one/0/0", "exact"),
        ("unchecked", "", "not_text"),
    ]


def test_the_reason_is_the_strongest_proof_and_all_kinds_of_keys_that_met_are_told() -> None:
    original = Look(0, minima=(1, 2), text=1)
    looks = [
        original,
        original,
        original._replace(minima=(2, 3)),
        Look(1, minima=(2,), sketch=1),
        Look(2**63, sketch=9),
    ]
    outcomes, _ = run(SCHEME_CASES["confirming"], memory_state(), pages_of(looks), [5], 4)
    both = KeyKind.TABLES | KeyKind.MINIMA
    assert outcomes == [
        ("novel", "", None, "no_match", 0, False),
        ("duplicate", "one/0/0", 1.0, "exact", int(KeyKind.BODY | KeyKind.TEXT | both), False),
        ("duplicate", "one/0/0", 1.0, "same_text", int(KeyKind.TEXT | both), False),
        ("duplicate", "one/0/0", 1 - 1 / 64, "near", int(both), False),
        ("duplicate", "one/0/0", 1 - 2 / 64, "near", int(KeyKind.TABLES), False),
    ]


@pytest.mark.parametrize("sizes", [[9], [1] * 9, [3, 6], [4, 5]])
def test_beyond_the_candidate_limit_only_decisive_keys_find_a_page_and_that_is_told(sizes: list[int]) -> None:
    minima = [(7,)] * MINIMA_CAP + [(7, 8)] * 2
    far = [
        Look(0x1111 << 16 * (turn % 4), sketch=0xFF << 8 * turn, minima=hashes) for turn, hashes in enumerate(minima)
    ]
    late = Look(2**63 - 1, sketch=2**64 - 1, minima=(7, 8))
    looks = [*far, late, late._replace(host=1, sketch=2**64 - 2), late._replace(host=1), late]
    pages = pages_of(looks)
    case, state = SCHEME_CASES["confirming"], memory_state()
    outcomes, _ = run(case, state, pages, sizes, 64, 3)
    assert [outcome[0] for outcome in outcomes] == ["novel"] * 7 + ["duplicate"] * 2
    assert [outcome[5] for outcome in outcomes] == [False] * 4 + [True] * 5
    assert outcomes[7][1:5] == ("two/2/5", 1.0, "exact", int(KeyKind.BODY))
    # and a page that filled the limit by now still finds itself
    again, _ = run(case, state, pages[5:6], [], 64, 3)
    assert again[0][:4] == ("novel", "", None, "first_attempt")
    assert run(case, memory_state(), pages, sizes, 64, 6)[0][6][:4] == ("duplicate", "two/2/5", 1 - 1 / 64, "near")


def test_equal_pages_cost_a_chunk_of_pairs_each_and_not_one_for_every_pair() -> None:
    scheme, state = ConfirmingScheme(DESIGN, 4), memory_state()
    alike = pages_of([Look(0, minima=(1, 2, 3), sketch=1 << page % 2, text=page % 3) for page in range(2000)])
    verdicts, index_update = judge(signatures_of(alike), scheme, state, 256, 64)
    assert np.count_nonzero(verdicts.kind == Kind.DUPLICATE) == 1999
    assert len(index_update.pages) == 1
    assert scheme.confirmed_pairs < 2000 * 64
