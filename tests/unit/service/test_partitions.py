"""A partition is taken in one order, and what was begun under an older epoch has no effect."""

import asyncio
from typing import cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaTimeoutError

from spotsieve.state.index import CommitMark
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.pages import offsets, partitions
from spotsieve.stream.service.pages.offsets import StartOffsets
from spotsieve.stream.service.pages.ownership import OwnedPartition, Phase
from spotsieve.stream.service.pages.partitions import Partitions
from tests.fixtures.loose_tasks import start_alone

PARTITION = TopicPartition("pages", 3)


class Broker:
    """Producers and consumer in one; records the calls.

    slow: holds producers up while they start  requested: set once the committed offset was read
    """

    def __init__(self, committed: int | None) -> None:
        self.steps: list[str] = []
        self.slow = asyncio.Event()
        self.slow.set()
        self.requested = asyncio.Event()
        self.paused: set[TopicPartition] = set()
        self._committed = committed

    def producer(self, number: int, transactional_id: str | None) -> "Broker":
        assert number == PARTITION.partition
        assert transactional_id in {None, "spotsieve:pages:3"}
        return self

    async def close(self) -> None:
        self.steps.append("closed")

    def seek(self, partition: TopicPartition, _: int) -> None:
        """Aiokafka forgets its pauses with every assignment."""
        self.paused.discard(partition)

    def pause(self, partition: TopicPartition) -> None:
        self.paused.add(partition)

    async def start(self) -> None:
        await self.slow.wait()
        self.steps.append("fenced")

    async def stop(self) -> None:
        self.steps.append("stopped")

    async def committed(self, partition: TopicPartition) -> int | None:
        assert partition == PARTITION
        self.steps.append("committed")
        self.requested.set()
        return self._committed

    def assignment(self) -> set[TopicPartition]:
        return {PARTITION}

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.steps.append(f"offset {offsets[PARTITION]}")

    async def opened(self) -> None:
        """Wait until an opening has ended, and forget it."""
        await self.requested.wait()
        self.requested.clear()
        await asyncio.sleep(0)


class Edges:
    """Says where partitions begin and end."""

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def beginning_offsets(self, _: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {PARTITION: 5}

    async def end_offsets(self, _: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {PARTITION: 90}


def phase_of(owned: OwnedPartition) -> Phase:
    """The phase now: mypy takes it for what an assertion before found."""
    return owned.phase


def partitions_of(
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    known: bool = False,
    there: int = 4,
    waits: Waits | None = None,
    **settings: dict[str, str],
) -> Partitions:
    """known: whether the state knows pages of the partition  there: partitions of the topic when the process began"""

    async def knows(partition: TopicPartition) -> bool:
        assert partition == PARTITION
        return known

    async def void(partition: TopicPartition) -> None:
        assert partition == PARTITION
        broker.steps.append("voided")

    monkeypatch.setattr(partitions, "SharedClients", lambda _: broker)
    monkeypatch.setattr(partitions, "stable_committed", lambda _, partition: broker.committed(partition))
    monkeypatch.setattr(partitions, "remember_generation", lambda _: None)
    monkeypatch.setattr(offsets, "edges_consumer", lambda _: Edges())
    metrics = Metrics()
    waits = waits or Waits(metrics)
    consumer = cast("AIOKafkaConsumer", broker)
    parsed = Settings.model_validate(settings)
    return Partitions(parsed, consumer, metrics, waits, start_alone, StartOffsets(parsed, consumer, knows, void, there))


async def several_turns() -> None:
    """Let the event loop run all that is ready, and what that makes ready."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_former_owners_are_fenced_before_the_committed_offset_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, owned = Broker(committed=40), OwnedPartition(PARTITION)
    await partitions_of(broker, monkeypatch).open(owned)
    assert broker.steps == ["fenced", "committed"]
    assert owned.phase is Phase.SEEKING
    assert (owned.seek_to, owned.committed, owned.epoch) == (40, 40, 1)


@pytest.mark.parametrize(("start", "offset"), [("earliest", 5), ("latest", 90)])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
async def test_where_nothing_is_committed_the_beginning_is_by_setting_and_is_committed(
    guarantee: str, start: str, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, owned = Broker(committed=None), OwnedPartition(PARTITION)
    await partitions_of(broker, monkeypatch, kafka={"start": start}, service={"guarantee": guarantee}).open(owned)
    assert (owned.seek_to, owned.committed) == (offset, offset)
    assert broker.steps == ["fenced", "committed", "voided", f"offset {offset}"]


async def test_a_partition_added_while_running_begins_at_its_beginning_also_with_latest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, owned = Broker(committed=None), OwnedPartition(PARTITION)
    await partitions_of(broker, monkeypatch, there=3, kafka={"start": "latest"}).open(owned)
    assert (owned.seek_to, owned.committed) == (5, 5)


async def test_a_lost_offset_of_pages_that_the_state_knows_is_refused_with_the_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, owned = Broker(committed=None), OwnedPartition(PARTITION)
    with pytest.raises(SettingError, match=r"kafka.restart_from must say where partition 3 of 'pages' continues"):
        await partitions_of(broker, monkeypatch, known=True).open(owned)
    assert owned.phase is Phase.OPENING
    assert broker.steps == ["fenced", "committed"]


@pytest.mark.parametrize(("choice", "offset"), [("earliest", 5), ("latest", 90)])
async def test_a_lost_offset_is_replaced_as_the_user_chose_whatever_a_new_group_does(
    choice: str, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, owned = Broker(committed=None), OwnedPartition(PARTITION)
    other = "latest" if choice == "earliest" else "earliest"
    await partitions_of(broker, monkeypatch, known=True, kafka={"restart_from": choice, "start": other}).open(owned)
    assert (owned.seek_to, owned.committed) == (offset, offset)


async def test_an_opening_that_ends_after_a_later_one_began_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, owned = Broker(committed=40), OwnedPartition(PARTITION)
    broker.slow.clear()
    opening = asyncio.create_task(partitions_of(broker, monkeypatch).open(owned))
    await asyncio.sleep(0)
    owned.begin_opening()
    broker.slow.set()
    await opening
    assert owned.producer is None
    assert owned.phase is Phase.OPENING
    assert broker.steps[:2] == ["fenced", "stopped"]


async def test_a_partition_handed_over_has_a_new_epoch_and_no_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(committed=40)
    taken = partitions_of(broker, monkeypatch)
    await taken.on_partitions_assigned([PARTITION])
    owned = taken[PARTITION]
    assert owned is not None
    await broker.opened()
    epoch, dropped = owned.epoch, owned.dropped
    await taken.on_partitions_revoked([PARTITION])
    assert owned.epoch > epoch
    assert phase_of(owned) is Phase.LOST
    assert dropped.is_set()
    assert owned.producer is None
    assert not taken.all()


async def test_an_opening_that_ends_during_a_hand_over_lets_no_page_in(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(committed=40)
    broker.slow.clear()
    taken = partitions_of(broker, monkeypatch)
    await taken.on_partitions_assigned([PARTITION])
    owned = taken[PARTITION]
    assert owned is not None
    await asyncio.sleep(0)
    owned.begin_slice()
    leaving = asyncio.create_task(taken.on_partitions_revoked([PARTITION]))
    await asyncio.sleep(0)
    broker.slow.set()
    await several_turns()
    assert phase_of(owned) is Phase.LEAVING
    assert owned.producer is None
    owned.end_slice()
    await leaving
    assert phase_of(owned) is Phase.LOST


async def test_a_commit_that_fails_during_a_hand_over_drops_its_pages_and_opens_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(committed=40)
    taken = partitions_of(broker, monkeypatch)
    await taken.on_partitions_assigned([PARTITION])
    owned = taken[PARTITION]
    assert owned is not None
    await broker.opened()
    owned.accept()
    owned.begin_slice()
    leaving = asyncio.create_task(taken.on_partitions_revoked([PARTITION]))
    await asyncio.sleep(0)
    epoch = owned.epoch
    taken.reopen(owned, KafkaTimeoutError(), 47)
    assert phase_of(owned) is Phase.LEAVING
    assert owned.epoch > epoch
    owned.end_slice()
    await leaving
    taken.reopen(owned, KafkaTimeoutError(), 47)
    await several_turns()
    assert phase_of(owned) is Phase.LOST
    assert broker.steps == ["fenced", "committed", "stopped"], "the next owner fences, and begins where it is committed"


async def test_a_commit_that_fails_takes_the_partition_anew_under_a_new_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(committed=40)
    taken = partitions_of(broker, monkeypatch)
    await taken.on_partitions_assigned([PARTITION])
    owned = taken[PARTITION]
    assert owned is not None
    await broker.opened()
    owned.accept()
    epoch = owned.epoch
    taken.reopen(owned, KafkaTimeoutError(), 47)
    assert phase_of(owned) is Phase.OPENING
    assert owned.epoch > epoch
    await broker.opened()
    assert (phase_of(owned), owned.seek_to) == (Phase.SEEKING, 40)
    assert broker.steps == ["fenced", "committed", "stopped", "fenced", "committed"]


@pytest.mark.parametrize("committed", [46, 47, 48])
async def test_a_commit_that_succeeded_without_an_answer_is_waited_for_no_longer(
    committed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page may come for hours, and a worker that waits for the broker is not ready."""
    broker, waits = Broker(committed), Waits(Metrics())
    taken = partitions_of(broker, monkeypatch, waits=waits)
    await taken.on_partitions_assigned([PARTITION])
    owned = taken[PARTITION]
    assert owned is not None
    await broker.opened()
    owned.accept()
    taken.reopen(owned, KafkaTimeoutError(), 47)
    waiting = ["waiting for the broker: commit of partition 3: KafkaTimeoutError"]
    assert waits.texts() == waiting
    await broker.opened()
    assert waits.texts() == (waiting if committed < 47 else [])
    owned.accept()
    taken.committed(owned, 60)
    assert not waits.texts()
    await taken.close()


async def test_the_log_gets_what_is_known_to_be_committed_and_only_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(committed=40)
    broker.slow.clear()
    owners = partitions_of(broker, monkeypatch)
    await owners.on_partitions_assigned([PARTITION])
    await several_turns()
    assert owners.take_marks() == [], "a former owner may still commit"
    broker.slow.set()
    await broker.opened()
    assert owners.take_marks() == [CommitMark("pages", 3, 40)]
    assert owners.take_marks() == []
    owned = owners[PARTITION]
    assert owned is not None
    owners.committed(owned, 47)
    assert owners.take_marks() == [CommitMark("pages", 3, 47)]
    await owners.on_partitions_revoked([PARTITION])
    assert owners.take_marks() == []
    await owners.close()


async def test_a_record_gets_the_marks_that_it_can_hold_and_the_next_one_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owners = partitions_of(Broker(committed=40), monkeypatch)
    monkeypatch.setattr(partitions, "MAX_MARKS", 2)
    owned = [OwnedPartition(TopicPartition("pages", number)) for number in range(3)]
    monkeypatch.setattr(owners, "_owned", {one.partition: one for one in owned})
    for one in owned:
        owners.committed(one, 9)
    assert [mark.partition for mark in owners.take_marks()] == [0, 1]
    assert [mark.partition for mark in owners.take_marks()] == [2]


async def test_a_partition_that_is_being_opened_is_not_fetched_from(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(committed=40)
    broker.slow.clear()
    taken = partitions_of(broker, monkeypatch)
    await taken.on_partitions_assigned([PARTITION])
    assert broker.paused == {PARTITION}
    await taken.close()
    assert broker.steps[-1] == "closed", "the connections end after the producers"


@pytest.mark.guarantee(
    "a worker with many partitions stays small and keeps its place in the group", fault="all assigned at once"
)
async def test_at_most_eight_partitions_are_opened_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = partitions_of(Broker(committed=40), monkeypatch)
    now, most, opened, all_opened = 0, 0, list[int](), asyncio.Event()

    async def open_slowly(owned: OwnedPartition) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await several_turns()
        now -= 1
        opened.append(owned.partition.partition)
        owned.begin_opening()
        owned.seek(40)
        if len(opened) == 100:
            all_opened.set()

    monkeypatch.setattr(taken, "open", open_slowly)
    await taken.on_partitions_assigned([TopicPartition("pages", number) for number in range(100)])
    await all_opened.wait()
    assert most == 8
    assert sorted(opened) == list(range(100))


async def test_a_partition_that_is_handed_over_while_it_waits_for_its_turn_is_not_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = partitions_of(Broker(committed=40), monkeypatch)
    goes_on, opened = asyncio.Event(), []

    async def open_slowly(owned: OwnedPartition) -> None:
        await goes_on.wait()
        opened.append(owned.partition.partition)
        owned.seek(40)

    monkeypatch.setattr(taken, "open", open_slowly)
    await taken.on_partitions_assigned([TopicPartition("pages", number) for number in range(10)])
    await several_turns()
    await taken.on_partitions_revoked([TopicPartition("pages", 9)])
    goes_on.set()
    await several_turns()
    assert sorted(opened) == list(range(9))


async def test_a_backlog_is_fetched_when_few_wait_to_be_opened_or_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = partitions_of(Broker(committed=40), monkeypatch)

    async def never(_: OwnedPartition) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(taken, "open", never)
    assert not taken.opening_first
    await taken.on_partitions_assigned([TopicPartition("pages", number) for number in range(9)])
    assert taken.opening_first
    taken.all()[0].seek(40)
    assert not taken.opening_first, "no one waits for a turn"
    await taken.on_partitions_assigned([TopicPartition("pages", number) for number in range(1000)])
    assert taken.opening_first
    monkeypatch.setattr(partitions, "OPENING_FIRST_SECONDS", 0.0)
    assert not taken.opening_first, "one that cannot be opened must not hold up the others for ever"
    await taken.close()


async def test_beginnings_that_wait_are_committed_together_and_all_hear_of_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commits: list[list[int]] = []
    response = asyncio.Event()

    class Group:
        def assignment(self) -> set[TopicPartition]:
            return {TopicPartition("pages", number) for number in range(100)}

        async def commit(self, offsets: dict[TopicPartition, int]) -> None:
            commits.append([partition.partition for partition in offsets])
            await response.wait()
            if 99 in commits[-1]:
                raise KafkaTimeoutError

    class EdgesOfAll(Edges):
        async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(partitions, 5)

    async def unknown(_: TopicPartition) -> bool:
        return False

    monkeypatch.setattr(offsets, "edges_consumer", lambda _: EdgesOfAll())

    async def void(_: TopicPartition) -> None:
        pass

    starts = StartOffsets(Settings(), cast("AIOKafkaConsumer", Group()), unknown, void, initial_partitions=64)
    begun = [asyncio.create_task(starts.begin(TopicPartition("pages", number))) for number in (1, 2, 98, 99)]
    await several_turns()
    later = [asyncio.create_task(starts.begin(TopicPartition("pages", number))) for number in range(3, 50)]
    await several_turns()
    response.set()
    failed = await asyncio.gather(*begun, return_exceptions=True)
    assert all(isinstance(each, KafkaTimeoutError) for each in failed)
    assert set(await asyncio.gather(*later)) == {5}
    assert commits == [[1, 2, 98, 99], list(range(3, 50))]
    await starts.close()
