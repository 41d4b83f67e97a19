"""Cuts items into batches with a limit of items and of bytes; an item above the byte limit is alone in its batch."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


class FillLevel:
    """The size of the current batch, for loops that also cut batches for other reasons; all others use batches()."""

    def __init__(self, most_items: int, most_bytes: int) -> None:
        self._most_items, self._most_bytes = most_items, most_bytes
        self._items = self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether no further item fits into the batch."""
        return self._items >= self._most_items or self._bytes >= self._most_bytes

    def has_room(self, size: int) -> bool:
        """Whether an item of `size` bytes fits into the batch. An empty batch has room for any item."""
        return not self._items or (self._items < self._most_items and self._bytes + size <= self._most_bytes)

    def add(self, size: int) -> None:
        """Count an item of `size` bytes."""
        self._items += 1
        self._bytes += size

    def reset(self) -> None:
        """Start the next batch."""
        self._items = self._bytes = 0


def batches(
    items: Iterable[Item], most_items: int, most_bytes: int, size_of: Callable[[Item], int]
) -> Iterator[list[Item]]:
    """The items in order, in batches of at most most_items items and most_bytes bytes; a larger item is alone.

    size_of: bytes of an item. A full batch is yielded before the next item is read, so at most one further item is in
    memory. If reading an item raises an error, the items before it are yielded first.
    """
    level, batch = FillLevel(most_items, most_bytes), list[Item]()
    try:
        for item in items:
            size = size_of(item)
            if not level.has_room(size):
                yield batch
                level.reset()
                batch = []
            batch.append(item)
            level.add(size)
            if level.full:
                yield batch
                level.reset()
                batch = []
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
