"""Defines the key-value interface of the store: families of keys and values in bytes, and atomic batches.

Keys of a family are in the order of their bytes. Three backends implement the interface: RocksDB, memory, and a
read-only checkpoint. Backends do not interpret values; state/store/state.py does.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

META = "default"
"""The family of the meta values. RocksDB has a family of this name in every database."""
FAMILIES = ("buckets", "entries", "sources", "hosts", "attempts", "common")
"""The other families, in the order in which states are compared."""


class Put(NamedTuple):
    """Writes a value under each of these keys."""

    family: str
    keys: Sequence[bytes]
    values: Sequence[bytes]


class Deletion(NamedTuple):
    """Deletes these keys. Missing keys are skipped."""

    family: str
    keys: Sequence[bytes]


class RangeDeletion(NamedTuple):
    """Deletes every key from first, before end."""

    family: str
    first: bytes
    end: bytes


class Batch:
    """Changes that a backend applies in this order, all or none."""

    def __init__(self) -> None:
        self.changes: list[Put | Deletion | RangeDeletion] = []

    def put(self, family: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Write a value under each key."""
        if keys:
            self.changes.append(Put(family, keys, values))

    def delete(self, family: str, keys: Sequence[bytes]) -> None:
        """Delete keys."""
        if keys:
            self.changes.append(Deletion(family, keys))

    def delete_range(self, family: str, first: bytes, end: bytes) -> None:
        """Delete every key from first, before end."""
        self.changes.append(RangeDeletion(family, first, end))


class Backend(ABC):
    """Families of keys and values. Not thread-safe.

    Every method raises StateError if the disk fails, and CorruptRecord if a block is damaged.
    directory: the state directory, for messages
    """

    directory: Path

    @abstractmethod
    def get(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, None for a missing key."""

    def get_sorted(self, family: str, keys: Sequence[bytes]) -> tuple[list[bytes | None], bool]:
        """Return the values of many ascending keys, and whether it took one pass over the whole family."""
        return self.get(family, keys), False

    @abstractmethod
    def next_items(self, family: str, first: bytes, most: int) -> tuple[list[bytes], list[bytes]]:
        """Return up to `most` keys from first on, and their values."""

    @abstractmethod
    def scan(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value in the order of the keys."""

    def values(self, family: str) -> Iterator[bytes]:
        """Yield every value in the order of the keys. A backend may end early at a damaged block: count the values."""
        return (value for _, value in self.scan(family))

    @abstractmethod
    def keys_down(self, family: str, last: bytes | None = None) -> Iterator[bytes]:
        """Yield every key in descending order, starting at or below `last`. None: from the greatest key"""

    @abstractmethod
    def estimated_keys(self, family: str) -> int:
        """Return an estimate of the number of keys in a family, in microseconds."""

    @abstractmethod
    def write(self, batch: Batch, *, durable: bool = False) -> None:
        """Apply all changes of a batch, or none. durable: sync, so that the batch survives a power failure"""

    @abstractmethod
    def figures(self) -> dict[str, int]:
        """Return bytes_on_disk and further numbers of the backend, in microseconds."""

    @abstractmethod
    def compact(self) -> int:
        """Compact completely, and return the bytes of the table files."""

    @abstractmethod
    def checkpoint(self, path: Path) -> None:
        """Write a checkpoint of the present content into a new directory."""

    @abstractmethod
    def sync(self) -> None:
        """Sync all writes, so that they survive a power failure."""

    @abstractmethod
    def close(self) -> None:
        """Flush buffered writes and release the directory. Closing twice does nothing."""
