"""Pages built to share every probe cost a few ordinary pages each (`python -m bench.speed.flooding`)."""

import numpy as np
import pytest

from bench.speed.flooding import CAP, ChainFlood, Flood
from bench.speed.index import Load, measure
from bench.speed.index_load import MINIMA, CandidateLoad, FingerprintLoad
from spotsieve.stream.base.settings.schemes import ChainSettings, SpotsieveSettings
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.simhash import ChainScheme
from spotsieve.stream.sign.schemes.spotsieve import BLOCK_CAP, SOME_KEYS, SpotsieveScheme

PAGES = 20_480
MOST_OF_ORDINARY = 5.0
"""Bound of CPU per page, relative to ordinary pages; measured: 3.6 to 3.9 (8 before tables had a cap of 16 pages)."""
ROUNDS = 3
"""The most rounds; the minimum of CPU counts, because other programs only add to it."""


def cpu_of(scheme: Scheme, load: Load) -> dict[str, float]:
    compile_kernels(scheme)
    return measure(scheme, load, CAP, lambda _: None)


def check_flood(scheme: Scheme, flood: Load, ordinary: Load, least_postings: int) -> None:
    """No page of the flood is a duplicate, all have many candidates, and each costs only a few ordinary pages' CPU."""
    flooded, usual = [], []
    for _ in range(ROUNDS):
        found = cpu_of(scheme, flood)
        assert found["duplicates"] == 0
        assert found["postings_per_page"] > least_postings
        flooded.append(found["cpu_us_per_page"])
        usual.append(cpu_of(scheme, ordinary)["cpu_us_per_page"])
        if min(flooded) < MOST_OF_ORDINARY * min(usual):
            break
    assert min(flooded) < MOST_OF_ORDINARY * min(usual)


@pytest.mark.guarantee(
    "a flood of pages that share every bucket costs a few ordinary pages each",
    fault="20,000 pages of the default scheme",
)
def test_a_flood_costs_at_most_a_few_ordinary_pages() -> None:
    random = np.random.default_rng(1)
    scheme = SpotsieveScheme(SpotsieveSettings())
    check_flood(scheme, Flood(PAGES, PAGES // 64, random), CandidateLoad(PAGES, random), 100)


def test_a_flood_of_chain_costs_at_most_a_few_ordinary_pages() -> None:
    random = np.random.default_rng(1)
    scheme = ChainScheme(ChainSettings())
    check_flood(scheme, ChainFlood(PAGES, PAGES // (4 * CAP), random), FingerprintLoad(PAGES, random), 700)


def test_pages_that_all_meet_the_same_full_buckets_are_filed_once_and_met_no_more() -> None:
    scheme = SpotsieveScheme(SpotsieveSettings())
    flood = Flood(PAGES, 1, np.random.default_rng(1))
    keys = scheme.probe(flood.signatures(0, 100)).keys.reshape(100, -1)
    assert [len(np.unique(column)) for column in keys.T] == [100, *[1] * (MINIMA + 1 + SOME_KEYS)]
    found = cpu_of(scheme, flood)
    # 8 MinHash values, 4 of them once more for the host, and the title, of 16 pages each; 4 block fingerprints of 4
    assert found["postings_per_page"] < 13 * scheme.settings.minima_cap + SOME_KEYS * BLOCK_CAP
    assert found["entries"] == PAGES
