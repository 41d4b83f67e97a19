"""`make large` at a tiny size: the filled state is judged like an indexed one, and the document reports it."""

from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from bench.large_state import report
from bench.large_state.filling import KEYS, StatePostings, fill, in_buckets, old_numbers, postings_of
from bench.large_state.judging import JudgingCosts
from bench.large_state.report import PAGES, VariantRuns, broken, document
from bench.large_state.variants import DEFAULTS, HALF_CACHE, VARIANTS, LargeStatePlan, compare
from bench.speed.index_load import BLOCKS, HOST_PAGES, SIZES, TEMPLATE_BLOCKS
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.page_text import ENTRY_SAMPLES, IDENTITY_SHIFT, SHINGLE
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.sign.fingerprints.permuted_tables import KEY_BITS
from tests.fixtures.states.remembering import memories_of
from tests.reference.host_memory import COUNT_BITS, HOST_BITS, item_of, linear_count

PLAN = LargeStatePlan(pages=2_000, judged=400, batch=100, buffer_mb=1)
WELL = JudgingCosts(360, 90.0, 200.0, 9.0, 20.0, 30.0, 15.0, 0.5, 2e3, 40.0, 900.0, 10 * 2**30, 2**30, 270, 130)
MACHINE = {"cores": 2, "cpu": "a CPU", "system": "Linux", "python": "3.11"}


@pytest.mark.usefixtures("one_process")
def test_copies_of_old_pages_are_found_under_every_tuning(tmp_path: Path) -> None:
    variants = [DEFAULTS, *(variant for variant in VARIANTS if variant.refill or variant.tuning.universal)]

    runs = list(compare(tmp_path, PLAN, variants))

    load, old = PLAN.load()
    copies = np.isin(load.hashes[old:], load.hashes[:old]).all(axis=1).sum()
    assert {(judged.novel, judged.copies) for _, judged in runs} == {(runs[0][1].novel, runs[0][1].copies)}
    assert runs[0][1].novel + runs[0][1].copies == PLAN.judged
    assert runs[0][1].copies >= copies > 0.1 * PLAN.judged
    assert all(judged.disk > 300 * PLAN.pages and judged.reads > 0 for _, judged in runs)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("one_process")
def test_a_filled_state_has_all_entries_and_the_old_pages_in_place(tmp_path: Path) -> None:
    load, old = PLAN.load()

    fill(tmp_path, PLAN.pages, load, old, DEFAULTS.tuning)

    numbers = old_numbers(PLAN.pages, old)
    with disk_state(tmp_path, "{}", "bench", IndexSettings()) as state:
        assert state.entry_count == PLAN.pages
        assert len(state.indexed(np.arange(PLAN.pages, dtype=np.uint64)).distinctive_texts().site) == PLAN.pages
        own = state.indexed(numbers).distinctive_texts()
        blocks = load.signatures(0, old).blocks.reshape(old, BLOCKS)[:, : BLOCKS - TEMPLATE_BLOCKS]
        assert (own.blocks.reshape(blocks.shape) == np.sort(blocks, axis=1)).all()
        shingles = int((SIZES[: BLOCKS - TEMPLATE_BLOCKS] - SHINGLE + 1).sum())
        assert (np.diff(own.sample_bounds) == min(shingles, ENTRY_SAMPLES)).all()
        memories = memories_of(state, range(1, 1 + PLAN.pages // HOST_PAGES))
    assert len(memories) == PLAN.pages // HOST_PAGES
    pages = [linear_count(memory.urls.bit_count(), HOST_BITS) for memory in memories.values()]
    assert mean(pages) == pytest.approx(HOST_PAGES, rel=0.1)
    every = 2**COUNT_BITS - 1
    signatures = load.signatures(0, old)
    for host, its_blocks in zip(signatures.host.tolist(), signatures.blocks.reshape(old, BLOCKS), strict=True):
        template = {int(block >> np.uint64(IDENTITY_SHIFT)) for block in its_blocks[-TEMPLATE_BLOCKS:]}
        slots = memories[host].blocks.slots
        assert {item for item, _, urls, texts in slots if (urls, texts) == (every, every)} == set(
            map(item_of, template)
        )
        assert len(slots) == TEMPLATE_BLOCKS + HOST_PAGES * (BLOCKS - TEMPLATE_BLOCKS)


def test_made_up_keys_are_as_many_as_the_scheme_s() -> None:
    load, old = PLAN.load()

    indexed = postings_of(load.signatures(0, old), np.arange(old, dtype=np.uint64))

    tags, counts = np.unique(indexed.keys >> np.uint64(KEY_BITS), return_counts=True)
    assert [(tag, keys) for tag, keys, _ in KEYS] == [(int(t), c / old) for t, c in zip(tags, counts, strict=True)]


def test_a_bucket_keeps_its_first_different_numbers() -> None:
    words = [np.array(column, np.uint64) for column in ([7, 5, 7, 7, 7], [9, 1, 3, 3, 4], [0] * 5)]

    names, values = in_buckets(StatePostings(*words), 2)

    assert names == [(5).to_bytes(8, "big"), (7).to_bytes(8, "big")]
    assert [len(value) for value in values] == [1 + 13, 1 + 2 * 13]


def test_the_document_says_what_does_not_hold() -> None:
    small, large = VariantRuns(PLAN, [(DEFAULTS, WELL)]), VariantRuns(replace(PLAN, pages=PAGES), [(DEFAULTS, WELL)])
    stalled, fat = replace(WELL, write_ms=1001.0), replace(WELL, resident=3 * 2**30)
    worse = VariantRuns(PLAN, [(DEFAULTS, stalled), (HALF_CACHE, fat)])
    other = VariantRuns(PLAN, [(DEFAULTS, WELL), (HALF_CACHE, replace(WELL, novel=271, copies=129))])

    assert broken(large) == []
    assert len(broken(worse)) == 3
    assert "All holds." in document(small, large, "make large", MACHINE, (0.1, 2.0))
    assert "DOES NOT HOLD: the state had 2,000 pages" in document(small, worse, "make large", MACHINE, (0.1, 2.0))
    assert "THEY DIFFER" in document(other, large, "make large", MACHINE, (0.1, 2.0))
    assert report.LONGEST_WRITE_MS == 1000
