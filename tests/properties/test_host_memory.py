"""With a memory of hosts, too, a verdict depends on the log's order and on nothing else; and the memory stays small.

Pages are generated as signatures: of few hosts whose pages share blocks, titles and shingles.
"""

import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from spotsieve.state.horizon import step_of
from spotsieve.state.index import CommitMark
from spotsieve.state.log.record import encode, encode_forget
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge.policy import PLAIN
from spotsieve.stream.sign.schemes import HostThresholds
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.generated import outcomes_of, without_reason
from tests.fixtures.pages.hosts import (
    FINGERPRINTED,
    MOST_HOSTS,
    Made,
    Paragraph,
    Submitted,
    host_hash,
    packed,
    signatures_of,
    with_ids,
)
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.host_logs import SIZES, Log, place_of
from tests.fixtures.states.remembering import (
    SCHEME,
    Limits,
    Record,
    any_case,
    assert_same_memory,
    cut,
    distinctive_texts_of,
    memories_of,
    reference_of,
    run,
    run_reference,
)
from tests.reference.common_text import WINDOW
from tests.reference.host_memory import MOST_WORDS, RARE_ITEMS, item_of
from tests.reference.judge import Outcome
from tests.reference.packed_text import block_of
from tests.reference.page_pairs import PairThresholds


def any_cut(dice: random.Random, pages: Sequence[Submitted]) -> list[Record]:
    """Records of sizes of one kind or another."""
    return cut(pages, dice.choices(dice.sample(SIZES, 2), k=len(pages)))


def joined(outcomes: Sequence[Sequence[Outcome]]) -> list[Outcome]:
    """The outcomes of all records, one after the other."""
    return [outcome for record in outcomes for outcome in record]


OTHER_THRESHOLDS = {
    "variants are kept": PairThresholds(keep_variants=True),
    "parts are dropped": PairThresholds(drop_parts=True),
    "few fresh words": PairThresholds(max_fresh_words=12),
    "low containment": PairThresholds(min_containment=0.3),
    "high containment": PairThresholds(min_containment=0.9),
    "one host": PairThresholds(one_host=True),
    "much template text": PairThresholds(template_share=0.0),
}


def with_thresholds(thresholds: PairThresholds) -> SpotsieveScheme:
    """The default scheme with other thresholds."""
    scheme = SpotsieveScheme(SpotsieveSettings())
    scheme.host_thresholds = HostThresholds(*thresholds)
    return scheme


@pytest.mark.parametrize("seed", mostly_long(range(7000, 7006), 1))
@pytest.mark.parametrize("thresholds", OTHER_THRESHOLDS.values(), ids=OTHER_THRESHOLDS)
def test_with_other_thresholds_verdicts_are_those_of_the_reference_judge(thresholds: PairThresholds, seed: int) -> None:
    dice, pages, limits = any_case(seed)
    state, reference_kernel = memory_state(), reference_of(limits, thresholds)
    for record in any_cut(dice, pages):
        assert run([record], state, limits, with_thresholds(thresholds)) == run_reference([record], reference_kernel)


@pytest.mark.parametrize("seed", mostly_long(range(8000, 8020), 3))
def test_what_hosts_learn_depends_on_no_verdict(seed: int) -> None:
    _, pages, limits = any_case(seed)
    states = [memory_state() for _ in OTHER_THRESHOLDS]
    dropped = set()
    for state, thresholds in zip(states, OTHER_THRESHOLDS.values(), strict=True):
        found = joined(run([Record(pages)], state, limits, with_thresholds(thresholds._replace(template_share=0.12))))
        dropped.add(sum(outcome[0] == "duplicate" for outcome in found))
    # When a host last learned is an entry number, which depends on the verdicts before it.
    hosts = [host_hash(host) for host in range(MOST_HOSTS)]
    known = [
        {host: memory._replace(last=0) for host, memory in memories_of(state, sorted(hosts)).items()}
        for state in states
    ]
    assert known[1:] == known[:-1]
    assert known[0]
    common = [state.common_text().slots.tobytes() for state in states]
    assert common[1:] == common[:-1]
    if seed == 8000:
        assert len(dropped) > 1, "the thresholds must change verdicts"


@pytest.mark.parametrize("seed", mostly_long(range(60), 8))
def test_verdicts_and_memories_are_those_of_the_obvious_judge(seed: int) -> None:
    dice, pages, limits = any_case(seed)
    records, state, reference_kernel = any_cut(dice, pages), memory_state(), reference_of(limits)
    for number, record in enumerate(records):
        assert run([record], state, limits) == run_reference([record], reference_kernel), number
        assert_same_memory(state, reference_kernel)


@pytest.mark.guarantee(
    "batch sizes, timing and rebalances change no verdict", fault="the same pages in other batches, with host memories"
)
@pytest.mark.parametrize("seed", mostly_long(range(1000, 1040), 6))
def test_batch_boundaries_change_neither_verdicts_nor_memories(seed: int) -> None:
    dice, pages, limits = any_case(seed)
    one, other = memory_state(), memory_state()
    found = run(any_cut(dice, pages), one, limits)
    assert joined(found) == joined(run(cut(pages, []), other, limits))
    for state in (one, other):
        state.file(None, 1000, 0)
    assert first_difference(one, other) is None


@pytest.mark.parametrize("seed", mostly_long(range(2000, 2012), 3))
def test_memories_on_disk_and_in_memory_agree_and_reopening_changes_nothing(seed: int) -> None:
    dice, pages, limits = any_case(seed)
    records, memory = any_cut(dice, pages), memory_state()
    middle = len(records) // 2
    with tempfile.TemporaryDirectory() as scratch:
        for part in (records[:middle], records[middle:]):
            with disk_state(Path(scratch), "{}", "log", IndexSettings()) as rocks:
                assert run(part, rocks, limits) == run(part, memory, limits)
                assert first_difference(rocks, memory) is None


@pytest.mark.guarantee(
    "no page is dropped as a duplicate of its own first attempt",
    fault="uncommitted pages are submitted again, with host memories",
)
@pytest.mark.parametrize("seed", mostly_long(range(3000, 3040), 5))
def test_pages_that_come_again_before_they_are_committed_get_the_verdicts_they_had(seed: int) -> None:
    dice, pages, limits = any_case(seed)
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
    for one in (state, plain):
        run([Record([], (CommitMark("", -1, 0),))], one, limits)
    ids = [(*place_of(page), page[1]) for page in pages]
    assert state.pending_verdicts(ids) == [None] * len(ids)
    numbers, hosts = range(plain.entry_count), sorted(host_hash(host) for host in range(MOST_HOSTS))
    assert distinctive_texts_of(state, numbers) == distinctive_texts_of(plain, numbers)
    assert memories_of(state, hosts) == memories_of(plain, hosts)
    # The blocks of a window of common text are in the order in which they were last seen, also on pages again.
    windows = [np.sort(one.common_text().slots.reshape(-1, WINDOW), axis=1) for one in (state, plain)]
    assert (windows[0] == windows[1]).all()


def test_a_mark_of_the_files_own_end_forgets_all_attempts() -> None:
    _, pages, limits = any_case(7)
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
    """A reader of a log, and the reference implementation, in which entries and memories die as the horizon says."""

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
    "every reader of the log forgets the same pages",
    fault="pages expire and are forgotten, with host memories",
)
@pytest.mark.parametrize("seed", mostly_long(range(4000, 4040), 6))
def test_with_horizon_and_forgetting_verdicts_and_memories_are_the_obvious_judge_s(seed: int) -> None:
    dice, pages, limits = any_case(seed)
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


def made(number: int, blocks: Sequence[Paragraph], titles: Sequence[int] = ()) -> Made:
    """A page of host 1 that has nothing in common with others but these blocks and its title."""
    return Made(number, 1, 1, (*blocks, own_block(number)), (number,), tuple(titles))


def own_block(number: int) -> Paragraph:
    """A block that differs for every number."""
    return Paragraph(tuple(random.Random(number).randrange(10_000) for _ in range(40)))


def test_a_full_memory_keeps_what_many_pages_have() -> None:
    # Three of four blocks on each page, and 40 new ones on each of 260 pages.
    dice = random.Random(1)
    common = [own_block(-1 - number) for number in range(4)]
    pages = [
        made(
            number,
            [*dice.sample(common, 3), *(own_block(1000 + 40 * number + turn) for turn in range(40))],
            sorted({dice.randrange(3), *range(10 + 9 * number, 19 + 9 * number)}),
        )
        for number in range(260)
    ]
    limits, state = Limits(), memory_state()
    reference_kernel = reference_of(limits)
    for record in cut(with_ids(pages), [20] * len(pages)):
        assert run([record], state, limits) == run_reference([record], reference_kernel)
        assert_same_memory(state, reference_kernel)
    (known,) = memories_of(state, [host_hash(1)]).values()
    # It had room for the common blocks, and for some that were on three pages for a while.
    assert RARE_ITEMS < len(known.blocks.slots) <= RARE_ITEMS + 40
    assert len(known.words.slots) == MOST_WORDS
    assert {item_of(block_of(packed(one)).identity) for one in common} <= {slot[0] for slot in known.blocks.slots}
    assert {0, 1, 2} <= {slot[0] for slot in known.words.slots}


def test_the_same_page_again_and_again_teaches_its_host_nothing_new() -> None:
    page = made(1, [own_block(number) for number in range(5)], [3, 4])
    state, limits = memory_state(), Limits()
    run([Record([(page, 0)])], state, limits)
    (once,) = memories_of(state, [host_hash(1)]).values()
    # URLs repeat after 84 pages (signatures_of), so these have few of them; and then other texts under one URL.
    copies = [(page._replace(body=1000 + number), 84 * number) for number in range(1, 40)]
    found = joined(run([Record(copies)], state, limits))
    assert {outcome[0] for outcome in found} == {"duplicate"}
    (again,) = memories_of(state, [host_hash(1)]).values()
    assert again._replace(last=0) == once._replace(last=0)
