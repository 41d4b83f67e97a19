"""The worker of the crash matrix: the unchanged service, killed (SIGKILL) at one step of its pipeline.

    python -m tests.worlds.services.killed_at POINT N [frozen] -c CONFIG

runs `spotsieve run -c CONFIG`. Once armed, it kills itself after the N-th call of the step POINT, and logs that first.
With `frozen` it stops there (SIGSTOP) and can be thawed.
The file CONFIG.armed arms it, so that a test controls which pages are hit. The product has no hooks for this: the
step's function is replaced by name, and an outdated name ends the process with an AttributeError.
"""

import functools
import importlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAID = "killed at the step {!r}"
FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class Point:
    """A step of the pipeline, done once its function has returned.

    exactly_once, at_least_once: the function that does it (module:name); None if a guarantee has no such step
    requests: classes of the only requests that count, if the function sends any request
    """

    name: str
    about: str
    exactly_once: str | None
    at_least_once: str | None
    requests: frozenset[str] = frozenset()

    def function(self, guarantee: str) -> str | None:
        """The function of the step under this guarantee, as module:name; None without such a step."""
        function: str | None = getattr(self, guarantee)
        return function


def _same(name: str, about: str, function: str) -> Point:
    return Point(name, about, function, function)


POINTS = (
    _same(
        "fetched",
        "pages are fetched and cut into micro-batches",
        "spotsieve.stream.service.pages.fetcher:micro_batches",
    ),
    _same("signed", "a micro-batch is signed", "spotsieve.stream.service.worker:sign"),
    _same(
        "appended", "its signatures are in the log", "spotsieve.stream.service.log.signature_log:SignatureLog.append"
    ),
    _same("probed", "candidates in the state are found", "spotsieve.stream.judge.by_host.resolution:find_candidates"),
    _same("resolved", "every page of the record has its verdict", "spotsieve.stream.engine:judge_record"),
    _same("filed", "novel pages and log position are in the state", "spotsieve.state.store.state:State.file"),
    Point("transaction begun", "nothing is sent in it yet", "aiokafka:AIOKafkaProducer.begin_transaction", None),
    _same("outputs sent", "the broker has acknowledged the outputs", "spotsieve.stream.service.pages.commit:deliver"),
    Point(
        "offsets sent",
        "the transaction has the input offsets",
        "aiokafka:AIOKafkaProducer.send_offsets_to_transaction",
        None,
    ),
    Point(
        "commit asked",
        "the request is on its way, its outcome unknown",
        "aiokafka.conn:AIOKafkaConnection.send",
        "aiokafka.conn:AIOKafkaConnection.send",
        frozenset({"EndTxnRequest", "OffsetCommitRequest"}),
    ),
    Point(
        "committed",
        "the broker has acknowledged it, the worker has not noted it",
        "aiokafka:AIOKafkaProducer.commit_transaction",
        "aiokafka:AIOKafkaConsumer.commit",
    ),
    _same(
        "after commit", "the worker has noted and counted it", "spotsieve.stream.service.pages.commit:Committer._count"
    ),
)
"""In the order of the pipeline; outputs and offsets of a transaction are sent concurrently."""


def point_named(name: str) -> Point:
    """The point of this name. Raises KeyError for an unknown name."""
    return {point.name: point for point in POINTS}[name]


def armed_by(config: Path) -> Path:
    """The file whose existence arms a worker with this configuration."""
    return config.with_suffix(".armed")


def owner_of(function: str) -> tuple[Any, str]:
    """The module or class that holds a function named as module:name, and its name there."""
    module, _, path = function.partition(":")
    *owners, name = path.split(".")
    return functools.reduce(getattr, owners, importlib.import_module(module)), name


class Killer:
    """Counts the calls of a step while armed. The last one kills the process, or stops it with another signal."""

    def __init__(self, point: Point, count: int, armed: Path, by: signal.Signals = signal.SIGKILL) -> None:
        self._by = by
        self._point = point
        self._left = count
        self._armed = armed
        self._lock = threading.Lock()

    def patch(self, function: str) -> None:
        """Replace a function by a counting wrapper. Raises AttributeError for an unknown name."""
        owner, name = owner_of(function)
        setattr(owner, name, self._counting(getattr(owner, name)))

    def _counting(self, step: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(step):

            @functools.wraps(step)
            async def counted_async(*arguments: Any, **named: Any) -> Any:
                done = await step(*arguments, **named)
                self._did(arguments, done)
                return done

            return counted_async

        @functools.wraps(step)
        def counted(*arguments: Any, **named: Any) -> Any:
            done = step(*arguments, **named)
            self._did(arguments, done)
            return done

        return counted

    def _did(self, arguments: tuple[Any, ...], done: object) -> None:
        if (isinstance(done, list) and not done) or not self._armed.exists():
            return  # A fetch without pages is no step of the pipeline.
        if self._point.requests and type(arguments[1]).__name__ not in self._point.requests:
            return
        with self._lock:
            self._left -= 1
            if not self._left:
                # Written unbuffered, right before the end: a worker killed for another reason does not write this.
                os.write(2, (SAID.format(self._point.name) + "\n").encode())
                os.kill(os.getpid(), self._by)


def main(arguments: list[str]) -> int:
    """Patch the step, then run `spotsieve run`; returns its exit code."""
    from spotsieve.stream.base.settings.load import load_settings
    from spotsieve.stream.cli import main as spotsieve

    name, count, *how, _, config = arguments
    point = point_named(name)
    function = point.function(load_settings(Path(config), {}, {}).service.guarantee)
    assert function is not None, f"{name} is no step of this guarantee"
    by = signal.SIGSTOP if how == [FROZEN] else signal.SIGKILL
    Killer(point, int(count), armed_by(Path(config)), by).patch(function)
    return spotsieve(["run", "-c", config])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
