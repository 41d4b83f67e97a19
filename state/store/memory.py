"""Stores a state in memory, with the interface of a state on disk: for libraries, trials and tests."""

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path

from spotsieve.state.format.meta import STATE_FORMAT, Identity, LogIdentity
from spotsieve.state.store.backend import FAMILIES, META, Backend, Batch, Put, RangeDeletion
from spotsieve.state.store.memory_buckets import MemoryBuckets
from spotsieve.state.store.state import State, begin_state
from spotsieve.stream.base.errors import StateError


class MemoryBackend(Backend):
    """A dictionary for each family. Its content is lost when the process ends."""

    def __init__(self) -> None:
        self.directory = Path("memory")
        self._families: dict[str, dict[bytes, bytes]] = {name: {} for name in (META, *FAMILIES)}

    def get(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, None for a missing key."""
        return list(map(self._families[family].get, keys))

    def next_items(self, family: str, first: bytes, most: int) -> tuple[list[bytes], list[bytes]]:
        """Return up to `most` keys from first on, and their values."""
        stored = self._families[family]
        keys = heapq.nsmallest(most, (key for key in stored if key >= first))
        return keys, [stored[key] for key in keys]

    def scan(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value in the order of the keys."""
        return iter(sorted(self._families[family].items()))

    def keys_down(self, family: str, last: bytes | None = None) -> Iterator[bytes]:
        """Yield every key in descending order, starting at or below `last`."""
        return iter(sorted((key for key in self._families[family] if last is None or key <= last), reverse=True))

    def estimated_keys(self, family: str) -> int:
        """Return the number of keys in a family."""
        return len(self._families[family])

    def write(self, batch: Batch, *, durable: bool = False) -> None:  # noqa: ARG002 - nothing survives the process
        """Apply all changes of a batch."""
        for change in batch.changes:
            stored = self._families[change.family]
            if isinstance(change, Put):
                stored.update(zip(change.keys, change.values, strict=True))
                continue
            if isinstance(change, RangeDeletion):
                keys: Sequence[bytes] = [key for key in stored if change.first <= key < change.end]
            else:
                keys = change.keys
            for key in keys:
                stored.pop(key, None)

    def figures(self) -> dict[str, int]:
        """Return bytes_on_disk, which is 0."""
        return {"bytes_on_disk": 0}

    def compact(self) -> int:
        """Return 0: there are no files to merge."""
        return 0

    def checkpoint(self, path: Path) -> None:
        """Raise StateError: a state in memory has no files."""
        raise StateError("state", "must be on disk to be snapshot", str(path), "open it in a directory")

    def sync(self) -> None:
        """Do nothing: nothing survives the process."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def memory_state(log: LogIdentity | None = None) -> State:
    """Return a new state in memory. Its postings are in a compiled hash table, without encoding.

    log: the identity of the log; None: the state has no log, and the salt 0
    """
    backend = MemoryBackend()
    identity = Identity(STATE_FORMAT, "{}", "memory", log_identity=log)
    return State(backend, MemoryBuckets(), begin_state(backend, identity))
