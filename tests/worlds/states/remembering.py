"""Runs the judge of a scheme with host memories beside its reference implementation, and compares their memories."""

import dataclasses
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, CommitMark, LiveView, StateView
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.judge import PLAIN, Policy, judge
from spotsieve.stream.judge.policy import ANY_BETTER, ANY_KIND, Preference
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.reference.host_memory import Bars
from tests.reference.judge import Outcome
from tests.reference.remembering import KeysOfPages, RememberingJudge
from tests.worlds.pages.generated import outcomes_of
from tests.worlds.pages.hosts import (
    BITS,
    MOST_HOSTS,
    Submitted,
    any_temper,
    host_hash,
    made_pages,
    signatures_of,
    with_ids,
)

SCHEME = SpotsieveScheme(SpotsieveSettings(sketch_bits=BITS))


class Limits(NamedTuple):
    """The judge's parameters beside the scheme."""

    cap: int = 256
    candidates: int = 64
    policy: Policy = PLAIN


class Record(NamedTuple):
    """Pages that are judged together. committed: the pages that cannot come again, from their record"""

    pages: Sequence[Submitted]
    committed: tuple[CommitMark, ...] = ()


def any_world(seed: int, most: int = 120) -> tuple[random.Random, list[Submitted], Limits]:
    """Pages of one temper, each with a unique id, and limits that take effect."""
    dice = random.Random(seed)
    pages = made_pages(dice, dice.choice([10, 40, most]), any_temper(dice))
    if dice.random() < 0.2:
        # Many similar ones: more than a chunk of the sequential resolution.
        pages += [page._replace(body=dice.getrandbits(64)) for page in dice.choices(pages[-3:], k=70)]
    longer_by = dice.choice([float("inf"), float("inf"), 1.0, 1.2])
    policy = Policy(longer_by, dice.choice([ANY_KIND, ANY_KIND, 0, KeyKind.BODY]))
    if dice.random() < 0.4:
        better = policy._replace(longer_by=ANY_BETTER)
        policy = better._replace(preference=dice.choice([Preference.TIME, Preference.RANK, Preference.LOW_RANK]))
    return dice, with_ids(pages), Limits(dice.choice([2, 5, 16, 256]), dice.choice([1, 3, 8, 64]), policy)


def reference_of(limits: Limits, bars: Bars | None = None) -> RememberingJudge:
    """The reference judge of SCHEME."""
    return RememberingJudge(KeysOfPages(), bars or Bars(), *limits)


def cut(pages: Sequence[Submitted], sizes: Sequence[int]) -> list[Record]:
    """Cut pages into records of these sizes, then of one page each."""
    records, at, remaining = list[Record](), 0, list(sizes)
    while at < len(pages):
        size = remaining.pop(0) if remaining else 1
        records.append(Record(pages[at : at + size]))
        at += size
    return records


def run(
    records: Sequence[Record], state: State, limits: Limits, scheme: SpotsieveScheme = SCHEME
) -> list[list[Outcome]]:
    """Judge and index records one after the other; returns the outcomes of each."""
    found = []
    for record in records:
        verdicts, index_update = judge(signatures_of(record.pages), scheme, state, *limits)
        state.file(dataclasses.replace(index_update, committed=record.committed), state.position + 1, 0)
        found.append(outcomes_of(verdicts))
    return found


def run_reference(records: Sequence[Record], reference_kernel: RememberingJudge) -> list[list[Outcome]]:
    """The same by the reference judge."""
    return [reference_kernel.judge(signatures_of(record.pages), record.committed) for record in records]


class Remembered(NamedTuple):
    """The memory of a host: pages, last, first, counts of items and of words."""

    pages: int
    last: int
    first: int | None
    items: dict[int, int]
    words: dict[int, int]


def memories_of(state: StateView, hosts: Sequence[int]) -> dict[int, Remembered]:
    """The complete memories of these hosts in the state."""
    found = state.memories(np.array(sorted(hosts), np.uint64))
    rows = {}
    for row, host in enumerate(found.hosts.tolist()):
        if not found.pages[row]:
            continue
        items = found.items[slice(*found.item_bounds[row : row + 2])]
        words = found.words[slice(*found.word_bounds[row : row + 2])]
        first = int(found.first[row])
        rows[host] = Remembered(
            int(found.pages[row]),
            int(found.last[row]),
            None if first == NOBODY else first,
            _counts(items, 4),
            _counts(words, 8),
        )
    return rows


def _counts(stored: NDArray[np.uint32], bits: int) -> dict[int, int]:
    counts = {one >> bits: one % (1 << bits) for one in stored.tolist()}
    assert list(counts) == sorted(counts), "ascending"
    assert len(counts) == len(stored), "each once"
    return counts


def memories_of_twin(reference_kernel: RememberingJudge) -> dict[int, Remembered]:
    """The same of the reference judge."""
    return {
        host: Remembered(memory.pages, memory.last, memory.first, memory.items, memory.words)
        for host, memory in reference_kernel.memories.items()
    }


class OwnRow(NamedTuple):
    """The columns by which an entry is compared on its host: site, share in 255ths, listed weight, prints, title."""

    site: int
    share: int
    listed: int
    prints: list[int]
    titles: list[int]


def own_texts_of(state: State, numbers: Sequence[int]) -> list[OwnRow]:
    """The columns of these entries, all of them live."""
    found = state.indexed(np.array(numbers, np.uint64)).own_texts()
    return [
        OwnRow(
            int(found.site[row]),
            int(found.share[row]),
            int(found.listed[row]),
            found.prints[slice(*found.print_bounds[row : row + 2])].tolist(),
            found.titles[slice(*found.title_bounds[row : row + 2])].tolist(),
        )
        for row in range(len(numbers))
    ]


def own_texts_of_twin(reference_kernel: RememberingJudge, numbers: Sequence[int]) -> list[OwnRow]:
    """The same of the reference judge."""
    rows = []
    for number in numbers:
        entry = reference_kernel.entries[number]
        assert entry
        text = entry.text
        rows.append(
            OwnRow(text.site, entry.share, text.listed, [one.stored for one in text.prints], sorted(text.titles))
        )
    return rows


def assert_same_memory(state: State, reference_kernel: RememberingJudge) -> None:
    """Check that live entries and host memories are the same in both."""
    assert state.entry_count == len(reference_kernel.entries)
    numbers = [
        number for number, entry in enumerate(reference_kernel.entries) if entry and number >= reference_kernel.floor
    ]
    if numbers:
        assert own_texts_of(state, numbers) == own_texts_of_twin(reference_kernel, numbers)
    hosts = {host_hash(host) for host in range(MOST_HOSTS)} | reference_kernel.memories.keys()
    assert memories_of(LiveView(state, reference_kernel.floor), sorted(hosts)) == memories_of_twin(reference_kernel)
