"""An explanation says what the judge says, and what it tells of the bars implies the verdict: for random worlds."""

import random

import numpy as np
import pytest

from spotsieve.state.index import State
from spotsieve.state.store.memory import MemoryState
from spotsieve.stream.base.signature import Signatures, candidate_columns
from spotsieve.stream.base.verdict import KeyKind, Kind, Reason
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.insight.explain.explanation import CandidatePage, Fate, JudgeTrace
from spotsieve.stream.insight.explain.trace import trace_page
from spotsieve.stream.judge import PLAIN, Policy, judge
from spotsieve.stream.judge.by_host.confirmation import _confirm_kernel
from spotsieve.stream.judge.by_host.resolution import _resolve_kernel
from spotsieve.stream.judge.candidates import _meet_kernel
from spotsieve.stream.sign.features.block_fingerprints import identities_of_block, identity_of
from spotsieve.stream.sign.features.sieve import blocks_of
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of
from tests.worlds.pages.hosts import signatures_of
from tests.worlds.pages.scheme_settings import settings_named
from tests.worlds.pages.small_crawl import CRAWL
from tests.worlds.pages.spotsieve_pages import SCHEME as DEFAULT
from tests.worlds.states.remembering import SCHEME, any_world, cut, run

ASKED = 12
"""Pages of each world that are explained, its last ones."""


def implied(told: JudgeTrace, limit: int) -> tuple[Kind, Reason, float, int | None]:
    """The verdict that follows from the explanation of the pairs, where the first copy is kept and no page is known."""
    compared = 0
    for page in told.met:
        if page.fate is Fate.NOT_MET:
            continue
        if not page.proof:
            compared += 1
            if compared > limit:
                continue
        if page.accepted:
            return Kind.DUPLICATE, reason_of(page), page.score, page.number
    return Kind.NOVEL, Reason.NO_MATCH, np.nan, None


def reason_of(page: CandidatePage) -> Reason:
    """Why a pair is accepted, by its keys and its bars alone."""
    if page.proof & KeyKind.BODY:
        return Reason.EXACT
    if page.proof & KeyKind.TEXT:
        return Reason.SAME_TEXT
    if page.proof:
        return Reason.NEAR
    return next(way.reason for way in page.ways if all(bar.reached for bar in way.bars))


def assert_agrees(signatures: Signatures, scheme: Scheme, state: State, limits: tuple[int, int, Policy]) -> JudgeTrace:
    """Explain a page, compare with the judge, and return the explanation."""
    cap, candidates, policy = limits
    verdicts, _ = judge(signatures, scheme, state, cap, candidates, policy)
    told = trace_page(signatures, scheme, state, candidates, policy)
    for name in ("kind", "reason", "score"):
        np.testing.assert_array_equal(getattr(told.verdicts, name), getattr(verdicts, name))
    assert told.verdicts.originals == verdicts.originals
    original = verdicts.originals[0]
    assert (told.original.entry if told.original else None) == original
    for page in told.met:
        assert page.accepted == (page.reason is not Reason.NO_MATCH)
        assert page.accepted == (bool(page.proof) or any(way.reached for way in page.ways))
        if page.accepted:
            assert page.reason is reason_of(page)
    return told


@pytest.mark.parametrize("seed", range(8000, 8024))
def test_what_is_told_is_the_judges_verdict_and_the_bars_imply_it(seed: int) -> None:
    dice, pages, limits = any_world(seed)
    scheme = dice.choice([SCHEME, SCHEME, SCHEME.keeping_variants()])
    state, asked = MemoryState(), pages[-ASKED:]
    run(cut(pages[:-ASKED], [40]), state, limits, scheme)
    for page in asked:
        signatures = signatures_of([page])
        told = assert_agrees(signatures, scheme, state, limits)
        judged = signatures.status[0] == 0
        if limits.policy == PLAIN and judged:
            kind, reason, score, number = implied(told, limits.candidates)
            assert (kind, reason) == (told.verdicts.kind[0], told.verdicts.reason[0])
            assert number == (told.original.number if told.original else None)
            np.testing.assert_equal(score, told.verdicts.score[0])


def test_a_page_in_the_state_is_told_of_with_the_verdict_that_it_had() -> None:
    dice = random.Random(1)
    _, pages, limits = any_world(8101)
    state = MemoryState()
    had = [outcome for record in run(cut(pages, [60]), state, limits) for outcome in record]
    fates = set[Fate]()
    for page, outcome in dice.sample([*zip(pages, had, strict=True)], 30):
        told = trace_page(signatures_of([page]), SCHEME, state, limits.candidates, limits.policy)
        assert Kind(int(told.verdicts.kind[0])).name.lower() == outcome[0]
        fates.update(other.fate for other in told.met)
    assert Fate.ORIGINAL in fates
    assert Fate.ITSELF in fates


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_tells_in_its_own_terms_what_its_judge_says(name: str) -> None:
    scheme, state = scheme_of(settings_named(name)), MemoryState()
    indexed = [page for number, page in enumerate(CRAWL) if number % 3 < 2]
    asked = [*CRAWL[2::3][:12], CRAWL[0]._replace(offset=len(CRAWL))]
    _, index_update = judge(scheme.sign(indexed), scheme, state, 256, 0)
    state.file(index_update, 1, 0)
    signatures = scheme.sign(asked)
    told = [assert_agrees(signatures.part(row, row + 1), scheme, state, (256, 0, PLAIN)) for row in range(len(asked))]
    copies = [one for one in told if one.original is not None]
    assert copies, "the crawl has copies"
    for one in copies:
        assert one.original is not None
        assert one.original.proof or one.original.nearest_way is not None


@pytest.mark.parametrize("name", SCHEMES)
def test_what_a_scheme_tells_of_a_pair_is_what_it_confirms(name: str) -> None:
    scheme = scheme_of(settings_named(name))
    pages = candidate_columns(scheme.sign([page for page in CRAWL if page.judgeable]), scheme.compares_features)
    rows = np.arange(len(pages))
    one, other = (part.ravel() for part in np.meshgrid(rows, rows))
    ways = scheme.ways(pages.take(one), pages.take(other))
    if ways:
        reached = np.logical_or.reduce([way.reached for way in ways])
        np.testing.assert_array_equal(reached, scheme.confirm(pages.take(one), pages.take(other)).accepted)


def test_explaining_needs_no_kernel_that_the_judge_does_not_have() -> None:
    compile_kernels(DEFAULT)
    kernels = (_confirm_kernel, _resolve_kernel, _meet_kernel)
    before = [list(kernel.signatures) for kernel in kernels]
    pages, state = [page for page in CRAWL if page.judgeable], MemoryState()
    _, index_update = judge(DEFAULT.sign(pages[:9]), DEFAULT, state, 256, 0)
    state.file(index_update, 1, 0)
    for page in pages[9:12]:
        trace_page(DEFAULT.sign([page]), DEFAULT, state, 0)
    assert [list(kernel.signatures) for kernel in kernels] == before


def test_the_prints_of_a_page_are_those_of_its_blocks() -> None:
    pages = [page for page in CRAWL if page.judgeable]
    signed = DEFAULT.sign(pages)
    for row, page in enumerate(pages):
        prints = signed.prints[slice(*signed.prints_bounds[row : row + 2])]
        blocks = {one for block in blocks_of(page.body, page.markup) for one in identities_of_block(block.tokens)}
        assert set(identity_of(prints).tolist()) <= blocks
