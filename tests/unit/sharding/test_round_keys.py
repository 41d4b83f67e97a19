"""The keys that a shard lays out for a round, against sets."""

import numpy as np
import pytest

from bench.speed.index_load import CandidateLoad
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.sharding.keys import RoundKeys, own_keys, read_own_buckets, read_round
from spotsieve.stream.sharding.shares import Share, shards_of, shards_of_hosts
from spotsieve.stream.sign.fingerprints.permuted_tables import BLOCK_TAG, KEY_BITS, TITLE_TAG
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme

SCHEME = SpotsieveScheme(SpotsieveSettings())
PAGES = CandidateLoad(300, np.random.default_rng(11), hosts=20).signatures(0, 300)
PROBES = SCHEME.probe(PAGES)


def keys_by_page(shard: int, shards: int) -> list[set[int]]:
    """The keys of each page, without those that another shard's host is mixed with."""
    own_host = (shards_of(PAGES.host, shards) == shard).tolist()
    found = []
    for page, mine in enumerate(own_host):
        keys = PROBES.keys[PROBES.bounds[page] : PROBES.bounds[page + 1]].tolist()
        found.append({key for key in keys if mine or key >> KEY_BITS not in (BLOCK_TAG, TITLE_TAG)})
    return found


def is_own(key: int, shard: int, shards: int) -> bool:
    plain = key >> KEY_BITS not in (BLOCK_TAG, TITLE_TAG)
    return not plain or int(shards_of(np.array([key], np.uint64), shards)[0]) == shard


def laid_by_page(laid: RoundKeys) -> list[set[int]]:
    bounds = laid.slots.bounds.tolist()
    return [set(laid.keys[laid.slots.bucket[bounds[page] : bounds[page + 1]]].tolist()) for page in range(len(PAGES))]


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_a_shard_lays_out_its_own_keys_and_those_of_pages_that_it_walks_over(shards: int) -> None:
    for shard in range(shards):
        reads, every = read_round(PAGES, SCHEME, memory_state(), Share(shard, shards)), keys_by_page(shard, shards)
        resolution = np.flatnonzero(shards_of_hosts(PAGES, shards) == shard).tolist()
        of_walked = set[int]().union(*(every[page] for page in resolution))
        for page, laid in enumerate(laid_by_page(reads.laid)):
            needed = {key for key in every[page] if key in of_walked or is_own(key, shard, shards)}
            assert needed <= laid <= every[page]
        assert np.flatnonzero(reads.own_pages).tolist() == resolution
        own = {key for keys in every for key in keys if is_own(key, shard, shards)}
        assert reads.own.keys.tolist() == own_keys(PAGES, SCHEME, Share(shard, shards)).tolist() == sorted(own)


def test_a_shard_leaves_out_most_keys_that_it_has_no_use_for() -> None:
    reads, every = read_round(PAGES, SCHEME, memory_state(), Share(3, 8)), keys_by_page(3, 8)
    assert len(reads.laid.keys) < 0.5 * len(set[int]().union(*every))


def test_a_shard_that_files_reads_the_own_keys_of_filed_pages() -> None:
    indexed = np.random.default_rng(5).random(len(PAGES)) < 0.5
    every = keys_by_page(1, 3)
    own = {key for page in np.flatnonzero(indexed).tolist() for key in every[page] if is_own(key, 1, 3)}
    assert read_own_buckets(PAGES, SCHEME, memory_state(), Share(1, 3), indexed).keys.tolist() == sorted(own)
