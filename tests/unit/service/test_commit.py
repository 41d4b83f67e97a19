"""A commit requests in one order, and a commit without a response holds nothing up after a hand-over."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError, ProducerFenced
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.pages.commit import ByteBudget, Committer, most_bytes
from spotsieve.stream.service.pages.microbatch import JudgedSlice, MicroBatch, micro_batches
from spotsieve.stream.service.pages.outputs import OutputBatches, OutputBuilder
from spotsieve.stream.service.pages.ownership import OwnedPartition
from spotsieve.stream.service.pages.partitions import Partitions
from tests.fixtures.loose_tasks import start_alone
from tests.fixtures.waiting import SECONDS

PARTITION = TopicPartition("pages", 0)


class SilentProducer:
    """A producer that was stopped in the middle of a transaction: aiokafka resolves no future that waits for it."""

    def __init__(self, sends_offsets: bool = True) -> None:
        self._sends_offsets = sends_offsets
        self.requested = asyncio.Event()
        self.requested = asyncio.Event()

    async def begin_transaction(self) -> None:
        pass

    async def send_batch(self, *_: object, **__: object) -> asyncio.Future[None]:
        self.requested.set()
        return asyncio.get_running_loop().create_future()

    async def send_offsets_to_transaction(self, *_: object) -> None:
        if not self._sends_offsets:
            raise ProducerFenced

    async def commit_transaction(self) -> None:
        await asyncio.Event().wait()


class OneBatch:
    """Builds one batch of anything: what is short in the event loop, all else beside it."""

    def is_short(self, size: int) -> bool:
        return size < 2**20

    def build(self, _: int, work: Sequence[JudgedSlice]) -> OutputBatches:
        in_loop = threading.current_thread() is threading.main_thread()
        assert in_loop == self.is_short(sum(part.size for _, part in work))
        return OutputBatches([("pages.novel", 0, cast("Any", None))], Counter(), 0)


class Reopened:
    """Remembers which partitions the committer reopens."""

    def __init__(self) -> None:
        self.partitions: list[OwnedPartition] = []
        self.attempted: list[int] = []

    def reopen(self, owned: OwnedPartition, _: KafkaError, next_offset: int) -> None:
        owned.begin_opening()
        self.attempted.append(next_offset)
        self.partitions.append(owned)

    def committed(self, owned: OwnedPartition, next_offset: int) -> None:
        owned.committed = next_offset


def batch_of(owned: OwnedPartition, offset: int = 7, mebibytes: int = 0) -> MicroBatch:
    value = bytes(mebibytes * 2**20) or b"{}"
    message = ConsumerRecord("pages", 0, offset, 0, 0, None, value, None, 0, 2, ())
    (batch,) = micro_batches({PARTITION: [message]}, {PARTITION: owned}, 512, 2**20)
    return batch


def committer_of(reopened: Reopened, finished: list[None]) -> Committer:
    consumer = cast("AIOKafkaConsumer", None)
    partitions, builder = cast("Partitions", reopened), cast("OutputBuilder", OneBatch())
    return Committer(Settings(), consumer, partitions, builder, Metrics(), lambda: finished.append(None), start_alone)


@pytest.mark.timeout(10)
async def test_an_unanswered_commit_frees_its_batches_when_the_partition_is_handed_over() -> None:
    finished: list[None] = []
    reopened = Reopened()
    committer = committer_of(reopened, finished)
    owned = OwnedPartition(PARTITION)
    owned.producer = producer = SilentProducer()
    for _ in range(3):
        committer.submit(batch_of(owned))
    await producer.requested.wait()
    assert not finished
    owned.lose()
    assert await owned.drained(SECONDS)
    await asyncio.sleep(0)
    assert len(finished) == 3
    assert not reopened.partitions, "the next owner begins at the committed offset, not this one"


@pytest.mark.timeout(10)
async def test_a_fenced_producer_reopens_the_partition_though_deliveries_stay_unanswered() -> None:
    finished: list[None] = []
    reopened = Reopened()
    committer = committer_of(reopened, finished)
    owned = OwnedPartition(PARTITION)
    owned.producer = SilentProducer(sends_offsets=False)
    committer.submit(batch_of(owned))
    assert await owned.drained(SECONDS)
    await asyncio.sleep(0)
    assert reopened.partitions == [owned]
    assert len(finished) == 1


class ConfirmingProducer:
    """Records its calls. It confirms each delivery a moment later, with `failure` where there is one."""

    def __init__(self, steps: list[str], failure: Exception | None) -> None:
        self._steps = steps
        self._failure = failure
        self.answered = asyncio.Event()

    async def begin_transaction(self) -> None:
        self._steps.append("begin")

    async def send_batch(self, *_: object, **__: object) -> asyncio.Future[None]:
        delivery = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.02, self._respond, delivery)
        return delivery

    def _respond(self, delivery: asyncio.Future[None]) -> None:
        self._steps.append("delivered" if self._failure is None else "not delivered")
        self.answered.set()
        if self._failure is None:
            delivery.set_result(None)
        else:
            delivery.set_exception(self._failure)

    async def send_offsets_to_transaction(self, offsets: dict[TopicPartition, int], _: str) -> None:
        self._steps.append(f"offset {offsets[PARTITION]}")

    async def commit_transaction(self) -> None:
        self._steps.append("commit")


class ConfirmingConsumer:
    """Writes down the offsets that are committed without a transaction."""

    def __init__(self, steps: list[str]) -> None:
        self._steps = steps

    def assignment(self) -> set[TopicPartition]:
        return {PARTITION}

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self._steps.append(f"offset {offsets[PARTITION]}")


async def steps_of(
    guarantee: str, failure: Exception | None = None, stale: bool = False
) -> tuple[list[str], OwnedPartition, Reopened]:
    """Commit one slice (offset 7); -> the requests to the broker, the partition, and what was reopened."""
    steps: list[str] = []
    reopened, finished = Reopened(), list[None]()
    settings = Settings.model_validate({"service": {"guarantee": guarantee}})
    partitions, builder = cast("Partitions", reopened), cast("OutputBuilder", OneBatch())
    consumer = cast("AIOKafkaConsumer", ConfirmingConsumer(steps))
    committer = Committer(
        settings, consumer, partitions, builder, Metrics(), lambda: finished.append(None), start_alone
    )
    owned = OwnedPartition(PARTITION)
    owned.producer = ConfirmingProducer(steps, failure)
    batch = batch_of(owned)
    if stale:
        owned.begin_opening()
    committer.submit(batch)
    assert await owned.drained(5)
    await asyncio.sleep(0)
    assert len(finished) == 1
    return steps, owned, reopened


@pytest.mark.timeout(10)
async def test_a_transaction_commits_after_all_deliveries_with_the_next_offset() -> None:
    steps, owned, reopened = await steps_of("exactly_once")
    assert steps == ["begin", "offset 8", "delivered", "commit"]
    assert owned.committed == 8
    assert not reopened.partitions


@pytest.mark.timeout(10)
async def test_at_least_once_commits_the_offset_after_every_delivery() -> None:
    steps, owned, _ = await steps_of("at_least_once")
    assert steps == ["delivered", "offset 8"]
    assert owned.committed == 8


@pytest.mark.timeout(10)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
async def test_after_a_failed_delivery_nothing_is_committed_and_the_partition_is_reopened(guarantee: str) -> None:
    steps, owned, reopened = await steps_of(guarantee, KafkaTimeoutError())
    assert steps[-1] == "not delivered"
    assert "commit" not in steps
    assert owned.committed == 0
    assert reopened.partitions == [owned]
    assert reopened.attempted == [8]


@pytest.mark.timeout(10)
async def test_a_slice_fetched_before_its_partition_was_reopened_is_dropped() -> None:
    steps, owned, reopened = await steps_of("exactly_once", stale=True)
    assert not steps
    assert owned.committed == 0
    assert not reopened.partitions


@pytest.mark.timeout(10)
async def test_a_partition_without_a_producer_was_handed_over_and_commits_nothing() -> None:
    reopened, finished = Reopened(), list[None]()
    committer = committer_of(reopened, finished)
    owned = OwnedPartition(PARTITION)
    committer.submit(batch_of(owned))
    assert await owned.drained(5)
    await asyncio.sleep(0)
    assert len(finished) == 1
    assert not reopened.partitions


class SlowGroup:
    """A consumer whose group confirms offset commits when `responses` is set, with `failure` if there is one."""

    def __init__(self, steps: list[str], failure: Exception | None) -> None:
        self._steps, self._failure = steps, failure
        self.responses = asyncio.Event()

    def assignment(self) -> set[TopicPartition]:
        return {PARTITION}

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        await self.responses.wait()
        self._steps.append(f"offset {offsets[PARTITION]}")
        if self._failure is not None:
            raise self._failure


@pytest.mark.timeout(10)
@pytest.mark.parametrize("failure", [None, KafkaTimeoutError()], ids=["committed", "failed"])
async def test_at_least_once_sends_the_next_pages_while_an_offset_is_committed(failure: Exception | None) -> None:
    steps, reopened, finished = list[str](), Reopened(), list[None]()
    group = SlowGroup(steps, failure)
    settings = Settings.model_validate({"service": {"guarantee": "at_least_once"}})
    partitions, builder = cast("Partitions", reopened), cast("OutputBuilder", OneBatch())
    consumer = cast("AIOKafkaConsumer", group)
    committer = Committer(
        settings, consumer, partitions, builder, Metrics(), lambda: finished.append(None), start_alone
    )
    owned = OwnedPartition(PARTITION)
    owned.producer = producer = ConfirmingProducer(steps, None)
    for offset in (7, 8, 9):
        producer.answered.clear()
        committer.submit(batch_of(owned, offset))
        await producer.answered.wait()
    assert steps == ["delivered"] * 3
    assert not finished, "pages are in flight until their offset is committed"
    group.responses.set()
    assert await owned.drained(5)
    await asyncio.sleep(0)
    assert len(finished) == 3
    if failure is None:
        assert steps[3:] == ["offset 8", "offset 10"]
        assert (owned.committed, reopened.partitions) == (10, [])
    else:
        assert (owned.committed, reopened.partitions) == (0, [owned]), "it is reopened once"


@pytest.mark.timeout(10)
async def test_slices_that_waited_together_are_committed_up_to_the_last_of_them() -> None:
    steps: list[str] = []
    partitions, builder = cast("Partitions", Reopened()), cast("OutputBuilder", OneBatch())
    consumer = cast("AIOKafkaConsumer", ConfirmingConsumer(steps))
    committer = Committer(Settings(), consumer, partitions, builder, Metrics(), lambda: None, start_alone)
    owned = OwnedPartition(PARTITION)
    owned.producer = ConfirmingProducer(steps, None)
    for offset in (7, 8, 9):
        committer.submit(batch_of(owned, offset))
    assert await owned.drained(5)
    await asyncio.sleep(0)
    assert owned.committed == 10
    assert [step for step in steps if step.startswith("offset")][-1] == "offset 10"
    assert steps.count("commit") <= 2


@pytest.mark.timeout(10)
async def test_a_group_commit_holds_no_more_than_can_be_sent_within_its_time_out() -> None:
    """60 s at 1 MiB a second, of which half is for sending: 30 MiB. Five slices of 12 MiB are three commits."""
    assert most_bytes(60_000, 40_000) == 30 * 2**20
    assert most_bytes(900_000, 40_000) == 30 * 2**20, "requests wait for each other, and each has a time-out of its own"
    assert most_bytes(60_000, 4_000) == 3 * 2**20
    steps: list[str] = []
    partitions, builder = cast("Partitions", Reopened()), cast("OutputBuilder", OneBatch())
    consumer = cast("AIOKafkaConsumer", ConfirmingConsumer(steps))
    committer = Committer(Settings(), consumer, partitions, builder, Metrics(), lambda: None, start_alone)
    owned = OwnedPartition(PARTITION)
    owned.producer = ConfirmingProducer(steps, None)
    owned.begin_slice()  # Nothing is committed before all five wait.
    committer._waiting[owned] = [(batch, batch.slices[0]) for batch in (batch_of(owned, n, 12) for n in range(5))]
    await committer._commit_partition(owned)
    assert [step for step in steps if step.startswith("offset")] == ["offset 2", "offset 4", "offset 5"]


@pytest.mark.timeout(10)
async def test_commits_share_the_bytes_on_their_way_in_the_order_of_asking() -> None:
    budget, ended = ByteBudget(30), [asyncio.Event() for _ in range(4)]
    begun = list[int]()

    async def commit(number: int, size: int) -> None:
        async with budget.of(size):
            begun.append(number)
            await ended[number].wait()

    commits = [asyncio.create_task(commit(number, size)) for number, size in enumerate((20, 10, 40, 1))]
    await several_turns()
    assert begun == [0, 1], "the third is larger than the budget and goes alone; the fourth comes after it"
    ended[0].set()
    await several_turns()
    assert begun == [0, 1]
    commits[1].cancel()
    await several_turns()
    assert begun == [0, 1, 2]
    for event in ended:
        event.set()
    await asyncio.gather(*commits, return_exceptions=True)
    assert begun == [0, 1, 2, 3]


async def several_turns() -> None:
    """Let the event loop run all that is ready, and what that makes ready."""
    for _ in range(20):
        await asyncio.sleep(0)
