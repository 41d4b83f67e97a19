"""A service process ends by its worker, a signal or its report, and leaves no task behind."""

import asyncio
import os
import signal
from collections.abc import Mapping

import pytest

from spotsieve.stream.base.errors import BrokerTrouble, StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.service import run
from spotsieve.stream.service.run import ProcessState, Service

pytestmark = pytest.mark.usefixtures("no_task_is_left")


class Worker:
    """Works until it is stopped. error: what its run then ends with"""

    def __init__(self, error: Exception | None = None, waits: bool = True) -> None:
        self.step = "working"
        self.began = asyncio.Event()
        self.stopped = asyncio.Event()
        self.cancelled = False
        self._error, self._waits = error, waits

    def problems(self) -> list[str]:
        return []

    def stop(self) -> None:
        self.stopped.set()

    async def run(self) -> None:
        self.began.set()
        try:
            if self._waits:
                await self.stopped.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self._error is not None:
            raise self._error


async def no_facts(_: Settings) -> Mapping[str, object]:
    return {}


async def hang(_: object) -> None:
    await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def topics_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_exit_hard_after", lambda _: None)
    monkeypatch.setattr(run, "check_topics", no_facts)


def serving(*workers: Worker) -> "asyncio.Task[None]":
    """A service that begins these workers, one after the other."""
    left = list(workers)
    return asyncio.create_task(Service(Settings())._serve(ProcessState(None, lambda *_: left.pop(0))))


def send_a_signal() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.timeout(30)
async def test_a_signal_stops_the_worker_which_ends_by_itself() -> None:
    worker = Worker()
    working = serving(worker)
    await worker.began.wait()
    send_a_signal()
    await working
    assert worker.stopped.is_set()
    assert not worker.cancelled


@pytest.mark.timeout(30)
async def test_a_signal_while_the_topics_are_checked_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "check_topics", hang)
    working = serving()
    await asyncio.sleep(0.01)  # Time itself: it must still wait after this.
    send_a_signal()
    await working


@pytest.mark.timeout(30)
async def test_an_error_of_the_report_lets_the_worker_finish_and_is_raised_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def report(*_: object) -> None:
        await worker.began.wait()
        raise StateError("state", "cannot be measured")

    monkeypatch.setattr(Service, "_report", report)
    worker = Worker()
    with pytest.raises(StateError, match="cannot be measured"):
        await serving(worker)
    assert worker.stopped.is_set()
    assert not worker.cancelled


@pytest.mark.timeout(30)
async def test_an_error_of_the_worker_is_raised_as_it_is() -> None:
    error = StateError("state", "is broken")
    with pytest.raises(StateError) as raised:
        await serving(Worker(error, waits=False))
    assert raised.value is error


@pytest.mark.timeout(30)
async def test_a_worker_whose_clients_failed_is_followed_by_a_new_one() -> None:
    second = Worker()
    working = serving(Worker(BrokerTrouble("kafka", "is away"), waits=False), second)
    await second.began.wait()
    send_a_signal()
    await working
    assert second.stopped.is_set()


@pytest.mark.timeout(30)
async def test_a_signal_between_two_workers_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotsieve.stream.kafka.watch.Backoff.wait", hang)
    working = serving(Worker(BrokerTrouble("kafka", "is away"), waits=False))
    await asyncio.sleep(0.02)  # Time itself: it must still wait after this.
    send_a_signal()
    await working


@pytest.mark.timeout(30)
async def test_a_cancelled_service_cancels_its_worker() -> None:
    worker = Worker()
    working = serving(worker)
    await worker.began.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert worker.cancelled
