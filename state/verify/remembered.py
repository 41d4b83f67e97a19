"""Verifies what a state remembers besides filed pages: the memories of hosts, and attempts."""

from dataclasses import dataclass

import numpy as np

from spotsieve.state.format.attempts import KEY_BYTES, decode_attempt, page_of_key
from spotsieve.state.format.host_memory import decode_memories
from spotsieve.state.format.keys import decode_keys
from spotsieve.state.format.meta import Part
from spotsieve.state.sweep import Sweep
from spotsieve.state.verify.findings import Findings
from spotsieve.stream.errors import SpotsieveError
from spotsieve.stream.sharding.shares import shards_of


@dataclass(frozen=True, slots=True)
class Remembered:
    """Checks memories and attempts. entries, sources: how many there are  sweep: how far that over memories has come

    part: the shard that the state is of, None where it is of one process
    """

    found: Findings
    entries: int
    sources: int
    sweep: Sweep
    part: Part | None = None

    def check_memories(self, keys: list[bytes], values: list[bytes]) -> None:
        """Check a batch of memories, whose keys have the right length."""
        self.found.checked["hosts"] += len(keys)
        try:
            self._memories(keys, values)
        except SpotsieveError:
            for key, value in zip(keys, values, strict=True):
                try:
                    self._memories([key], [value])
                except SpotsieveError as error:
                    self.found.add_error(error)

    def check_attempt(self, key: bytes, value: bytes) -> None:
        """Check an attempt."""
        self.found.checked["attempts"] += 1
        if len(key) != KEY_BYTES:
            self.found.add(f"attempts[{key.hex()}]", f"must have a key of {KEY_BYTES} bytes")
            return
        try:
            attempt = decode_attempt(key, value)
        except SpotsieveError as error:
            self.found.add_error(error)
            return
        if page_of_key(key)[0] >= self.sources or attempt.original >= self.entries:
            self.found.add(f"attempts[{key.hex()}]", "must name a source and an entry that existed")

    def _memories(self, keys: list[bytes], values: list[bytes]) -> None:
        hosts = decode_keys(keys)
        memories = decode_memories(hosts, values)
        beyond = (memories.last > self.entries) | (memories.first > memories.last.astype(np.int64))
        for place in np.flatnonzero(beyond).tolist():
            self.found.add(f"hosts[{keys[place].hex()}]", f"must have learned at one of {self.entries} entries")
        if self.part is not None:
            for place in np.flatnonzero(shards_of(hosts, self.part.shards) != self.part.number).tolist():
                self.found.add(f"hosts[{keys[place].hex()}]", f"must belong to {self.part}, not to another")
        swept = hosts < self.sweep.next_key if self.sweep.next_key else np.ones(len(hosts), np.bool_)
        for place in np.flatnonzero(swept & (memories.last < self.sweep.floor)).tolist():
            self.found.add(
                f"hosts[{keys[place].hex()}]",
                f"must have learned from entry {self.sweep.floor} on, as the sweep has passed, "
                f"did so at {int(memories.last[place])}",
            )
