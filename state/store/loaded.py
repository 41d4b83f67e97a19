"""Holds the parts of a state that stay in memory: source numbers, and offset ranges of pending verdicts.

Each topic or path is stored once, under its number. Partitions without pending verdicts cause no reads.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.meta import pending_verdict_key
from spotsieve.state.index import CommitMark, IndexUpdate
from spotsieve.stream.base.arrays import filled
from spotsieve.stream.base.page import PageId


class SourceAssignment(NamedTuple):
    """The source numbers of an index update.

    indexed: uint32[f], of the indexed pages  pending_verdicts: of the pending verdicts  new: sources to add
    """

    indexed: NDArray[np.uint32]
    pending_verdicts: list[int]
    new: list[str]


class SourceNumbers:
    """The sources of all indexed pages and pending verdicts. texts: by number"""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, text: str) -> int | None:
        """Return the number of a source, None for an unknown source."""
        return self._numbers.get(text)

    def add(self, text: str) -> None:
        """Give a source the next number."""
        self._numbers[text] = len(self.texts)
        self.texts.append(text)

    def number(self, index_update: IndexUpdate) -> SourceAssignment:
        """Number the sources of an update: first of indexed pages, then of pending verdicts, in the order of the pages.

        New sources are not added yet, because the write of the update may fail.
        """
        new = dict[str, int]()

        def numbered(text: str) -> int:
            known = self._numbers.get(text)
            return new.setdefault(text, len(self.texts) + len(new)) if known is None else known

        texts, learned = index_update.signatures.sources, index_update.learned
        pending = [page_id[0] for page_id in learned.page_ids] if learned else []
        only = self._numbers.get(texts[0]) if len(texts) == 1 else None
        if only is not None and not pending:
            return SourceAssignment(filled(len(index_update.pages), only, np.uint32), [], [])
        named = index_update.signatures.source[index_update.pages].tolist()
        number_of = {source: numbered(texts[source]) for source in dict.fromkeys(named)}
        pending_verdicts = list(map(numbered, pending))
        return SourceAssignment(
            np.array([number_of[source] for source in named], np.uint32), pending_verdicts, list(new)
        )


EVERY_PARTITION = -1
"""The partition of a commit mark that covers all pages of all sources."""


class KeyRange(NamedTuple):
    """A range of keys to remove: from first, before end."""

    first: bytes
    end: bytes


class PendingVerdictRanges:
    """The least and the greatest offset of the pending verdicts of each partition.

    Offsets of new pages are mostly greater than these, so new pages cause no reads.
    """

    def __init__(self) -> None:
        self._offsets: dict[tuple[int, int], tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def keys(self, page_ids: Sequence[PageId], sources: SourceNumbers) -> tuple[list[int], list[bytes]]:
        """Find the pages that may have a pending verdict -> their places in page_ids, and their keys."""
        places, keys = list[int](), list[bytes]()
        for place, (source, partition, offset) in enumerate(page_ids if self._offsets else ()):
            number = sources.of(source)
            span = None if number is None else self._offsets.get((number, partition))
            if number is not None and span is not None and span[0] <= offset <= span[1]:
                places.append(place)
                keys.append(pending_verdict_key(number, partition, offset))
        return places, keys

    def below(self, marks: Iterable[CommitMark], sources: SourceNumbers) -> list[KeyRange]:
        """Return the ranges of keys that the marks remove. A mark without pending verdicts below it gives no range."""
        ranges = list[KeyRange]()
        for source, partition, offset in marks:
            if partition == EVERY_PARTITION:
                spans = [(*place, span[1] + 1) for place, span in self._offsets.items()]
            else:
                number = sources.of(source)
                span = None if number is None else self._offsets.get((number, partition))
                spans = [] if number is None or span is None or offset <= span[0] else [(number, partition, offset)]
            ranges += [
                KeyRange(pending_verdict_key(number, place, 0), pending_verdict_key(number, place, end))
                for number, place, end in spans
            ]
        return ranges

    def commit(self, marks: Iterable[CommitMark], sources: SourceNumbers) -> None:
        """Note that the pending verdicts below the marks are removed."""
        for source, partition, offset in marks:
            if partition == EVERY_PARTITION:
                self._offsets.clear()
                continue
            number = sources.of(source)
            span = None if number is None else self._offsets.get((number, partition))
            if number is not None and span is not None:
                if offset > span[1]:
                    del self._offsets[number, partition]
                else:
                    self._offsets[number, partition] = (max(span[0], offset), span[1])

    def add(self, source: int, partition: int, offset: int) -> None:
        """Note a new pending verdict. source: number of its source"""
        least, greatest = self._offsets.get((source, partition), (offset, offset))
        self._offsets[source, partition] = (min(least, offset), max(greatest, offset))
