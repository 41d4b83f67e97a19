"""Answers other processes that ask for a checkpoint while the owner of a state has nothing to judge.

The filter and the service answer between two batches. A program may add no page for hours.
"""

import threading
import weakref
from typing import Self

from spotsieve.stream.local.local_engine import LocalEngine

EVERY_S = 0.25


class IdleOwner:
    """A thread that looks for requests, under the lock of whoever judges. It ends with stop(), or with the engine."""

    def __init__(self, engine: LocalEngine, lock: threading.Lock) -> None:
        # Weak, so that a program that forgets to close its engine does not keep it for ever.
        self._engine = weakref.ref(engine)
        self._lock = lock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spotsieve-idle-owner", daemon=True)

    def start(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Look no more. Call it without the lock, and before the engine is closed."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_S):
            with self._lock:
                engine = self._engine()
                if engine is None or self._stopped.is_set():
                    return
                engine.answer_requests()
                del engine
