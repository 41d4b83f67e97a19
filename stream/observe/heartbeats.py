"""Tells a process that works from one that stands still, by its event loop and the tasks of its threads."""

import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

BEAT_SECONDS = 1.0
LOOP_SECONDS = 30.0
"""An event loop that has not turned for so long is wedged: nothing of ours keeps it for more than part of a second."""
TASK_SECONDS = 120.0
"""A record of the log, or a micro-batch, takes seconds at most, also on a disk that others keep busy."""

P = ParamSpec("P")
T = TypeVar("T")


class Heartbeats:
    """What the health port asks. Any thread may call any method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat: float | None = None
        self._tasks: dict[str, float] = {}
        self._lock = threading.Lock()

    def beat(self) -> None:
        """The event loop has turned. From the first call on it must call again."""
        self._beat = self._clock()

    def stop(self) -> None:
        """The event loop has ended as it should."""
        self._beat = None

    def watched(self, name: str, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do the work in the thread of this name, and know meanwhile since when; -> what it returns."""
        with self._lock:
            self._tasks[name] = self._clock()
        try:
            return work(*arguments, **named)
        finally:
            with self._lock:
                del self._tasks[name]

    def problems(self) -> list[str]:
        """What stands still, in words for a person; nothing where all moves."""
        now, found = self._clock(), list[str]()
        beat = self._beat
        if beat is not None and now - beat > LOOP_SECONDS:
            found.append(f"the event loop has stood still for {now - beat:.0f} s")
        with self._lock:
            tasks = dict(self._tasks)
        found += [
            f"the thread that does `{name}` has been at one task for {now - since:.0f} s"
            for name, since in tasks.items()
            if now - since > TASK_SECONDS
        ]
        return found
