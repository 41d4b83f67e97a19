"""Packs the outcome of a round: the body of a record of kind 3. Workers commit by it, and shards file from it.

    body  = remembers u8, pages u32 (n), flags[n], reason[n], postings[n] (numbers), found_by, score (numbers and reals,
            of duplicates), original[n], replaced[n] (numbers), entries
    flags = verdict | filed << 2 | cut << 3 | new << 4 | what it taught << 5

`original` and `replaced` are 0 where there is none, else the entry number of the next page behind the round less that
of the entry. `remembers` is whether the scheme has a memory of hosts: new and taught mean something only then.
"""

import numpy as np

from spotsieve.state.index import NOBODY
from spotsieve.stream.judge.by_host.learning import TAUGHT_REST
from spotsieve.stream.sharding.records.columns import ColumnReader, ColumnWriter
from spotsieve.stream.sharding.records.entries import NamedEntries, PackedEntries, write_entries
from spotsieve.stream.sharding.resolving import RoundOutcome
from spotsieve.stream.signature import Entry
from spotsieve.stream.verdict import Kind, Reason, Verdicts

_FILED_BIT, _CUT_BIT, _NEW_BIT, _TAUGHT_BIT = 2, 3, 4, 5
_MOST_FLAGS = 2**7 - 1


def write_outcome(resolved: RoundOutcome) -> bytes:
    """Write the body."""
    columns, verdicts = ColumnWriter(), resolved.verdicts
    copies, pages = verdicts.kind == Kind.DUPLICATE, len(verdicts)
    taught = np.zeros(pages, np.uint8) if resolved.taught is None else resolved.taught
    new = np.zeros(pages, np.bool_) if resolved.is_new is None else resolved.is_new
    columns.bits(np.full(8, resolved.taught is not None))
    columns.count(pages)
    columns.numbers(
        verdicts.kind
        | (resolved.entry != NOBODY) << _FILED_BIT
        | verdicts.cut << _CUT_BIT
        | new << _NEW_BIT
        | taught << _TAUGHT_BIT
    )
    columns.numbers(verdicts.reason)
    columns.numbers(verdicts.candidates)
    columns.numbers(verdicts.found_by[copies])
    columns.reals(verdicts.score[copies])
    entries = dict[int, Entry]()
    for numbers, named in ((resolved.original, verdicts.originals), (resolved.replaced, verdicts.replaces)):
        columns.numbers(np.where(numbers == NOBODY, 0, resolved.next_number - numbers))
        told = zip(numbers.tolist(), named, strict=True)
        entries.update((number, entry) for number, entry in told if entry is not None)
    write_entries(columns, entries, resolved.next_number)
    return columns.body()


def read_outcome(columns: ColumnReader, first_number: int) -> RoundOutcome:
    """Read the body. first_number: of the round. Raises ValueError."""
    remembers, pages = bool(columns.bits(8).all()), columns.pages()
    flags = columns.numbers(pages, _MOST_FLAGS)
    kind = (flags & 3).astype(np.uint8)
    taught, new = (flags >> _TAUGHT_BIT).astype(np.uint8), flags >> _NEW_BIT & 1 != 0
    if (kind > max(Kind)).any() or (taught > TAUGHT_REST).any():
        raise ValueError
    indexed, copies = flags >> _FILED_BIT & 1 != 0, kind == Kind.DUPLICATE
    reason, postings = columns.numbers(pages, max(Reason)).astype(np.uint8), columns.numbers(pages)
    found_by, score = np.zeros(pages, np.uint8), np.full(pages, np.nan)
    found_by[copies] = columns.numbers(int(copies.sum()), 255)
    score[copies] = columns.reals(int(copies.sum()))
    next_number = first_number + int(indexed.sum())
    ages = columns.numbers(pages, next_number), columns.numbers(pages, next_number)
    original, replaced = (np.where(age == 0, NOBODY, next_number - age) for age in ages)
    entries = PackedEntries(columns, next_number)
    named = np.concatenate([original[copies], replaced[replaced != NOBODY]])
    if (original[copies] == NOBODY).any() or not np.isin(named, entries.numbers).all():
        raise ValueError
    verdicts = Verdicts(
        kind,
        reason,
        score,
        NamedEntries(entries, np.where(copies, original, NOBODY)),
        postings,
        found_by,
        flags >> _CUT_BIT & 1 != 0,
        NamedEntries(entries, replaced),
    )
    entry = np.where(indexed, first_number + np.cumsum(indexed) - 1, NOBODY)
    if not remembers:
        return RoundOutcome(verdicts, entry, next_number, original, replaced)
    return RoundOutcome(verdicts, entry, next_number, original, replaced, taught, new)
