"""The key-value interface that a state is stored through: families of keys and values in bytes, and atomic batches.

Keys of a family are in the order of their bytes. Three backends implement it: RocksDB, memory, and a read-only
checkpoint. None of them knows the meaning of a value; state/store/state.py does.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

META = "default"
"""The family of the meta values. RocksDB has a family of this name in every database."""
FAMILIES = ("buckets", "entries", "sources", "hosts", "attempts")
"""All other families, in the order in which states are compared."""


class Put(NamedTuple):
    """Writes a value under each of these keys."""

    family: str
    keys: Sequence[bytes]
    values: Sequence[bytes]


class Deletion(NamedTuple):
    """Deletes these keys. A key that is not there is passed over."""

    family: str
    keys: Sequence[bytes]


class RangeDeletion(NamedTuple):
    """Deletes every key from the first on, before the end."""

    family: str
    first: bytes
    end: bytes


class Batch:
    """Changes that a backend applies all or none, in this order."""

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
        """Delete every key from the first on, before the end."""
        self.changes.append(RangeDeletion(family, first, end))


class Backend(ABC):
    """Families of keys and values. One thread at a time may use it.

    Every method raises StateError where the disk fails, and CorruptRecord where a block is damaged. directory: the
    state directory, for messages
    """

    directory: Path

    @abstractmethod
    def get(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, None for a key that is not there."""

    def get_sorted(self, family: str, keys: Sequence[bytes]) -> tuple[list[bytes | None], bool]:
        """Return the values of many ascending keys, and whether it took one pass over the whole family."""
        return self.get(family, keys), False

    @abstractmethod
    def next_items(self, family: str, first: bytes, most: int) -> tuple[list[bytes], list[bytes]]:
        """Return the next keys from the first on, at most so many, and their values."""

    @abstractmethod
    def scan(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Give every key and value in the order of the keys."""

    def values(self, family: str) -> Iterator[bytes]:
        """Give every value in the order of the keys. A backend may end early at a damaged block: count the values."""
        return (value for _, value in self.scan(family))

    @abstractmethod
    def keys_down(self, family: str, last: bytes | None = None) -> Iterator[bytes]:
        """Give every key in descending order, from the last one allowed down. last: None for the greatest key"""

    @abstractmethod
    def estimated_keys(self, family: str) -> int:
        """Return about how many keys a family has, in microseconds."""

    @abstractmethod
    def write(self, batch: Batch, *, durable: bool = False) -> None:
        """Apply all changes of a batch, or none. durable: return when it would survive a power failure"""

    @abstractmethod
    def figures(self) -> dict[str, int]:
        """Return bytes_on_disk and figures of its own, in microseconds."""

    @abstractmethod
    def compact(self) -> int:
        """Merge everything as in a state at rest, and return the bytes of the table files."""

    @abstractmethod
    def checkpoint(self, path: Path) -> None:
        """Make a directory that holds the content as it is now."""

    @abstractmethod
    def sync(self) -> None:
        """Return when everything written would survive a power failure."""

    @abstractmethod
    def close(self) -> None:
        """Write what is buffered and release the directory. Closing twice does nothing."""
