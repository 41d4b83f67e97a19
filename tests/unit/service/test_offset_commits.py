"""Offsets of several partitions go in one request, one request at a time, and each waiter gets its own result."""

import asyncio
from typing import cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.service.pages.offsets import OffsetCommits, StartOffsets

PARTITIONS = [TopicPartition("pages", number) for number in range(4)]


class Consumer:
    """Keeps each request until it is answered."""

    def __init__(self) -> None:
        self.assigned = set(PARTITIONS)
        self.requests: list[dict[TopicPartition, int]] = []
        self.responses: list[asyncio.Future[None]] = []

    def assignment(self) -> set[TopicPartition]:
        return self.assigned

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        assert offsets.keys() <= self.assigned
        self.requests.append(offsets)
        self.responses.append(asyncio.get_running_loop().create_future())
        await self.responses[-1]


async def settled() -> None:
    """Let every task go on that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def committing(commits: OffsetCommits, offsets: dict[int, int]) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(commits.commit(PARTITIONS[number], offset)) for number, offset in offsets.items()]
    await settled()
    return tasks


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


@pytest.fixture
def commits(consumer: Consumer) -> OffsetCommits:
    return OffsetCommits(cast("AIOKafkaConsumer", consumer))


@pytest.mark.asyncio
async def test_what_comes_while_a_request_is_on_its_way_goes_in_the_next_one(
    consumer: Consumer, commits: OffsetCommits
) -> None:
    (first,) = await committing(commits, {0: 5})
    others = await committing(commits, {1: 7, 2: 9})
    assert consumer.requests == [{PARTITIONS[0]: 5}]
    consumer.responses[0].set_result(None)
    await settled()
    assert first.done()
    assert consumer.requests[1:] == [{PARTITIONS[1]: 7, PARTITIONS[2]: 9}]
    assert not any(task.done() for task in others)
    consumer.responses[1].set_result(None)
    await asyncio.gather(first, *others)


@pytest.mark.asyncio
async def test_a_failed_request_is_told_to_its_own_waiters_alone(consumer: Consumer, commits: OffsetCommits) -> None:
    (first,) = await committing(commits, {0: 5})
    (second,) = await committing(commits, {1: 7})
    consumer.responses[0].set_exception(CommitFailedError())
    await settled()
    with pytest.raises(CommitFailedError):
        await first
    consumer.responses[1].set_result(None)
    await second


@pytest.mark.asyncio
async def test_a_partition_of_another_worker_fails_alone(consumer: Consumer, commits: OffsetCommits) -> None:
    (first,) = await committing(commits, {0: 5})
    own, lost = await committing(commits, {1: 7, 2: 9})
    consumer.assigned.remove(PARTITIONS[2])
    consumer.responses[0].set_result(None)
    await settled()
    assert consumer.requests[1:] == [{PARTITIONS[1]: 7}]
    consumer.responses[1].set_result(None)
    await asyncio.gather(first, own)
    with pytest.raises(IllegalStateError, match="was revoked"):
        await lost


@pytest.mark.asyncio
async def test_a_waiter_that_gives_up_takes_no_other_along(consumer: Consumer, commits: OffsetCommits) -> None:
    gives_up, stays = await committing(commits, {0: 5, 1: 7})
    gives_up.cancel()
    await settled()
    consumer.responses[0].set_result(None)
    await stays
    assert consumer.requests == [{PARTITIONS[0]: 5, PARTITIONS[1]: 7}]


@pytest.mark.asyncio
async def test_an_unanswered_request_ends_with_the_worker(consumer: Consumer, commits: OffsetCommits) -> None:
    (first,) = await committing(commits, {0: 5})
    (second,) = await committing(commits, {1: 7})
    assert not consumer.responses[0].done()
    await asyncio.wait_for(commits.close(), 10)
    for task in (first, second):
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.asyncio
async def test_an_offset_that_was_given_up_is_not_sent_when_the_partition_is_back(
    consumer: Consumer, commits: OffsetCommits
) -> None:
    (slow,) = await committing(commits, {1: 5})
    (given_up,) = await committing(commits, {0: 100})
    given_up.cancel()
    await settled()
    (other,) = await committing(commits, {2: 9})
    consumer.responses[0].set_result(None)
    await settled()
    assert consumer.requests == [{PARTITIONS[1]: 5}, {PARTITIONS[2]: 9}]
    consumer.responses[1].set_result(None)
    await asyncio.gather(slow, other)


@pytest.mark.asyncio
async def test_the_error_of_a_lost_offset_names_only_steps_that_are_safe(consumer: Consumer) -> None:
    """An offset that is set by hand removes no pending verdicts, so pages of a recreated topic would get them."""

    async def knows(_: TopicPartition) -> bool:
        return True

    async def void(_: TopicPartition) -> None:
        raise AssertionError

    starts = StartOffsets(Settings(), cast("AIOKafkaConsumer", consumer), knows, void, 4)
    with pytest.raises(SettingError, match="if the topic was not recreated, --reset-offsets of kafka-consumer-groups"):
        await starts.begin(PARTITIONS[0])
    assert not consumer.requests
