"""Asking a state about pages gives the verdicts of the stream, for every scheme; all matches are all there are."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from spotsieve.state.index import (
    Buckets,
    CommonText,
    HostMemories,
    IndexedPages,
    IndexUpdate,
    PendingVerdict,
    StateView,
)
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.page import Page, PageId
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.judge import find_matches, judge, judge_alone
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.pages.small_crawl import CRAWL
from tests.fixtures.states.verdicts import indexed, outcomes_of

CAP, LIMIT = 256, 4096
schemes = pytest.mark.parametrize("name", SCHEMES)


class Without:
    """A view of a state without some of its entries; what these taught their hosts stays."""

    def __init__(self, view: StateView, hidden: set[int]) -> None:
        self._view = view
        self._hidden = np.array(sorted(hidden), np.uint64)

    @property
    def entry_count(self) -> int:
        return self._view.entry_count

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        whole = self._view.buckets(keys)
        keep = ~np.isin(whole.numbers, self._hidden)
        kept = np.concatenate([[0], np.cumsum(keep)])
        return Buckets(kept[whole.bounds], whole.numbers[keep], whole.inlines[keep])

    def indexed(self, numbers: NDArray[np.uint64]) -> IndexedPages:
        return self._view.indexed(numbers)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        return self._view.page_ids(numbers)

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        return self._view.memories(hosts)

    def common_text(self) -> CommonText:
        return self._view.common_text()

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        return self._view.pending_verdicts(page_ids)


def on_top(state: State, index_update: IndexUpdate) -> IndexUpdate:
    """A filing that was made without what the state has in its buckets, with it."""
    there, new = state.buckets(index_update.keys), index_update.buckets
    order = np.argsort(
        np.repeat(np.tile(np.arange(len(new)), 2), [*np.diff(there.bounds), *np.diff(new.bounds)]), kind="stable"
    )
    numbers, inlines = (
        np.concatenate(both)[order] for both in ((there.numbers, new.numbers), (there.inlines, new.inlines))
    )
    return replace(index_update, buckets=Buckets(there.bounds + new.bounds, numbers, inlines))


def queries() -> list[Page]:
    """The crawl twice: as it is, and as copies with other ids, which meet originals and each other."""
    return [*CRAWL, *(one._replace(offset=one.offset + len(CRAWL)) for one in CRAWL)]


@pytest.mark.guarantee(
    "a query gives the verdicts of the stream and does not change the state",
    fault="none: every scheme, in a batch",
)
@schemes
def test_pages_asked_about_in_a_batch_get_the_verdict_that_each_would_get_next(name: str) -> None:
    scheme, state = scheme_of(settings_named(name)), memory_state()
    indexed(scheme, state, scheme.sign(CRAWL[: len(CRAWL) // 2]))
    before = list(state.items())
    pages = queries()
    found = list(outcomes_of(judge_alone(scheme.sign(pages), scheme, state, LIMIT)))
    online = [judge(scheme.sign([one]), scheme, state, CAP, LIMIT)[0] for one in pages]
    assert found == [outcome for verdicts in online for outcome in outcomes_of(verdicts)]
    assert {kind for kind, *_ in found} == set(Kind)
    assert Reason.FIRST_ATTEMPT in {reason for _, reason, *_ in found}
    assert list(state.items()) == before


@schemes
def test_all_matches_are_what_the_judge_finds_one_by_one_with_earlier_ones_hidden(name: str) -> None:
    scheme, state = scheme_of(settings_named(name)), memory_state()
    number_of: dict[int, int] = {}
    for one in CRAWL:  # as if there were nothing before it: so copies are indexed too, and there is more than one match
        _, index_update = judge(scheme.sign([one]), scheme, Without(state, set(range(len(CRAWL)))), CAP, LIMIT)
        if len(index_update.pages):
            number_of[one.offset] = state.entry_count
            state.file(on_top(state, index_update), state.position + 1, 0)
    pages = queries()[len(CRAWL) :]
    found = find_matches(scheme.sign(pages), scheme, state)
    several = 0
    for page, matches in zip(pages, found, strict=True):
        hidden, expected = set[int](), []
        while True:
            (verdict,) = outcomes_of(judge_alone(scheme.sign([page]), scheme, Without(state, hidden), LIMIT))
            if verdict[2] is None:
                break
            expected.append((verdict[2], verdict[1], verdict[3]))
            hidden.add(number_of[verdict[2]])
        assert [(match.entry.offset, match.reason, match.score) for match in matches] == expected
        several += len(expected) > 1
    assert several


def test_no_pages_have_no_verdicts_and_no_matches() -> None:
    scheme = scheme_of(settings_named("spotsieve"))
    signed = scheme.sign([])
    assert len(judge_alone(signed, scheme, memory_state(), LIMIT)) == 0
    assert find_matches(signed, scheme, memory_state()) == []
