"""Explanations come from the code that judges: a pair is accepted there if it is a match in the stream, and only then.

The recorded values agree with the verdict: an accepted pair reaches every threshold.
"""

import numpy as np
import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.signature import page_id_text
from spotsieve.stream.judge import judge
from spotsieve.stream.judge.by_host import criteria
from spotsieve.stream.judge.by_host.confirmation import PageConfirmations, confirm_page
from spotsieve.stream.judge.candidates import NEVER, find_candidates
from spotsieve.stream.judge.slots import slots_of
from tests.fixtures.pages.generated import outcomes_of
from tests.fixtures.pages.hosts import FINGERPRINTED, signatures_of
from tests.fixtures.states.remembering import SCHEME, any_case


def reached(noted: PageConfirmations, pair: int) -> bool:
    """Whether a pair reaches the thresholds that it was compared with."""
    values = noted.noted.values[pair]
    compared = [row for row in range(criteria.CRITERIA) if values[row, 1] != criteria.NONE]
    return all(
        values[row, 0] <= values[row, 1] if criteria.ABOUT[row].at_most else values[row, 0] >= values[row, 1]
        for row in compared
        if row != criteria.TITLE
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_pair_is_confirmed_for_people_as_it_was_judged(seed: int) -> None:
    _, pages, limits = any_case(seed, 40)
    state, accepted, refused = memory_state(), 0, 0
    for page in pages:
        signatures = signatures_of([page])
        keys, slots = slots_of(SCHEME.probe(signatures), signatures.status)
        met = find_candidates(slots, state.buckets(keys), NEVER, np.uint8(0))
        noted = confirm_page(signatures, met, state, SCHEME.host_thresholds) if len(met.number) else None
        verdicts, index_update = judge(signatures, SCHEME, state, limits.cap, 64)
        ((verdict, original, score, reason, _, _),) = outcomes_of(verdicts)
        if noted and page[0].status == FINGERPRINTED:
            assert noted.read.indexed
            entries = noted.read.indexed.entries(noted.place)
            matches = [pair for pair in range(len(entries)) if noted.accepted[pair]]
            assert all(reached(noted, pair) for pair in matches)
            accepted, refused = accepted + len(matches), refused + len(entries) - len(matches)
            if reason == "contained":
                first = matches[0]
                entry = entries[first]
                assert page_id_text(entry.source, entry.partition, entry.offset) == original
                assert noted.score[first] == score
            elif verdict == "novel":
                assert matches == []
        state.file(index_update, state.position + 1, 0)
    assert accepted + refused or len(pages) < 20
