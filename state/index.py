"""Owns what the judge sees of the state, and what it hands back to be filed; no store is imported here."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.signature import Compared, Entry, Signatures

if TYPE_CHECKING:
    from spotsieve.state.horizon import Clock


@dataclass(frozen=True, slots=True)
class Buckets:
    """The postings of u buckets, each in the order of filing (so entry numbers ascend).

    bounds: int64[u + 1]  numbers: uint64[p] (entry numbers)  inlines: uint64[p] (fingerprint, or second digest word)
    """

    bounds: NDArray[np.int64]
    numbers: NDArray[np.uint64]
    inlines: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def living(self, floor: int) -> "Buckets":
        """The same u buckets without the postings of entries below floor."""
        keep = self.numbers >= np.uint64(floor)
        if keep.all():
            return self
        kept = np.zeros(len(keep) + 1, np.int64)
        np.cumsum(keep, out=kept[1:])
        return Buckets(kept[self.bounds], self.numbers[keep], self.inlines[keep])

    def take(self, rows: NDArray[np.int64]) -> "Buckets":
        """These buckets, in this order: int64[r], each once and ascending -> r buckets."""
        sizes = np.diff(self.bounds)
        chosen = np.zeros(len(sizes), np.bool_)
        chosen[rows] = True
        postings = np.repeat(chosen, sizes)
        bounds = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(sizes[rows], out=bounds[1:])
        return Buckets(bounds, self.numbers[postings], self.inlines[postings])


@dataclass(frozen=True, slots=True)
class Filing:
    """What one record adds to the state.

    signatures: the record's pages  pages: int64[f], which of them are filed, ascending; they get the entry numbers
    first_number, first_number + 1, ...  template: uint32[f], their features that are taken for their host's template
    keys: uint64[c] and buckets: the WHOLE new contents of every bucket that grew
    capped: filings left out because their bucket was full (a page in no bucket at all is not filed)
    keeps_features: whether entries hold the features of their pages
    """

    signatures: Signatures
    pages: NDArray[np.int64]
    first_number: int
    template: NDArray[np.uint32]
    keys: NDArray[np.uint64]
    buckets: Buckets
    capped: int
    keeps_features: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """What forgetting pages takes out of the state.

    page_ids: r times (source, partition, offset)  numbers: uint64[r], of their entries, of which only the number stays
    keys: uint64[c] and buckets: the WHOLE new contents of every bucket that shrinks; one that becomes empty is gone
    """

    page_ids: tuple[tuple[str, int, int], ...]
    numbers: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    buckets: Buckets


class FiledPages(Protocol):
    """Entries of the state, read at once and decoded as far as they are asked for; e of them."""

    def compared(self, with_features: bool) -> Compared:
        """What a scheme confirms candidates by, of all e. Raises CorruptRecord.

        with_features: whether the scheme compares features; else their column is left empty.
        """

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """places: int64[a], each 0..e - 1 -> the filed pages. Raises CorruptRecord."""


class StateView(Protocol):
    """What judging reads."""

    @property
    def entry_count(self) -> int:
        """Number of pages ever filed; the next one gets this entry number."""

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """keys: uint64[u], all different -> their postings; a bucket never filed under is empty."""

    def filed(self, numbers: NDArray[np.uint64]) -> FiledPages:
        """numbers: uint64[e] -> the filed pages of these numbers. Raises CorruptRecord where one is missing."""


class State(StateView, Protocol):
    """A store of the index; a function of the log up to its position."""

    @property
    def position(self) -> int:
        """The next log offset to read: everything before it is applied."""

    @property
    def last_record(self) -> int:
        """Checksum of the last log record applied: which log it was. 0 before the first record.

        The record before the position; where pages_applied is not 0, the one at the position.
        """

    @property
    def pages_applied(self) -> int:
        """How many pages of the record at the position are applied: not 0 only after a crash between two runs."""

    @property
    def clock(self) -> "Clock":
        """How far event time has come; where there is no horizon, nowhere."""

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[tuple[str, int, int] | None]:
        """numbers: uint64[e] -> (source, partition, offset) of each, None where no entry has the number any more."""

    def remove(self, removal: Removal, position: int, last_record: int) -> None:
        """Take forgotten pages out and move the position, both or neither. Raises StateError."""

    def file(
        self,
        filing: Filing | None,
        position: int,
        last_record: int,
        pages_applied: int = 0,
        clock: "Clock | None" = None,
    ) -> None:
        """Apply a filing and move the position, both or neither. Raises StateError where it cannot be written.

        last_record: checksum of the record that ends at the position, or whose first pages_applied are applied
        clock: what it is now; entries below its floor are removed, and buckets swept (None: as it was)
        """

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Everything remembered, as (name, value) bytes in a fixed order, for comparing states; slow."""

    def stats(self) -> dict[str, int]:
        """Figures for metrics: entries (living ones), floor, watermark_ms, swept_buckets (since it was opened),
        position, bytes_on_disk, estimated_keys; more where cheap.
        """

    def checkpoint(self, path: Path) -> None:
        """Make a directory that holds the state as it is now, for a snapshot. Raises StateError."""

    def close(self) -> None:
        """Write what is buffered and let go of the directory."""


def states_equal(one: State, other: State) -> bool:
    """Whether two states hold the same, byte for byte."""
    return first_difference(one, other) is None


def first_difference(one: State, other: State) -> tuple[bytes, bytes, bytes] | None:
    """(name, value in one, value in other) where two states first differ; b"" where a side has ended."""
    left, right = one.items(), other.items()
    while True:
        a, b = next(left, None), next(right, None)
        if a is None and b is None:
            return None
        if a != b:
            name = min(pair[0] for pair in (a, b) if pair is not None)
            return name, a[1] if a and a[0] == name else b"", b[1] if b and b[0] == name else b""
