"""A service whose state shards hold together: its processes on a real broker, and what they said against the log."""

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.worlds.brokers.topics import TopicSet
from tests.worlds.services.oracle import check_verdicts_sent
from tests.worlds.services.service import Spotsieve
from tests.worlds.waiting import START_SECONDS, wait_until

TAKEN = "this resolver works from now on"


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
        """Start all of them, and wait until the workers are ready; a resolver may stand by."""
        for process in self.processes.values():
            process.start()
        for name, process in self.processes.items():
            if not name.startswith("resolver"):
                process.until_ready()
        return self

    def check(self, keys: Collection[bytes]) -> None:
        """Check that each page has a verdict, once, and that of the log judged by one process."""
        check_verdicts_sent(self.topics, self.toml, keys)

    def active(self) -> Spotsieve:
        """The resolver that works."""

        def working() -> Spotsieve | None:
            told = [one for name, one in self.processes.items() if name.startswith("resolver") and TAKEN in one.text()]
            return next((one for one in told if one.alive.poll() is None), None)

        return wait_until(working, START_SECONDS, "a resolver to work")

    def stop(self) -> None:
        """End all of them cleanly."""
        running = [process for process in self.processes.values() if process.alive.poll() is None]
        for process in running:
            process.alive.terminate()
        for process in running:
            assert process.wait() == 0, process.text()
