"""Puts what a record changes into one batch, which RocksDB writes whole or not at all."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rocksdict import ColumnFamily, WriteBatch

from spotsieve.state.format.buckets import encode_buckets, encode_keys
from spotsieve.state.format.entries import encode_entries
from spotsieve.state.format.host_memory import encode_memories
from spotsieve.state.format.meta import attempt_key, encode_attempt, encode_source
from spotsieve.state.index import Buckets, HostMemories, HostUpdate, IndexUpdate
from spotsieve.state.store.loaded import SourceNumbers, UpdateNumbers
from spotsieve.stream.base.arrays import sizes_of


def put_buckets(batch: WriteBatch, keys: NDArray[np.uint64], buckets: Buckets) -> None:
    """Put buckets into the family of the batch. An empty bucket is deleted."""
    sizes = sizes_of(buckets.bounds).tolist()
    values = encode_buckets(keys, buckets)
    for name, value, size in zip(encode_keys(keys), values, sizes, strict=True):
        if size:
            batch[name] = value
        else:
            batch.delete(name)


def put_entries(
    batch: WriteBatch, index_update: IndexUpdate, handles: Mapping[str, ColumnFamily], known: SourceNumbers
) -> UpdateNumbers:
    """Put the filed pages into the batch, and the new sources. handles: of the families"""
    numbered = known.number(index_update)
    batch.set_default_column_family(handles["sources"])
    for number, text in enumerate(numbered.new, len(known.texts)):
        batch[number.to_bytes(8, "big")] = encode_source(text)
    names = encode_keys(index_update.numbers)
    batch.set_default_column_family(handles["entries"])
    for name, value in zip(names, encode_entries(index_update, numbered.indexed), strict=True):
        batch[name] = value
    return numbered


def put_memories(batch: WriteBatch, memories: HostMemories) -> None:
    """Put memories of hosts into the family of the batch. One of 0 pages is deleted."""
    for name, value in zip(encode_keys(memories.hosts), encode_memories(memories), strict=True):
        if value is None:
            batch.delete(name)
        else:
            batch[name] = value


def put_pending_verdicts(batch: WriteBatch, learned: HostUpdate, sources: Sequence[int]) -> list[bytes]:
    """Put attempts into the family of the batch, and return their keys. sources: the number of each one's source"""
    keys = [
        attempt_key(number, partition, offset)
        for number, (_, partition, offset) in zip(sources, learned.page_ids, strict=True)
    ]
    for key, attempt in zip(keys, learned.pending_verdicts, strict=True):
        batch[key] = encode_attempt(attempt)
    return keys
