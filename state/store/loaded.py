"""Holds what a store keeps loaded of its state: the number of each source, and the partitions that have attempts.

Each topic or path is stored once, under its number. Partitions without attempts cause no reads.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.meta import pending_verdict_key
from spotsieve.state.index import CommitMark, IndexUpdate
from spotsieve.stream.base.page import PageId


class SourceAssignment(NamedTuple):
    """indexed: uint32[f], the source number of each filed page  pending_verdicts: those of these  new: sources to
    add
    """

    indexed: NDArray[np.uint32]
    pending_verdicts: list[int]
    new: list[str]


class SourceNumbers:
    """The sources of all filed pages and attempts. texts: by number"""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, text: str) -> int | None:
        """Return the number of a source, None if no remembered page named it."""
        return self._numbers.get(text)

    def add(self, text: str) -> None:
        """Give a source the next number."""
        self._numbers[text] = len(self.texts)
        self.texts.append(text)

    def number(self, index_update: IndexUpdate) -> SourceAssignment:
        """Number the sources of a index_update: those of filed pages in their order, then of attempts in theirs.

        The new ones are not added yet: if the filing cannot be written, nothing of it may be remembered.
        """
        new = dict[str, int]()

        def numbered(text: str) -> int:
            known = self._numbers.get(text)
            return new.setdefault(text, len(self.texts) + len(new)) if known is None else known

        texts, named = index_update.signatures.sources, index_update.signatures.source[index_update.pages].tolist()
        number_of = {source: numbered(texts[source]) for source in dict.fromkeys(named)}
        pending_verdicts = (
            [numbered(page_id[0]) for page_id in index_update.learned.page_ids] if index_update.learned else []
        )
        return SourceAssignment(
            np.array([number_of[source] for source in named], np.uint32), pending_verdicts, list(new)
        )


EVERY_PARTITION = -1
"""The partition of a mark that commits all pages of all sources."""


class KeyRange(NamedTuple):
    """Keys that are removed at once: from the first on, before the end."""

    first: bytes
    end: bytes


class PendingVerdictRanges:
    """The least and the greatest offset of the attempts of each partition. It stays small: partitions are few.

    Offsets of new pages are mostly greater than all that are remembered, so nothing is read for them.
    """

    def __init__(self) -> None:
        self._offsets: dict[tuple[int, int], tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def keys(self, page_ids: Sequence[PageId], known: SourceNumbers) -> tuple[list[int], list[bytes]]:
        """Find the pages that may have an attempt -> their places in page_ids, and their keys."""
        places, keys = list[int](), list[bytes]()
        for place, (source, partition, offset) in enumerate(page_ids if self._offsets else ()):
            number = known.of(source)
            held = None if number is None else self._offsets.get((number, partition))
            if number is not None and held is not None and held[0] <= offset <= held[1]:
                places.append(place)
                keys.append(pending_verdict_key(number, partition, offset))
        return places, keys

    def below(self, marks: Iterable[CommitMark], known: SourceNumbers) -> list[KeyRange]:
        """Return what the marks remove, as ranges of keys. Marks below which nothing is held give none."""
        ranges = list[KeyRange]()
        for source, partition, offset in marks:
            if partition == EVERY_PARTITION:
                spans = [(*place, held[1] + 1) for place, held in self._offsets.items()]
            else:
                number = known.of(source)
                held = None if number is None else self._offsets.get((number, partition))
                spans = [] if number is None or held is None or offset <= held[0] else [(number, partition, offset)]
            ranges += [
                KeyRange(pending_verdict_key(number, place, 0), pending_verdict_key(number, place, end))
                for number, place, end in spans
            ]
        return ranges

    def commit(self, marks: Iterable[CommitMark], known: SourceNumbers) -> None:
        """Take note that the attempts below the marks are removed."""
        for source, partition, offset in marks:
            if partition == EVERY_PARTITION:
                self._offsets.clear()
                continue
            number = known.of(source)
            held = None if number is None else self._offsets.get((number, partition))
            if number is not None and held is not None:
                if offset > held[1]:
                    del self._offsets[number, partition]
                else:
                    self._offsets[number, partition] = (max(held[0], offset), held[1])

    def add(self, source: int, partition: int, offset: int) -> None:
        """Take note of an attempt. source: its number"""
        least, greatest = self._offsets.get((source, partition), (offset, offset))
        self._offsets[source, partition] = (min(least, offset), max(greatest, offset))
