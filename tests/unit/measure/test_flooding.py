"""Pages built to share every probe cost a few ordinary pages each (`python -m tests.measure.bench.flooding`)."""

import numpy as np
import pytest

from spotsieve.stream.kernels import compile_kernels
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.schemes.simhash.chain import ChainScheme
from spotsieve.stream.schemes.spotsieve import PRINT_CAP, SOME_KEYS, SpotsieveScheme
from spotsieve.stream.settings.schemes import ChainSettings, SpotsieveSettings
from tests.measure.bench.flooding import CAP, ChainFlood, Flood
from tests.measure.bench.index import Load, measure
from tests.measure.bench.index_load import CandidateLoad, FingerprintLoad

PAGES = 20_480
MOST_OF_ORDINARY = 4.5
"""Of CPU a page; measured: 2.9. Before the tables' buckets had a cap of 16 pages it was 8."""


def cpu_of(scheme: Scheme, load: Load) -> dict[str, float]:
    compile_kernels(scheme)
    return measure(scheme, load, None, CAP, lambda _: None)


@pytest.mark.promise(
    "a flood of pages that share every bucket costs a few ordinary pages each",
    fault="20,000 pages of the default scheme",
)
def test_a_flood_costs_at_most_a_few_ordinary_pages() -> None:
    scheme = SpotsieveScheme(SpotsieveSettings())
    random = np.random.default_rng(1)
    flooded = cpu_of(scheme, Flood(PAGES, PAGES // 64, random))
    assert flooded["duplicates"] == 0
    assert flooded["postings_per_page"] > 100
    ordinary = cpu_of(scheme, CandidateLoad(PAGES, random))
    assert flooded["cpu_us_per_page"] < MOST_OF_ORDINARY * ordinary["cpu_us_per_page"]


def test_a_flood_of_chain_costs_at_most_a_few_ordinary_pages() -> None:
    scheme = ChainScheme(ChainSettings())
    random = np.random.default_rng(1)
    flooded = cpu_of(scheme, ChainFlood(PAGES, PAGES // (4 * CAP), random))
    assert flooded["duplicates"] == 0
    assert flooded["postings_per_page"] > 700
    ordinary = cpu_of(scheme, FingerprintLoad(PAGES, random))
    assert flooded["cpu_us_per_page"] < MOST_OF_ORDINARY * ordinary["cpu_us_per_page"]


def test_pages_that_all_meet_the_same_full_buckets_are_filed_once_and_met_no_more() -> None:
    scheme = SpotsieveScheme(SpotsieveSettings())
    found = cpu_of(scheme, Flood(PAGES, 1, np.random.default_rng(1)))
    # 8 smallest hashes, 4 of them for the host once more, and the title, of 16 pages each; 4 prints of 4
    assert found["postings_per_page"] < 13 * scheme.settings.minima_cap + SOME_KEYS * PRINT_CAP
    assert found["entries"] == PAGES
