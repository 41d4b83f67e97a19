"""What is counted of a host: bounded, with a stated guarantee, and the same whatever the verdicts and the salt are."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from spotsieve.state.index import HostMemories
from spotsieve.stream.base.page_text import IDENTITY_SHIFT
from spotsieve.stream.judge.by_host import learning
from spotsieve.stream.judge.by_host import memory as kernels
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.states.remembering import sketch
from tests.reference.host_memory import (
    COUNT_BITS,
    LEAST_TEMPLATE,
    MOST_ERROR,
    MOST_ITEMS,
    MOST_REPLACED,
    RARE_ITEMS,
    Counts,
    Memory,
    item_of,
)


@njit
def _count_all(counts, identities, bounds, hashes):  # type: ignore[no-untyped-def]
    # identities: int64[i]  bounds: int64[n + 1], of n pages  hashes: uint64[n, 2]  ->  counts: Counts, of one host
    for page in range(len(hashes)):
        for place in range(bounds[page], bounds[page + 1]):
            kernels.count_page(counts, 0, identities[place], hashes[page, 0], hashes[page, 1])


class Blocks(NamedTuple):
    """The fields of PageTexts that count_blocks reads."""

    blocks: NDArray[np.uint64]
    block_bounds: NDArray[np.int64]


@njit
def _count_blocks(pages, counts, hashes):  # type: ignore[no-untyped-def]
    # pages: Blocks of n pages  hashes: uint64[n, 2]  ->  counts: Counts, of one host
    for page in range(len(hashes)):
        learning.count_blocks(pages, page, counts, 0, hashes[page, 0], hashes[page, 1])


@njit
def _learn_and_look_up(memory, url, text):  # type: ignore[no-untyped-def]
    # Memory of one host, uint64, uint64  ->  the pages of the host: float64, and those with block 1: int64
    memory.urls[0] |= np.uint64(1) << kernels.sketch_bit(url)
    memory.texts[0] |= np.uint64(1) << kernels.sketch_bit(text)
    kernels.count_page(memory.blocks, 0, 1, url, text)
    return kernels.pages_of_host(memory, 0), kernels.pages_with(memory.blocks, 0, 1)


Shown = tuple[int, int, Sequence[int]]
"""A page: the hashes of its URL and text, and its items."""


def empty_memory(room: int) -> kernels.Memory:
    """The memory of a host without pages, with room for some items."""
    none, bounds = np.zeros(1, np.uint64), np.zeros(2, np.int64)
    few, small = np.zeros(1, np.uint16), np.zeros(1, np.uint8)
    empty = HostMemories(none, none, none, none, few, few, small, small, none[:0], bounds, none[:0], bounds)
    return kernels.load_memories(empty, np.array([room]), np.array([room]))


def empty_counts(pages: Sequence[Shown], rare: int, most: int) -> kernels.Counts:
    """The counts of a host without pages, with room for the items of these pages."""
    blocks = empty_memory(sum(len(items) for _, _, items in pages)).blocks
    return blocks._replace(rare=np.int64(rare), most=np.int64(most))


def by_kernel(pages: Sequence[Shown], room: int) -> kernels.Counts:
    """The counts of a host's title words after these pages. room: the most items"""
    counts = empty_counts(pages, room, room)
    identities = np.array([item for _, _, items in pages for item in items], np.int64)
    hashes = np.array([page[:2] for page in pages], np.uint64).reshape(-1, 2)
    _count_all(counts, identities, np.cumsum([0, *(len(items) for _, _, items in pages)]), hashes)
    return counts


def by_reference(pages: Sequence[Shown], room: int) -> Counts:
    """The same by the reference implementation."""
    counts = Counts(room, room)
    for url, text, items in pages:
        for item in items:
            counts.count(item, url, text)
    return counts


def blocks_by_kernel(pages: Sequence[Shown], rare: int, most: int) -> kernels.Counts:
    """The counts of a host's blocks after these pages."""
    counts = empty_counts(pages, rare, most)
    blocks = np.array([item for _, _, items in pages for item in items], np.uint64) << np.uint64(IDENTITY_SHIFT + 12)
    bounds = np.cumsum([0, *(len(items) for _, _, items in pages)])
    _count_blocks(Blocks(blocks, bounds), counts, np.array([page[:2] for page in pages], np.uint64).reshape(-1, 2))
    return counts


def blocks_by_reference(pages: Sequence[Shown], rare: int, most: int) -> Counts:
    """The same by the reference implementation."""
    memory = Memory(blocks=Counts(rare, most))
    for url, text, items in pages:
        memory.learn(url, text, [item << 12 for item in items], [], 1)
    return memory.blocks


def slots_of(counts: Counts) -> list[int]:
    """The slots of the reference implementation as the kernel writes them."""
    return [
        item.identity << 28 | item.error << 24 | sketch(item.urls) << 12 | sketch(item.texts) for item in counts.slots
    ]


@pytest.mark.parametrize("seed", mostly_long(range(40), 14))
def test_counts_are_those_of_the_reference_implementation(seed: int) -> None:
    dice = random.Random(seed)
    room, kinds = dice.choice([1, 2, 5, 20, 64]), dice.choice([3, 30, 2**28])
    often = [dice.randrange(2**28) for _ in range(room // 2)]
    pages: list[Shown] = []
    for _ in range(dice.choice([5, 100, 400])):
        items = [dice.choice([dice.randrange(kinds), *often]) for _ in range(dice.randrange(12))]
        pages.append((dice.getrandbits(dice.choice([2, 6])) << 58, dice.getrandbits(64), items))
    found, expected = by_kernel(pages, room), by_reference(pages, room)
    assert found.items[: found.used[0]].tolist() == slots_of(expected)
    if expected.floor:
        assert (found.hand[0], found.floor[0]) == (expected.hand, expected.floor)
    assert found.used[0] <= room


@pytest.mark.parametrize("seed", mostly_long(range(40), 14))
def test_blocks_are_counted_as_by_the_reference_implementation(seed: int) -> None:
    dice = random.Random(seed)
    rare, kinds = dice.choice([1, 20, 60]), dice.choice([3, 200, 2**20])
    most = rare + dice.choice([0, 10, 100])
    often = [dice.randrange(1, 2**28) for _ in range(dice.choice([2, 30]))]
    pages: list[Shown] = []
    for _ in range(dice.choice([5, 60])):
        items = [dice.choice([dice.randrange(kinds), *often[:3]]) for _ in range(dice.choice([5, 40, 150]))]
        pages.append((dice.getrandbits(dice.choice([2, 6])) << 58, dice.getrandbits(64), items + often))
    found, expected = blocks_by_kernel(pages, rare, most), blocks_by_reference(pages, rare, most)
    assert found.items[: found.used[0]].tolist() == slots_of(expected)
    if expected.floor:
        assert (found.hand[0], found.floor[0]) == (expected.hand, expected.floor)
    assert found.recurring[0] == sum(item.pages >= 3 for item in expected.slots)
    assert found.used[0] <= most


def test_a_host_is_known_only_once_a_block_on_all_its_pages_is_template_text() -> None:
    # The sketches of a block have 12 bits: of the first four pages of a host in eleven, two bits are the same.
    late = 0
    for seed in range(200):
        dice = random.Random(seed)
        found, expected = empty_memory(1), Memory()
        for number in range(1, 13):
            url, text = dice.getrandbits(64), dice.getrandbits(64)
            known, shown = _learn_and_look_up(found, np.uint64(url), np.uint64(text))
            expected.learn(url, text, [1 << 12], [], number)
            assert (known, shown) == (pytest.approx(expected.pages), expected.blocks.pages_with(1))
            assert known <= LEAST_TEMPLATE or shown >= LEAST_TEMPLATE
            late += number == 4 and shown < LEAST_TEMPLATE
    assert 5 <= late <= 40


@pytest.mark.parametrize("order", range(3))
def test_template_text_is_learned_from_pages_of_hundreds_of_blocks(order: int) -> None:
    # As of a reference manual: each page repeats 400 of 2,000 descriptions, and 200 of its blocks stand nowhere else.
    dice, numbers = random.Random(order), iter(range(10_000, 2**28))
    pages: list[Shown] = []
    for _ in range(200):
        items = [*dice.sample(range(1, 2_001), 400), *(next(numbers) for _ in range(200))]
        dice.shuffle(items)
        pages.append((dice.getrandbits(64), dice.getrandbits(64), items))
    counts = blocks_by_kernel(pages, RARE_ITEMS, MOST_ITEMS)
    identities = (counts.items[: counts.used[0]] >> np.uint64(28)).tolist()
    assert sum(identity <= 2_000 for identity in identities) >= 1_900
    assert counts.used[0] <= RARE_ITEMS + 2_000


def test_a_page_replaces_few_blocks_of_a_full_memory_each_of_its_own_in_turn() -> None:
    first = [(number, number, range(1 + 100 * number, 101 + 100 * number)) for number in range(8)]
    before = set(slots_of(blocks_by_reference(first, RARE_ITEMS, MOST_ITEMS)))
    after = blocks_by_kernel([*first, (99, 99, range(5_000, 5_600))], RARE_ITEMS, MOST_ITEMS)
    found = set(after.items[: after.used[0]].tolist())
    assert (len(found - before), len(before - found)) == (MOST_REPLACED, MOST_REPLACED)
    dice, chosen = random.Random(1), set[int]()
    for _ in range(100):
        again = (dice.getrandbits(64), dice.getrandbits(64), range(5_000, 5_600))
        counts = blocks_by_kernel([*first, again], RARE_ITEMS, MOST_ITEMS)
        chosen |= set((counts.items[: counts.used[0]] >> np.uint64(28)).tolist())
    assert chosen >= set(range(5_000, 5_600))


@pytest.mark.guarantee("host memory is bounded", fault="more blocks than there is room for")
@pytest.mark.parametrize("seed", mostly_long(range(200), 60))
def test_an_item_on_more_than_n_by_room_pages_is_in_the_memory(seed: int) -> None:
    # As many pages as a sketch has bits, each of another bit, so that no number is too small.
    dice = random.Random(seed)
    room, kinds = dice.choice([2, 3, 5, 9]), dice.choice([4, 12, 60])
    weights = [1 / (1 + rank) for rank in range(kinds)]
    pages: list[Shown] = [
        (page << 58, page << 58, sorted(set(dice.choices(range(kinds), weights, k=dice.randrange(1, 2 * room)))))
        for page in range(COUNT_BITS)
    ]
    counts, seen = Counts(room, room), Counter[int]()
    total = 0
    for url, text, items in pages:
        for item in items:
            before = counts.pages_with(item)
            counts.count(item, url, text)
            total += counts.pages_with(item) - before
            seen[item] += 1
            if counts.floor < MOST_ERROR:
                remembered = {one.identity for one in counts.slots}
                assert {item for item, pages in seen.items() if pages > total / room} <= remembered


@pytest.mark.parametrize(("unique", "twice"), [(20, 0), (20, 10), (5, 20), (200, 40)])
def test_a_host_that_changes_its_template_is_learned_anew_however_old_it_is(unique: int, twice: int) -> None:
    # Many blocks stand on two pages each: they filled the memory, and nothing else came in.
    dice, numbers = random.Random(1), iter(range(1, 2**28))
    old, new = ([next(numbers) for _ in range(30)] for _ in range(2))
    pages, recent = list[Shown](), list[int]()
    for number in range(1_500):
        fresh = [next(numbers) for _ in range(twice)]
        template = old if number < 1_470 else new
        items = [*template, *(next(numbers) for _ in range(unique)), *recent, *fresh]
        pages.append((dice.getrandbits(64), dice.getrandbits(64), items))
        recent = fresh
    counts = blocks_by_kernel(pages, RARE_ITEMS, MOST_ITEMS)
    identities = (counts.items[: counts.used[0]] >> np.uint64(28)).tolist()
    assert set(old) <= set(identities)
    assert set(new) <= set(identities)


def test_where_every_item_stands_on_many_pages_the_rarest_goes() -> None:
    dice = random.Random(1)
    pages: list[Shown] = [(dice.getrandbits(64), dice.getrandbits(64), range(50)) for _ in range(60)]
    pages += [(dice.getrandbits(64), dice.getrandbits(64), [1_000 + number]) for number in range(300)]
    counts = by_reference(pages, 50)
    assert len({item.identity for item in counts.slots} & set(range(50))) == 49
    assert by_kernel(pages, 50).items.tolist()[:50] == slots_of(counts)


@pytest.mark.parametrize("seed", mostly_long(range(20), 8))
def test_the_same_url_or_the_same_text_again_adds_nothing(seed: int) -> None:
    dice = random.Random(seed)
    memory = Memory()
    blocks, words = [dice.getrandbits(40) for _ in range(20)], [dice.getrandbits(16) for _ in range(5)]
    url, text = dice.getrandbits(64), dice.getrandbits(64)
    for _ in range(50):
        memory.learn(url, dice.getrandbits(64), blocks, words, 1)
    assert {memory.blocks.pages_with(item_of(block)) for block in blocks} == {1}
    assert memory.pages < 1.1
    memory = Memory()
    for _ in range(50):
        memory.learn(dice.getrandbits(64), text, blocks, words, 1)
    assert {memory.words.pages_with(word) for word in words} == {1}
    assert memory.pages < 1.1
