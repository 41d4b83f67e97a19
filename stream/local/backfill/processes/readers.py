"""Readers as forked processes, called through pipes."""

import contextlib
import pickle
import queue
import signal
import threading
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.local.backfill.processes.server import CONTEXT
from spotsieve.stream.local.backfill.reader import Reader
from spotsieve.stream.local.backfill.schedule import Call, LostReader

_END_S = 5.0
"""Grace period before a reader that does not end is killed."""


class ProcessReaders:
    """Readers that are processes of this machine. They end with the context, and with this process."""

    def __init__(self, count: int, settings: Settings) -> None:
        self.count = count
        self._settings = settings
        self.processes = list[_Process]()
        with contextlib.ExitStack() as stack:
            stack.push(self)
            for _ in range(count):
                self.processes.append(_Process(settings))
            stack.pop_all()

    def call(self, reader: int, method: str, *arguments: object) -> Call:
        return self.processes[reader].call(method, arguments)

    def renew(self, reader: int) -> None:
        self.processes[reader].end()
        self.processes[reader] = _Process(self._settings)

    def wait(self, calls: Sequence[Call], seconds: float) -> None:
        waiting = {call.process for call in calls if isinstance(call, _ProcessCall)}
        wait([process.connection for process in waiting], seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.connection.close()  # Close all pipes first, so that the processes end in parallel.
        for process in self.processes:
            process.end()


class _Process:
    """One reader. Results arrive in the order of the calls."""

    def __init__(self, settings: Settings) -> None:
        self.connection, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_read, args=(theirs, settings), daemon=True)
        self.process.start()
        theirs.close()
        self._waiting = deque[_ProcessCall]()

    def call(self, method: str, arguments: tuple[object, ...]) -> "_ProcessCall":
        made = _ProcessCall(self)
        self._waiting.append(made)
        try:
            self.connection.send((method, arguments))
        except OSError:
            self._lose()
        return made

    def take(self, call: "_ProcessCall", *, may_wait: bool) -> None:
        """Receive results up to the one of this call. may_wait: whether to wait for results that have not arrived"""
        try:
            while not call.is_answered and (may_wait or self.connection.poll()):
                self._answer_next()
        except (EOFError, OSError):
            self._lose()

    def _answer_next(self) -> None:
        written = self.connection.recv_bytes()
        try:
            answer = pickle.loads(written)
        except Exception as error:  # The exception of the reader cannot be unpickled. The call raises that.
            answer = False, error
        answered = self._waiting.popleft()
        answered.answer, answered.is_answered = answer, True

    def end(self) -> None:
        """Close the pipe, which ends the process, and kill it if it does not end in time."""
        self.connection.close()
        self.process.join(_END_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()

    def _lose(self) -> None:
        while self._waiting:
            call = self._waiting.popleft()
            call.answer, call.is_answered = (False, LostReader()), True


class _ProcessCall:
    """A call of a reader. answer: whether it succeeded, and its result or exception"""

    def __init__(self, process: _Process) -> None:
        self.process = process
        self.answer: tuple[bool, Any] = (False, None)
        self.is_answered = False

    def ready(self) -> bool:
        self.process.take(self, may_wait=False)
        return self.is_answered

    def result(self) -> Any:
        self.process.take(self, may_wait=True)
        succeeded, result = self.answer
        if not succeeded:
            raise result
        return result


def _read(connection: Connection, settings: Settings) -> None:
    """Run the calls that arrive through the pipe, until it is closed."""
    # Ctrl-C stops the command, and the command stops its readers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    calls = queue.SimpleQueue[tuple[str, tuple[object, ...]] | None]()
    # A thread receives calls at once. Otherwise both sides could block on writes to full pipes.
    threading.Thread(target=_take_calls, args=(connection, calls), daemon=True).start()
    with contextlib.closing(Reader(settings)) as reader, contextlib.suppress(OSError):
        while (call := calls.get()) is not None:
            method, arguments = call
            try:
                answer: tuple[bool, object] = (True, getattr(reader, method)(*arguments))
            except Exception as error:  # The caller raises it.
                answer = (False, error)
            connection.send(answer)


def _take_calls(connection: Connection, calls: "queue.SimpleQueue[tuple[str, tuple[object, ...]] | None]") -> None:
    try:
        while True:
            calls.put(connection.recv())
    except (EOFError, OSError):
        calls.put(None)
