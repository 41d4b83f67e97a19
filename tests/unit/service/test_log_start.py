"""The follower finds out in one place whether a log was new: then it has no pending verdicts to remove."""

from collections.abc import Sequence

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from spotsieve.state.format.meta import draw_log_identity
from spotsieve.state.index import CommitMark
from spotsieve.state.log.bodies import migration_writer
from spotsieve.state.log.record import decode, encode, encode_configuration, encode_void
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log import follower
from spotsieve.stream.service.log.follower import LogFollower
from tests.reference.signatures import make_signatures

SETTINGS = Settings()
TEXT = verdict_settings_text(SETTINGS)
DIGEST, WRITER = settings_digest(TEXT), bytes(range(16))
CONFIGURATION = encode_configuration(TEXT, WRITER, draw_log_identity(None))
PAGES = encode(make_signatures(3, seed=1), WRITER, 1, DIGEST)
MOVED = encode(make_signatures(3, seed=1), migration_writer("old"), 1, DIGEST)
FILLED = encode_configuration(TEXT, migration_writer("old"), draw_log_identity(None))


class Consumer:
    """Reads a log that is a list."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self.values, self.next = list(values), 0

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.next = offset

    async def position(self, _: TopicPartition) -> int:
        return self.next

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, len(self.values))

    async def getmany(self, partition: TopicPartition, **_: int | None) -> dict[TopicPartition, list[ConsumerRecord]]:
        first, self.next = self.next, len(self.values)
        read = enumerate(self.values[first:], first)
        return {partition: [ConsumerRecord("log", 0, at, 0, 0, None, value, None, 0, 0, ()) for at, value in read]}


@pytest.mark.parametrize(
    ("values", "new"),
    [([], True), ([CONFIGURATION], True), ([CONFIGURATION, PAGES], False), ([FILLED], False), ([FILLED, MOVED], False)],
    ids=["empty", "configured", "with_pages", "filled_from_now_on", "half_filled"],
)
async def test_a_log_is_new_without_pages_unless_a_migration_fills_it(
    values: list[bytes], new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, metrics = Consumer(values), Metrics()
    monkeypatch.setattr(follower, "log_consumer", lambda _: consumer)

    async def write(value: bytes) -> None:
        consumer.values.append(value)

    reading = LogFollower(SETTINGS, metrics, Waits(metrics), lambda: 0)
    head = await reading.check_settings(0, len(values), write, WRITER)
    assert (head.new, head.filling) == (new, values[:1] == [FILLED])


def test_a_record_that_voids_a_partition_has_a_mark_behind_every_offset() -> None:
    record = decode(encode_void("pages", 3, WRITER, 7, DIGEST))
    assert record.committed == (CommitMark("pages", 3, 2**63 - 1),)
    assert (record.writer, record.sequence, record.settings_digest) == (WRITER, 7, DIGEST)
    assert not len(record.signatures)
