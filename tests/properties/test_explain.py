"""For random inputs, an explanation has the verdict of the judge, and its thresholds imply this verdict."""

import random

import numpy as np
import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.signature import Signatures, candidate_columns
from spotsieve.stream.base.verdict import KeyKind, Kind, Reason
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.insight.explain.explanation import CandidatePage, Fate, JudgeTrace
from spotsieve.stream.insight.explain.trace import trace_page
from spotsieve.stream.judge import PLAIN, Policy, judge
from spotsieve.stream.judge.by_host.confirmation import _confirm_kernel
from spotsieve.stream.judge.by_host.resolution import _resolve_kernel
from spotsieve.stream.judge.candidates import _merge_kernel
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.hosts import signatures_of
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.pages.small_crawl import CRAWL
from tests.fixtures.pages.spotsieve_pages import SCHEME as DEFAULT
from tests.fixtures.states.remembering import SCHEME, any_case, cut, run

QUERIED = 12
"""The last pages of each random input are explained."""


def implied(trace: JudgeTrace, limit: int) -> tuple[Kind, Reason, float, int | None]:
    """The verdict that the traced pairs imply, if the first copy is kept and the page is not indexed."""
    compared = 0
    for page in trace.candidates:
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
    """The reason for which a pair is accepted, by its keys and thresholds alone."""
    if page.proof & KeyKind.BODY:
        return Reason.EXACT
    if page.proof & KeyKind.TEXT:
        return Reason.SAME_TEXT
    if page.proof:
        return Reason.NEAR
    return next(one.reason for one in page.criteria if all(threshold.reached for threshold in one.thresholds))


def assert_agrees(signatures: Signatures, scheme: Scheme, state: State, limits: tuple[int, int, Policy]) -> JudgeTrace:
    """Trace a page, compare with the judge, and return the trace."""
    cap, candidates, policy = limits
    verdicts, _ = judge(signatures, scheme, state, cap, candidates, policy)
    trace = trace_page(signatures, scheme, state, candidates, policy)
    for name in ("kind", "reason", "score"):
        np.testing.assert_array_equal(getattr(trace.verdicts, name), getattr(verdicts, name))
    assert trace.verdicts.originals == verdicts.originals
    original = verdicts.originals[0]
    assert (trace.original.entry if trace.original else None) == original
    for page in trace.candidates:
        assert page.accepted == (page.reason is not Reason.NO_MATCH)
        assert page.accepted == (bool(page.proof) or any(criterion.reached for criterion in page.criteria))
        if page.accepted:
            assert page.reason is reason_of(page)
    return trace


@pytest.mark.parametrize("seed", mostly_long(range(8000, 8024), 4))
def test_a_trace_has_the_judges_verdict_and_its_thresholds_imply_it(seed: int) -> None:
    dice, pages, limits = any_case(seed)
    scheme = dice.choice([SCHEME, SCHEME, SCHEME.with_policy(keep_variants=True, drop_parts=False)])
    state, queries = memory_state(), pages[-QUERIED:]
    run(cut(pages[:-QUERIED], [40]), state, limits, scheme)
    for page in queries:
        signatures = signatures_of([page])
        trace = assert_agrees(signatures, scheme, state, limits)
        judged = signatures.status[0] == 0
        if limits.policy == PLAIN and judged:
            kind, reason, score, number = implied(trace, limits.candidates)
            assert (kind, reason) == (trace.verdicts.kind[0], trace.verdicts.reason[0])
            assert number == (trace.original.number if trace.original else None)
            np.testing.assert_equal(score, trace.verdicts.score[0])


def test_a_page_in_the_state_is_traced_with_its_recorded_verdict() -> None:
    dice = random.Random(1)
    _, pages, limits = any_case(8101)
    state = memory_state()
    had = [outcome for record in run(cut(pages, [60]), state, limits) for outcome in record]
    fates = set[Fate]()
    for page, outcome in dice.sample([*zip(pages, had, strict=True)], 30):
        trace = trace_page(signatures_of([page]), SCHEME, state, limits.candidates, limits.policy)
        assert Kind(int(trace.verdicts.kind[0])).name.lower() == outcome[0]
        fates.update(other.fate for other in trace.candidates)
    assert Fate.ORIGINAL in fates
    assert Fate.ITSELF in fates


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_traces_the_verdict_of_its_judge(name: str) -> None:
    scheme, state = scheme_of(settings_named(name)), memory_state()
    indexed = [page for number, page in enumerate(CRAWL) if number % 3 < 2]
    queries = [*CRAWL[2::3][:12], CRAWL[0]._replace(offset=len(CRAWL))]
    _, index_update = judge(scheme.sign(indexed), scheme, state, 256, 0)
    state.file(index_update, 1, 0)
    signatures = scheme.sign(queries)
    traces = [
        assert_agrees(signatures.part(row, row + 1), scheme, state, (256, 0, PLAIN)) for row in range(len(queries))
    ]
    copies = [one for one in traces if one.original is not None]
    assert copies, "the crawl has copies"
    for one in copies:
        assert one.original is not None
        assert one.original.proof or one.original.nearest_criterion is not None


@pytest.mark.parametrize("name", SCHEMES)
def test_the_criteria_of_a_scheme_agree_with_its_confirmations(name: str) -> None:
    scheme = scheme_of(settings_named(name))
    pages = candidate_columns(scheme.sign([page for page in CRAWL if page.judgeable]), scheme.compares_features)
    rows = np.arange(len(pages))
    one, other = (part.ravel() for part in np.meshgrid(rows, rows))
    if scheme.host_thresholds is not None:
        # The judge compares these pages. That its thresholds imply its verdicts is tested above.
        with pytest.raises(NotImplementedError, match="the judge confirms the candidates"):
            scheme.ways(pages.take(one), pages.take(other))
        return
    ways = scheme.ways(pages.take(one), pages.take(other))
    if ways:
        reached = np.logical_or.reduce([way.reached for way in ways])
        np.testing.assert_array_equal(reached, scheme.confirm(pages.take(one), pages.take(other)).accepted)


def test_tracing_compiles_no_further_kernels() -> None:
    compile_kernels(DEFAULT)
    kernels = (_confirm_kernel, _resolve_kernel, _merge_kernel)
    before = [list(kernel.signatures) for kernel in kernels]
    pages, state = [page for page in CRAWL if page.judgeable], memory_state()
    _, index_update = judge(DEFAULT.sign(pages[:9]), DEFAULT, state, 256, 0)
    state.file(index_update, 1, 0)
    for page in pages[9:12]:
        trace_page(DEFAULT.sign([page]), DEFAULT, state, 0)
    assert [list(kernel.signatures) for kernel in kernels] == before
