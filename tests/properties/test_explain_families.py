"""On generated families of pages, thresholds imply verdicts, and texts agree with the estimates of samples."""

import numpy as np
import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.insight.explain.explanation import CandidatePage, JudgeTrace
from spotsieve.stream.insight.explain.texts import read_pair
from spotsieve.stream.insight.explain.trace import blocks_by_host, trace_page
from spotsieve.stream.judge import PLAIN, judge
from spotsieve.stream.judge.by_host.confirmation import confirm_all, confirm_page
from spotsieve.stream.judge.candidates import NEVER, find_candidates
from spotsieve.stream.judge.slots import slots_of
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.families import FAMILIES, family_pages
from tests.fixtures.long_cases import mostly_long

THIN = 100
"""The judge compares shorter texts block by block, with the words of their titles."""
QUERIED = 10
"""Pages of each family that are explained, spread over the family."""
SETTINGS = SpotsieveSettings()
SCHEMES = {
    "the default": SpotsieveScheme(SETTINGS),
    "variants kept, parts dropped": SpotsieveScheme(SETTINGS).with_policy(keep_variants=True, drop_parts=True),
    "50 fresh words": SpotsieveScheme(SpotsieveSettings(max_fresh_words=50)),
}


def pages_of(family: str) -> list[Page]:
    return [
        Page("s", 0, number, one.url, one.body.encode(), True, 0)
        for number, one in enumerate(family_pages(family, seed=3, size=0.4))
    ]


def assert_thresholds_imply(page: CandidatePage) -> None:
    if page.proof:
        return
    assert page.accepted == any(criterion.reached for criterion in page.criteria), page
    assert page.reason is (Reason.CONTAINED if page.accepted else Reason.NO_MATCH)
    if page.accepted:
        assert page.part is not None
        assert page.part.containment.reached
        assert page.part.fresh_words.reached
        assert page.score <= page.part.containment.value


def traces_of(family: str, scheme: SpotsieveScheme) -> list[tuple[JudgeTrace, float]]:
    """Some pages of a family: the trace of each, and the error of its estimated containment.

    The error is 0 for novel pages and for thin texts.
    """
    state, pages, found = memory_state(), pages_of(family), list[tuple[JudgeTrace, float]]()
    step = max(len(pages) // QUERIED, 1)
    for start in range(0, len(pages), step):
        signatures = scheme.sign(pages[start : start + step])
        query = signatures.part(0, 1)
        verdicts, _ = judge(query, scheme, state, 256, 0)
        trace = trace_page(query, scheme, state, 0)
        for name in ("kind", "reason", "score"):
            np.testing.assert_array_equal(getattr(trace.verdicts, name), getattr(verdicts, name))
        error = 0.0
        if trace.original is not None and trace.original.part is not None and trace.host is not None:
            original = pages[trace.original.entry.offset]
            facts = blocks_by_host(scheme.sign([original]), scheme, state, PLAIN)
            texts = read_pair(pages[start], original, SETTINGS, trace.original.part.part, trace.host.blocks, facts)
            assert texts.containment is not None
            if texts.page.compared_words >= THIN:
                error = texts.containment - trace.original.part.containment.value
        found.append((trace, error))
        _, index_update = judge(signatures, scheme, state, 256, 0)
        state.file(index_update, start + 1, 0)
    return found


DEFAULT, *OTHERS = SCHEMES
SOME = tuple(FAMILIES)[::5]


@pytest.mark.parametrize(
    ("how", "family"),
    mostly_long(
        [
            *((DEFAULT, family) for family in FAMILIES),
            *((how, family) for how in OTHERS for family in SOME),
            *((how, family) for how in OTHERS for family in FAMILIES if family not in SOME),
        ],
        len(FAMILIES) + len(OTHERS) * len(SOME),
    ),
)
def test_the_thresholds_of_every_pair_imply_its_verdict(how: str, family: str) -> None:
    for trace, error in traces_of(family, SCHEMES[how]):
        for candidate in trace.candidates:
            assert_thresholds_imply(candidate)
        assert abs(error) < 0.25, "the sample says something else than the texts"
        if trace.original is not None and not trace.original.proof:
            assert trace.verdicts.kind[0] == Kind.DUPLICATE


@pytest.mark.parametrize("how", mostly_long(SCHEMES, 2))
def test_the_judge_leaves_out_only_values_that_decide_nothing(how: str) -> None:
    assert sum(compared_pairs(family, SCHEMES[how]) for family in FAMILIES) > 1_000


def compared_pairs(family: str, scheme: SpotsieveScheme) -> int:
    """Confirm the pairs of a family with and without all their values. Returns the number of pairs."""
    state, pages, pairs = memory_state(), pages_of(family), 0
    for start in range(0, len(pages), 32):
        signatures = scheme.sign(pages[start : start + 32])
        keys, slots = slots_of(scheme.probe(signatures), signatures.status)
        met = find_candidates(slots, state.buckets(keys), NEVER, np.uint8(0))
        if len(met.number):
            met = met._replace(proof=np.zeros_like(met.proof))
            explained = confirm_page(signatures, met, state, scheme.host_thresholds)
            _, _, *judged = confirm_all(signatures, met, state, scheme.host_thresholds)
            for ours, theirs in zip(judged, (explained.accepted, explained.score, explained.reason), strict=True):
                np.testing.assert_array_equal(ours, theirs)
        pairs += len(met.number)
        _, index_update = judge(signatures, scheme, state, 256, 0)
        state.file(index_update, start + 32, 0)
    return pairs
