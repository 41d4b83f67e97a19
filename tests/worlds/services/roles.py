"""A service with a sharded state: its processes on a real broker, and a check of their verdicts against the log."""

import contextlib
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.sharding.records.frame import KIND_OUTCOME, RoundRange, decode_round_record
from tests.worlds.brokers.topics import TopicSet
from tests.worlds.services.oracle import check_verdicts_sent, settings_from
from tests.worlds.services.service import Spotsieve
from tests.worlds.waiting import SECONDS, START_SECONDS, wait_until

TAKEN = "this resolver is active from now on"
STARTING = ("compiling kernels", "opening the state")
"""Text of /readyz before a process receives SIGTERM."""


class Roles:
    """W workers, S shards and R resolvers; as a context manager they never outlive the block."""

    def __init__(self, directory: Path, topics: TopicSet, workers: int, shards: int, resolvers: int, toml: str) -> None:
        self.topics, self.toml = topics, toml
        of = {
            **{f"worker-{number}": ("--role", "worker") for number in range(workers)},
            **{f"shard-{number}": ("--role", "shard", "--shard", str(number)) for number in range(shards)},
            **{f"resolver-{number}": ("--role", "resolver") for number in range(resolvers)},
        }
        self.processes = {name: Spotsieve(directory, toml, name, ("run", *arguments)) for name, arguments in of.items()}
        self._stack = ExitStack()

    def __getitem__(self, name: str) -> Spotsieve:
        return self.processes[name]

    def __enter__(self) -> Self:
        for process in self.processes.values():
            self._stack.enter_context(process)
        return self

    def __exit__(self, *told: object) -> None:
        self._stack.close()

    def start(self) -> Self:
        """Start all of them, and wait until the workers are ready; one resolver may be on standby."""
        for process in self.processes.values():
            process.start()
        for name, process in self.processes.items():
            if not name.startswith("resolver"):
                process.until_ready()
        return self

    def check(self, keys: Collection[bytes]) -> None:
        """Check that each page has exactly one verdict, and that it equals the single-process verdict."""
        check_verdicts_sent(self.topics, self.toml, keys)

    def active(self, but: Spotsieve | None = None) -> Spotsieve:
        """The active resolver: of the running ones, the one that took over last. but: a resolver to exclude"""

        def working() -> Spotsieve | None:
            living = [one for name, one in self.processes.items() if name.startswith("resolver") and one is not but]
            took = {
                str(line["timestamp"]): one
                for one in living
                if one.alive.poll() is None
                for line in one.lines()
                if line.get("event") == TAKEN
            }
            return took[max(took)] if took else None

        return wait_until(working, START_SECONDS, "a resolver to work")

    def until_answered(self, shard: int, act: Callable[[], object]) -> None:
        """Do something that begins a round, and wait until this shard has responded in it."""
        before = self.topics.ends("matches")[shard]
        act()
        wait_until(lambda: self.topics.ends("matches")[shard] > before, SECONDS, f"an answer of shard {shard}", 0.2)

    def outcomes(self) -> list[RoundRange]:
        """The ranges of all rounds that have an outcome, in the order of `verdicts`."""
        settings = settings_from(self.toml)
        digest = settings_digest(verdict_settings_text(settings))
        told = [
            decode_round_record(record.value or b"", digest, settings.cluster.shards, record.topic, record.offset)
            for record in self.topics.read("verdicts")
        ]
        return [one.range for one in told if one.kind == KIND_OUTCOME]

    def stop(self) -> None:
        """End all of them cleanly, as soon as those that have just been restarted can."""
        running = [process for process in self.processes.values() if process.alive.poll() is None]
        for process in running:
            # While a process still compiles kernels, SIGTERM ends it at once, and not cleanly.
            wait_until(partial(_has_begun, process), START_SECONDS, f"{process.name} to begin")
            process.alive.terminate()
        for process in running:
            assert process.wait() == 0, process.text()


def _has_begun(process: Spotsieve) -> bool:
    """Whether it works or is on standby, or has ended."""
    if process.alive.poll() is not None:
        return True
    with contextlib.suppress(OSError):
        status, text = process.get("/readyz")
        return status == 200 or not any(step in text for step in STARTING)
    return False
