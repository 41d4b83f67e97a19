"""A worker's tasks: an error in any of them stops the worker with that error, and none outlives the worker."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import ProducerFenced, TopicAuthorizationFailedError
from aiokafka.structs import ConsumerRecord

from spotsieve.state.format.meta import NO_LOG
from spotsieve.stream.base.errors import BrokerError, StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine import ApplyResult
from spotsieve.stream.kafka.topics import TopicFacts
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service import worker as worker_module
from spotsieve.stream.service.pages import fetcher, partitions
from spotsieve.stream.service.pages.microbatch import MicroBatch
from spotsieve.stream.service.pages.outputs import OutputBatches
from spotsieve.stream.service.worker import VerdictLog, Worker

pytestmark = pytest.mark.usefixtures("no_task_is_left")

PARTITION = TopicPartition("pages", 0)
STEPS = (
    "watch the broker",
    "catch up",
    "follow the log",
    "join the group",
    "read the committed offset",
    "fetch",
    "append",
    "judge",
    "send outputs",
    "send the offset",
    "commit",
    "look at the lag",
)
"""All that a worker awaits, from its start to a commit."""


class Fakes:
    """Kafka, the log and the broker watch in one. A step raises `fails[step]`, or hangs while `hangs` has it.

    reached: the steps that were begun  committed: the offsets that were committed
    """

    def __init__(self) -> None:
        self.fails: dict[str, Exception] = {}
        self.hangs: dict[str, asyncio.Event] = {}
        self.reached: dict[str, asyncio.Event] = {}
        self.stopped = Counter[str]()
        self.committed: list[int] = []
        self._sent: list[int] = []
        self._listener: ConsumerRebalanceListener | None = None
        self._at = 0
        self._open = False

    async def step(self, name: str) -> None:
        """Do a step."""
        assert name in STEPS
        self.reached.setdefault(name, asyncio.Event()).set()
        if name in self.hangs:
            await self.hangs[name].wait()
        if name in self.fails:
            raise self.fails[name]

    async def until(self, name: str) -> None:
        """Wait until a step is reached."""
        await self.reached.setdefault(name, asyncio.Event()).wait()

    # The broker watch, and the log.

    async def run(self) -> None:
        await self.step("watch the broker")
        await asyncio.Event().wait()

    async def follow(self) -> None:
        await self.step("follow the log")
        await asyncio.Event().wait()

    async def append(self, *_: object) -> list[asyncio.Future[ApplyResult]]:
        await self.step("append")
        applied: asyncio.Future[ApplyResult] = asyncio.get_running_loop().create_future()
        applied.set_result(cast("ApplyResult", None))
        return [applied]

    async def close(self) -> None:
        self.stopped["log or clients"] += 1

    # The consumer and its group.

    def subscribe(self, _: Sequence[str], listener: ConsumerRebalanceListener) -> None:
        self._listener = listener

    async def start_consumer(self) -> None:
        await self.step("join the group")
        assert self._listener is not None
        await self._listener.on_partitions_assigned([PARTITION])

    def assignment(self) -> set[TopicPartition]:
        return {PARTITION}

    def pause(self, _: TopicPartition) -> None:
        self._open = False

    def resume(self, _: TopicPartition) -> None:
        self._open = True

    def seek(self, _: TopicPartition, offset: int) -> None:
        self._at = offset

    async def getmany(self, **_: object) -> dict[TopicPartition, list[ConsumerRecord]]:
        await self.step("fetch")
        await asyncio.sleep(0.001)  # Time itself: a fetch takes a moment.
        if not self._open or self._at >= 2:
            return {}
        self._at += 1
        return {PARTITION: [ConsumerRecord("pages", 0, self._at - 1, 0, 0, None, b"{}", None, 0, 2, ())]}

    def last_stable_offset(self, _: TopicPartition) -> int:
        return 2

    def highwater(self, _: TopicPartition) -> int:
        return 2

    def last_poll_timestamp(self, _: TopicPartition) -> int:
        return 0

    async def position(self, _: TopicPartition) -> int:
        await self.step("look at the lag")
        return self._at

    async def stop(self) -> None:
        self.stopped["consumer or producer"] += 1
        if self._listener is not None:
            # A group that hands out partitions once more while the consumer leaves it.
            await self._listener.on_partitions_assigned([PARTITION])
            self._listener = None

    # The producer.

    async def begin_transaction(self) -> None:
        self._sent = []

    async def send_batch(self, *_: object, **__: object) -> asyncio.Future[None]:
        await self.step("send outputs")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def send_offsets_to_transaction(self, offsets: dict[TopicPartition, int], _: str) -> None:
        await self.step("send the offset")
        self._sent = list(offsets.values())

    async def commit_transaction(self) -> None:
        await self.step("commit")
        self.committed += self._sent


class Client:
    """A consumer or producer of Fakes, with a start of its own."""

    def __init__(self, fakes: Fakes, starts: bool) -> None:
        self._fakes, self._starts = fakes, starts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fakes, name)

    async def start(self) -> None:
        if self._starts:
            await self._fakes.start_consumer()

    async def stop(self) -> None:
        if self._starts:
            await self._fakes.stop()


class Log:
    """The log in Fakes."""

    identity = NO_LOG

    def __init__(self, fakes: Fakes) -> None:
        self.append, self.follow, self.close = fakes.append, fakes.follow, fakes.close
        self._fakes = fakes

    async def start(self, _: object) -> None:
        await self._fakes.step("catch up")

    async def knows(self, _: TopicPartition) -> bool:
        return False

    async def void(self, _: TopicPartition) -> None:
        pass


class Clients:
    """The shared clients of producers."""

    def __init__(self, fakes: Fakes) -> None:
        self.close, self._fakes = fakes.close, fakes

    def producer(self, *_: object) -> Client:
        return Client(self._fakes, starts=False)


class OneBatch:
    """Builds one batch of anything."""

    def is_short(self, _: int) -> bool:
        return True

    def undeliverable(self, _: object) -> None:
        pass

    def build(self, *_: object) -> OutputBatches:
        return OutputBatches([("pages.novel", 0, cast("Any", None))], Counter(), 0)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    made = Fakes()

    async def committed(*_: object) -> int:
        await made.step("read the committed offset")
        return 0

    async def verdicts_of(_: Iterable[object]) -> None:
        await made.step("judge")

    def sign(batch: MicroBatch, *_: object) -> None:
        batch.signatures = cast("Any", object())

    for name, value in {
        "pages_consumer": lambda _: Client(made, starts=True),
        "bind_group": lambda *_: None,
        "bound_prefetch": lambda *_: None,
        "BrokerWatch": lambda *_: made,
        "OutputBuilder": lambda *_: OneBatch(),
        "sign": sign,
        "verdicts_of": verdicts_of,
        "poison_messages": lambda *_: (),
    }.items():
        monkeypatch.setattr(worker_module, name, value)
    monkeypatch.setattr(fetcher, "check_alive", lambda _: None)
    monkeypatch.setattr(partitions, "SharedClients", lambda _: Clients(made))
    monkeypatch.setattr(partitions, "stable_committed", committed)
    monkeypatch.setattr(partitions, "remember_generation", lambda _: None)
    return made


def worker_of(fakes: Fakes, directory: Path, shutdown_timeout_ms: int = 8_000) -> Worker:
    settings = Settings.model_validate(
        {
            "index": {"directory": str(directory)},
            "service": {"linger_ms": 1, "shutdown_timeout_ms": shutdown_timeout_ms},
        }
    )
    facts = {"input": TopicFacts(1, {})}
    log = cast("VerdictLog", Log(fakes))
    return Worker(settings, cast("Any", None), lambda _: log, facts, Metrics(), Heartbeats())


@pytest.mark.timeout(30)
@pytest.mark.parametrize("step", STEPS)
async def test_an_error_in_any_step_stops_the_worker_with_that_error(step: str, fakes: Fakes, tmp_path: Path) -> None:
    error = fakes.fails[step] = StateError("state", "is broken")
    worker = worker_of(fakes, tmp_path)
    with pytest.raises(StateError) as raised:
        await worker.run()
    assert raised.value is error
    assert not worker.ready
    assert fakes.stopped == {"consumer or producer": 1, "log or clients": 2}
    assert not [offset for offset in fakes.committed if offset > 2]


@pytest.mark.timeout(30)
async def test_an_error_in_signing_stops_the_worker_with_that_error(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sign(*_: object) -> None:
        raise StateError("scheme", "is broken")

    monkeypatch.setattr(worker_module, "sign", sign)
    with pytest.raises(StateError, match="scheme is broken"):
        await worker_of(fakes, tmp_path).run()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("step", ["join the group", "read the committed offset", "fetch", "commit"])
async def test_a_right_that_is_missing_at_the_broker_is_explained(step: str, fakes: Fakes, tmp_path: Path) -> None:
    fakes.fails[step] = TopicAuthorizationFailedError("pages")
    with pytest.raises(BrokerError) as raised:
        await worker_of(fakes, tmp_path).run()
    assert isinstance(raised.value.__cause__, TopicAuthorizationFailedError)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("step", [*STEPS, "drain"])
async def test_a_worker_that_is_cancelled_in_any_step_leaves_no_task(step: str, fakes: Fakes, tmp_path: Path) -> None:
    hanging = "commit" if step == "drain" else step
    fakes.hangs[hanging] = asyncio.Event()
    worker = worker_of(fakes, tmp_path)
    working = asyncio.create_task(worker.run())
    await fakes.until(hanging)
    if step == "drain":
        worker.stop()
        await asyncio.sleep(0.02)  # Time itself: it must still wait after this.
        assert not working.done(), "it waits for the commit"
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert not worker.ready
    assert fakes.stopped == {"consumer or producer": 1, "log or clients": 2}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("step", ["watch the broker", "catch up", "join the group"])
async def test_a_stop_while_starting_ends_the_worker_at_once(step: str, fakes: Fakes, tmp_path: Path) -> None:
    fakes.hangs[step] = asyncio.Event()
    if step == "watch the broker":
        fakes.hangs["catch up"] = asyncio.Event()
    worker = worker_of(fakes, tmp_path)
    working = asyncio.create_task(worker.run())
    await fakes.until(step)
    worker.stop()
    await working
    assert fakes.committed == []
    assert fakes.stopped == {"consumer or producer": 1, "log or clients": 2}


@pytest.mark.timeout(30)
async def test_a_stop_waits_for_the_commit_of_the_pages_in_flight(fakes: Fakes, tmp_path: Path) -> None:
    may_commit = fakes.hangs["commit"] = asyncio.Event()
    worker = worker_of(fakes, tmp_path)
    working = asyncio.create_task(worker.run())
    await fakes.until("commit")
    worker.stop()
    await asyncio.sleep(0.02)  # Time itself: it must still wait after this.
    assert not working.done()
    may_commit.set()
    await working
    assert fakes.committed


@pytest.mark.timeout(30)
async def test_pages_in_flight_are_committed_though_a_fetch_fails_while_stopping(fakes: Fakes, tmp_path: Path) -> None:
    may_commit = fakes.hangs["commit"] = asyncio.Event()
    worker = worker_of(fakes, tmp_path)
    working = asyncio.create_task(worker.run())
    await fakes.until("commit")
    fetched = fakes.hangs["fetch"] = asyncio.Event()
    fakes.reached["fetch"].clear()
    await fakes.until("fetch")
    worker.stop()
    fakes.fails["fetch"] = StateError("consumer", "has stopped fetching")
    fetched.set()
    await asyncio.sleep(0.02)  # Time itself: it must still wait after this.
    assert not working.done()
    may_commit.set()
    await working
    assert fakes.committed


@pytest.mark.timeout(30)
@pytest.mark.parametrize("step", ["append", "send the offset", "follow the log"])
async def test_an_error_while_stopping_ends_the_wait_for_the_pages_in_flight(
    step: str, fakes: Fakes, tmp_path: Path
) -> None:
    may_fail = fakes.hangs[step] = asyncio.Event()
    fakes.hangs["commit"] = asyncio.Event()
    worker = worker_of(fakes, tmp_path)
    working = asyncio.create_task(worker.run())
    await fakes.until("commit" if step == "follow the log" else step)
    worker.stop()
    await asyncio.sleep(0.02)  # Time itself: it must still wait after this.
    fakes.fails[step] = StateError("state", "is broken")
    may_fail.set()
    with pytest.raises(StateError):
        await working


@pytest.mark.timeout(30)
async def test_pages_that_are_not_committed_in_time_are_left_to_the_next_start(fakes: Fakes, tmp_path: Path) -> None:
    fakes.hangs["commit"] = asyncio.Event()
    worker = worker_of(fakes, tmp_path, shutdown_timeout_ms=50)
    working = asyncio.create_task(worker.run())
    await fakes.until("commit")
    worker.stop()
    await working
    assert fakes.committed == []


@pytest.mark.timeout(30)
async def test_a_fenced_commit_takes_the_partition_anew_and_the_worker_goes_on(fakes: Fakes, tmp_path: Path) -> None:
    fakes.fails["commit"] = ProducerFenced()
    worker = worker_of(fakes, tmp_path)
    working = asyncio.create_task(worker.run())
    await fakes.until("commit")
    del fakes.fails["commit"]
    fakes.reached["commit"].clear()
    await fakes.until("commit")
    worker.stop()
    await working
    assert fakes.committed
