"""With a memory of hosts, too, a verdict depends on the log's order and on nothing else; and the memory stays small.

Worlds are made by seeds: pages straight as signatures, of few hosts whose pages share prints, titles and sketches.
"""

import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from spotsieve.state.horizon import step_of
from spotsieve.state.index import CommitMark
from spotsieve.state.log.record import encode, encode_forget
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State, first_difference
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge.policy import PLAIN
from tests.fixtures.pages.generated import outcomes_of, without_reason
from tests.fixtures.pages.hosts import (
    FINGERPRINTED,
    KEPT,
    Made,
    Submitted,
    host_hash,
    signatures_of,
    with_ids,
)
from tests.fixtures.states.host_logs import SIZES, Log, place_of
from tests.fixtures.states.remembering import (
    SCHEME,
    Limits,
    Record,
    any_world,
    assert_same_memory,
    cut,
    memories_of,
    reference_of,
    run,
    run_reference,
)
from tests.reference.host_memory import MOST_ITEMS, MOST_WORDS, Bars
from tests.reference.judge import Outcome


def any_cut(dice: random.Random, pages: Sequence[Submitted]) -> list[Record]:
    """Records of sizes of one kind or another."""
    return cut(pages, dice.choices(dice.sample(SIZES, 2), k=len(pages)))


def joined(outcomes: Sequence[Sequence[Outcome]]) -> list[Outcome]:
    """The outcomes of all records, one after the other."""
    return [outcome for record in outcomes for outcome in record]


@pytest.mark.parametrize("seed", range(7000, 7040))
def test_so_they_are_where_variants_are_kept(seed: int) -> None:
    dice, pages, limits = any_world(seed)
    records, state, reference_kernel = (
        any_cut(dice, pages),
        memory_state(),
        reference_of(limits, Bars(keep_variants=True)),
    )
    for record in records:
        assert run([record], state, limits, SCHEME.keeping_variants()) == run_reference([record], reference_kernel)


@pytest.mark.parametrize("seed", range(150))
def test_verdicts_and_memories_are_those_of_the_obvious_judge(seed: int) -> None:
    dice, pages, limits = any_world(seed)
    records, state, reference_kernel = any_cut(dice, pages), memory_state(), reference_of(limits)
    for number, record in enumerate(records):
        assert run([record], state, limits) == run_reference([record], reference_kernel), number
        assert_same_memory(state, reference_kernel)


@pytest.mark.guarantee(
    "batch sizes, timing and rebalances change no verdict", fault="the same pages of remembered hosts in other batches"
)
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_batch_boundaries_change_neither_verdicts_nor_memories(seed: int) -> None:
    dice, pages, limits = any_world(seed)
    one, other = memory_state(), memory_state()
    found = run(any_cut(dice, pages), one, limits)
    assert joined(found) == joined(run(cut(pages, []), other, limits))
    for state in (one, other):
        state.file(None, 1000, 0)
    assert first_difference(one, other) is None


@pytest.mark.parametrize("seed", range(2000, 2012))
def test_memories_on_disk_and_in_memory_agree_and_reopening_changes_nothing(seed: int) -> None:
    dice, pages, limits = any_world(seed)
    records, memory = any_cut(dice, pages), memory_state()
    middle = len(records) // 2
    with tempfile.TemporaryDirectory() as scratch:
        for part in (records[:middle], records[middle:]):
            with disk_state(Path(scratch), "{}", "log", IndexSettings()) as rocks:
                assert run(part, rocks, limits) == run(part, memory, limits)
                assert first_difference(rocks, memory) is None


@pytest.mark.guarantee(
    "no page is dropped as a duplicate of its own first attempt",
    fault="uncommitted pages of remembered hosts come again",
)
@pytest.mark.parametrize("seed", range(3000, 3100))
def test_pages_that_come_again_before_they_are_committed_get_the_verdicts_they_had(seed: int) -> None:
    dice, pages, limits = any_world(seed)
    plain, state, reference_kernel = memory_state(), memory_state(), reference_of(limits)
    first = without_reason(joined(run(cut(pages, []), plain, limits)))
    expected = dict(zip((page_id for _, page_id in pages), first, strict=True))
    log = Log(dice, pages)
    for record in log.records:
        found = run([record], state, limits)
        assert found == run_reference([record], reference_kernel)
        assert without_reason(joined(found)) == [expected[page_id] for _, page_id in record.pages]
    assert_same_memory(state, reference_kernel)
    # Pages that came again are neither learned nor indexed; committed ones are no longer remembered.
    everything = CommitMark("", -1, 0)
    for one in (state, plain):
        run([Record([], (everything,))], one, limits)
        one.file(None, 1000, 0)
    assert first_difference(state, plain) is None


def test_a_mark_of_the_files_own_end_forgets_all_attempts() -> None:
    _, pages, limits = any_world(7)
    state, limits = memory_state(), limits._replace(policy=PLAIN)
    found = joined(run([Record(pages)], state, limits))
    copies = [
        page
        for page, outcome in zip(pages, found, strict=True)
        if outcome[0] == "duplicate" and page[0].status == FINGERPRINTED
    ]
    assert copies
    ids = [(*place_of(page), page[1]) for page in copies]
    assert None not in state.pending_verdicts(ids)
    run([Record([], (CommitMark("", -1, 0),))], state, limits)
    assert state.pending_verdicts(ids) == [None] * len(ids)


WRITER, DIGEST = bytes(16), bytes(16)


class Reader:
    """A reader of a log, and the twin beside it, in which entries and memories die as the horizon says."""

    def __init__(self, state: State, limits: Limits, horizon_hours: float) -> None:
        settings = IndexSettings.model_construct(
            bucket_cap=limits.cap, candidate_limit=limits.candidates, horizon_hours=horizon_hours
        )
        self.state, self.reference_kernel = state, reference_of(limits)
        self._engine = Engine(SCHEME, state, settings, DIGEST, "log", limits.policy)
        self._step_ms, self._watermark_ms, self._filed_in = step_of(horizon_hours), 0, list[int]()

    def sign(self, record: Record) -> None:
        """Apply a record of pages to both."""
        signed = signatures_of(record.pages)
        written = encode(signed, WRITER, self.state.position, DIGEST, record.committed)
        found = outcomes_of(self._engine.apply(written, self.state.position).verdicts)
        assert found == self._expected(signed, record.committed)

    def forget(self, numbers: Sequence[int], pages: Mapping[PageId, Submitted], with_host: bool) -> None:
        """Apply a record that forgets to both. pages: by id"""
        forgotten = []
        for number in numbers:
            entry = self.reference_kernel.entries[number]
            if entry:
                keys = SCHEME.probe(signatures_of([pages[entry.page]])).keys.tolist()
                forgotten.append(ForgottenPage(number, *entry.page, tuple(keys), with_host))
        if forgotten:
            written = encode_forget(forgotten, WRITER, self.state.position, DIGEST)
            self._engine.apply(written, self.state.position)
            self.reference_kernel.forget(numbers, with_host)

    def _expected(self, signed: Signatures, committed: Sequence[CommitMark]) -> list[Outcome]:
        if not self._step_ms:
            return self.reference_kernel.judge(signed, committed)
        outcomes, start, times = list[Outcome](), 0, signed.event_time_ms.tolist()
        while start < len(times):
            end, step = start, -1
            while end < len(times):
                watermark = max(self._watermark_ms, times[end])
                if step not in (-1, watermark // self._step_ms):
                    break
                step, self._watermark_ms, end = watermark // self._step_ms, watermark, end + 1
            # An entry of one step lives for 64 more.
            living = [number for number, indexed in enumerate(self._filed_in) if indexed >= step - 64]
            self.reference_kernel.move_floor(min(living, default=len(self._filed_in)))
            outcomes += self.reference_kernel.judge(signed.part(start, end), () if start else committed)
            self._filed_in += [step] * (len(self.reference_kernel.entries) - len(self._filed_in))
            start = end
        return outcomes


@pytest.mark.guarantee(
    "what is forgotten is forgotten by every reader of the log",
    fault="pages of remembered hosts die, and are forgotten",
)
@pytest.mark.parametrize("seed", range(4000, 4080))
def test_with_horizon_and_forgetting_verdicts_and_memories_are_the_obvious_judge_s(seed: int) -> None:
    dice, pages, limits = any_world(seed)
    # Pages are a second apart, and some are late.
    pages = [(page._replace(time_ms=1000 * max(0, number - dice.choice([0, 0, 9]))), number) for page, number in pages]
    reader = Reader(memory_state(), limits, dice.choice([0.0, 3, 15, 40]) / 3600)
    by_id = {(*place_of(page), page[1]): page for page in pages}
    for record in Log(dice, pages).records:
        reader.sign(record)
        assert_same_memory(reader.state, reader.reference_kernel)
        known = range(reader.reference_kernel.floor, len(reader.reference_kernel.entries))
        if dice.random() < 0.3 and known:
            reader.forget(dice.sample(known, min(len(known), dice.choice([1, 3]))), by_id, dice.random() < 0.2)
            assert_same_memory(reader.state, reader.reference_kernel)


def made(number: int, prints: Sequence[int], titles: Sequence[int] = ()) -> Made:
    """A page of host 1 that is like no other but for its prints and its title."""
    dice = random.Random(number)
    return Made(
        number,
        1,
        1,
        1000,
        (dice.getrandbits(64), dice.getrandbits(64)),
        (number,),
        tuple(sorted(prints)),
        tuple(titles),
    )


def test_a_host_is_remembered_by_so_many_prints_and_words_at_most() -> None:
    # A few prints that most pages have, and 40 new ones on each of 260 pages.
    dice = random.Random(1)
    common = [one << 6 | KEPT | 5 for one in range(4)]
    pages = [
        made(
            number,
            [*dice.sample(common, 3), *((100 + 40 * number + turn) << 6 | KEPT | 5 for turn in range(40))],
            sorted({dice.randrange(3), *range(10 + 9 * number, 19 + 9 * number)}),
        )
        for number in range(260)
    ]
    limits, state = Limits(), memory_state()
    reference_kernel, largest = reference_of(limits), 0
    for record in cut(with_ids(pages), [1] * len(pages)):
        assert run([record], state, limits) == run_reference([record], reference_kernel)
        assert_same_memory(state, reference_kernel)
        (known,) = memories_of(state, [host_hash(1)]).values()
        largest = max(largest, len(known.items))
        assert len(known.items) <= MOST_ITEMS
        assert len(known.words) <= MOST_WORDS
    assert largest > MOST_ITEMS - 44
    assert known.pages == 260
    assert {one >> 5 for one in common} <= known.items.keys(), "what many pages have is never forgotten"


def test_what_every_page_has_is_counted_to_15_and_a_title_s_words_to_255() -> None:
    pages = with_ids([made(number, [1 << 6 | KEPT, (number + 9) << 6 | KEPT], [3]) for number in range(300)])
    limits, state, reference_kernel = Limits(), memory_state(), reference_of(Limits())
    assert run([Record(pages)], state, limits) == run_reference([Record(pages)], reference_kernel)
    assert_same_memory(state, reference_kernel)
    (known,) = memories_of(state, [host_hash(1)]).values()
    assert (known.items[1 << 1], known.words[3]) == (15, 255)
