"""Tells a process that works from one that stands still, by its event loop and the tasks of its threads."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

BEAT_SECONDS = 1.0
LOOP_SECONDS = 30.0
"""An event loop that has not turned for so long is wedged: nothing of ours keeps it for more than part of a second."""
TASK_SECONDS = 120.0
"""A record of the log, or a micro-batch, takes seconds at most, also on a disk that others keep busy."""

P = ParamSpec("P")
T = TypeVar("T")


class _Task(NamedTuple):
    """Work that goes on. since: by the clock  thread: its identifier"""

    since: float
    thread: int


class Heartbeats:
    """What the health port asks. Any thread may call any method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat: float | None = None
        self._loop_thread: int | None = None
        self._tasks: dict[str, _Task] = {}
        self._lock = threading.Lock()

    def beat(self) -> None:
        """The event loop, whose thread calls, has turned. From the first call on it must call again."""
        self._beat, self._loop_thread = self._clock(), threading.get_ident()

    def stop(self) -> None:
        """The event loop has ended as it should."""
        self._beat = None

    def watched(self, name: str, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do the work of this name in the caller's thread, and know meanwhile since when; -> what it returns."""
        with self._lock:
            self._tasks[name] = _Task(self._clock(), threading.get_ident())
        try:
            return work(*arguments, **named)
        finally:
            with self._lock:
                del self._tasks[name]

    def problems(self) -> list[str]:
        """What stands still, in words for a person; nothing where all moves."""
        now, found = self._clock(), list[str]()
        with self._lock:
            beat, tasks = self._beat, dict(self._tasks)
        if beat is not None and now - beat > LOOP_SECONDS:
            at = "".join(f", at `{name}`" for name, task in tasks.items() if task.thread == self._loop_thread)
            found.append(f"the event loop has stood still for {now - beat:.0f} s{at}")
        found += [
            f"the thread that does `{name}` has been at one task for {now - task.since:.0f} s"
            for name, task in tasks.items()
            if now - task.since > TASK_SECONDS
        ]
        return found
