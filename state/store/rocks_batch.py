"""Puts what a record changes into one batch, which RocksDB writes whole or not at all."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from rocksdict import ColumnFamily, WriteBatch

from spotsieve.state.format.buckets import encode_buckets
from spotsieve.state.format.entries import encode_entries
from spotsieve.state.format.keys import encode_keys
from spotsieve.state.format.sources import encode_source
from spotsieve.state.index import Buckets, Filing
from spotsieve.state.store.source_numbers import SourceNumbers


def put_buckets(batch: WriteBatch, keys: NDArray[np.uint64], buckets: Buckets) -> None:
    """Put buckets into the family of the batch. An empty bucket is deleted."""
    sizes = np.diff(buckets.bounds).tolist()
    values = encode_buckets(keys, buckets)
    for name, value, size in zip(encode_keys(keys), values, sizes, strict=True):
        if size:
            batch[name] = value
        else:
            batch.delete(name)


def put_entries(
    batch: WriteBatch, filing: Filing, handles: Mapping[str, ColumnFamily], known: SourceNumbers
) -> list[str]:
    """Put the filed pages into the batch, and the new sources, which are returned. handles: of the families"""
    numbers, new = known.number(filing)
    batch.set_default_column_family(handles["sources"])
    for number, text in enumerate(new, len(known.texts)):
        batch[number.to_bytes(8, "big")] = encode_source(text)
    first, last = filing.first_number, filing.first_number + len(filing.pages)
    names = encode_keys(np.arange(first, last, dtype=np.uint64))
    batch.set_default_column_family(handles["entries"])
    for name, value in zip(names, encode_entries(filing, numbers), strict=True):
        batch[name] = value
    return new
