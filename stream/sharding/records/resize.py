"""Packs what is said of another number of shards: the bodies of records of kind 7, kind 8 and kind 9.

    resize  = change u32 (0 asked | 1 switched | 2 cancelled), shards u32, answered (a word)
    ask     = shards u32, 0: cancel
    filled  = ready u32 (0 | 1), next told (a word)

stream/sharding/resizing.py says what they mean. A resize names in its frame the shards that answer behind it. An ask
has an empty range. That of a shard that fills itself is empty too, and lies where its state stands.
"""

import numpy as np

from spotsieve.stream.sharding.records.columns import ColumnReader, ColumnWriter
from spotsieve.stream.sharding.resizing import FillProgress, Resize, ResizeEvent
from spotsieve.stream.sharding.shares import MOST_SHARDS


def write_resize(resize: Resize) -> bytes:
    """Write the body of kind 7."""
    columns = ColumnWriter()
    columns.count(resize.change)
    columns.count(resize.shards)
    columns.words(np.array([resize.answered], np.uint64))
    return columns.body()


def read_resize(columns: ColumnReader) -> Resize:
    """Read the body of kind 7. Raises ValueError."""
    change, shards = ResizeEvent(columns.count(max(ResizeEvent))), columns.count(MOST_SHARDS)
    return Resize(change, shards, int(columns.words(1)[0]))


def write_request(shards: int) -> bytes:
    """Write the body of kind 8."""
    columns = ColumnWriter()
    columns.count(shards)
    return columns.body()


def read_request(columns: ColumnReader) -> int:
    """Read the body of kind 8. Raises ValueError."""
    return columns.count(MOST_SHARDS)


def write_fill_progress(filled: FillProgress) -> bytes:
    """Write the body of kind 9."""
    columns = ColumnWriter()
    columns.count(filled.ready)
    columns.words(np.array([filled.next_told], np.uint64))
    return columns.body()


def read_fill_progress(columns: ColumnReader) -> FillProgress:
    """Read the body of kind 9. Raises ValueError."""
    return FillProgress(bool(columns.count(1)), int(columns.words(1)[0]))
