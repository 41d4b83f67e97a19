"""Packs what a shard says of the entries that it holds: the body of a record of kind 11.

    body  = of u64, pages u32 (n), copies (bits: n), pairs u32 (p), said: low bits, high bits (p each), entries, texts
    texts = 8 bits, all 0: none, or all 1 and for each entry host (words), length, site (numbers), open (bits);
            and of the open ones sketch words u32, sketch (words), title words (numbers), title word (numbers)

`of` tells the answers that the pairs are of.
"""

import numpy as np

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.sharding.confirming import ShardConfirmations
from spotsieve.stream.sharding.meetings import SentTexts
from spotsieve.stream.sharding.records.columns import ColumnReader, ColumnWriter
from spotsieve.stream.sharding.records.entries import PackedEntries, write_entries
from spotsieve.stream.sharding.records.meetings import checked_bounds
from spotsieve.stream.signature import MAX_SKETCH_WORDS, OwnText
from spotsieve.stream.text.html.titles import MOST_TITLE_WORDS

_OF_BYTES = 8


def write_confirmations(confirms: ShardConfirmations, of: int, first_number: int) -> bytes:
    """Write the body. of: a word for the answers that were heard  first_number: of the round"""
    columns = ColumnWriter()
    columns.words(np.array([of], np.uint64))
    columns.count(len(confirms.copies))
    columns.bits(confirms.copies)
    columns.count(len(confirms.said))
    columns.bits(confirms.said & 1 != 0)
    columns.bits(confirms.said & 2 != 0)
    write_entries(columns, confirms.entries, first_number)
    _write_texts(columns, confirms.texts)
    return columns.body()


def read_combined_checksum(body: bytes) -> int:
    """The word for the answers that were heard, which `of` was when the body was written."""
    return int.from_bytes(body[:_OF_BYTES], "little")


def read_confirmations(columns: ColumnReader, first_number: int) -> ShardConfirmations:
    """Read the body. Raises ValueError."""
    columns.words(1)
    copies = columns.bits(columns.pages())
    pairs = columns.count(8 * columns.left)
    said = columns.bits(pairs) + 2 * columns.bits(pairs).astype(np.uint8)
    entries = PackedEntries(columns, first_number)
    return ShardConfirmations(said, entries.numbers, entries, _read_texts(columns, len(entries)), copies)


def _write_texts(columns: ColumnWriter, texts: SentTexts | None) -> None:
    columns.bits(np.full(8, texts is not None))
    if texts is None:
        return
    own = texts.own
    is_open = np.asarray(texts.sketch.any(axis=1))
    columns.words(texts.host)
    columns.numbers(texts.length)
    columns.numbers(own.site)
    columns.bits(is_open)
    columns.count(texts.sketch.shape[1])
    columns.words(texts.sketch[is_open].reshape(-1))
    columns.numbers(sizes_of(own.title_bounds))
    columns.numbers(own.titles)


def _read_texts(columns: ColumnReader, entries: int) -> SentTexts | None:
    if not columns.bits(8).all():
        return None
    host, length = columns.words(entries), columns.numbers(entries, 2**32 - 1).astype(np.uint32)
    site, is_open = columns.numbers(entries, 2**16 - 1).astype(np.uint16), columns.bits(entries)
    words = columns.count(MAX_SKETCH_WORDS)
    sketch = np.zeros((entries, words), np.uint64)
    sketch[is_open] = columns.words(int(is_open.sum()) * words).reshape(-1, words)
    bounds = checked_bounds(columns.numbers(entries, MOST_TITLE_WORDS), MOST_TITLE_WORDS * entries)
    titles = columns.numbers(int(bounds[-1]), 2**16 - 1).astype(np.uint16)
    none = np.zeros(entries, np.uint8)
    prints = np.empty(0, np.uint32), np.zeros(entries + 1, np.int64)
    own = OwnText(site, none, none.astype(np.uint16), *prints, titles, bounds)
    return SentTexts(host, length, sketch, own)
