"""A reader of `matches` skips the records that are not for it, and warns only where a configuration is wrong."""

from types import SimpleNamespace

import pytest
import structlog
from aiokafka import TopicPartition

from spotsieve.state.format.meta import LogIdentity
from spotsieve.state.identity import OtherLogError
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles import round_messages
from spotsieve.stream.service.roles.round_messages import RoundReader
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_FILL_PROGRESS,
    KIND_REQUEST,
    KIND_TOO_LARGE,
    encode_round_record,
)
from spotsieve.stream.sharding.records.resolver import write_fill_progress, write_request
from spotsieve.stream.sharding.shares import FillProgress, Share
from tests.fixtures.states.round_records import RANGE

LOG, OTHER = LogIdentity(bytes(range(16)), 5), LogIdentity(bytes(range(1, 17)), 5)
DIGEST = digest_of_settings(Settings())
FILLED, ASK = write_fill_progress(FillProgress(True, 5)), write_request(3)


class Consumer:
    """Gives the records of one partition at once."""

    def __init__(self, partition: int, *values: bytes) -> None:
        self._at = TopicPartition(Settings().topics.matches, partition)
        self._values = values

    async def getmany(self, timeout_ms: int) -> dict[TopicPartition, list[SimpleNamespace]]:
        assert timeout_ms
        topic, partition = self._at
        records = [
            SimpleNamespace(topic=topic, partition=partition, offset=offset, value=value, timestamp=0)
            for offset, value in enumerate(self._values)
        ]
        return {self._at: records}


async def read(
    monkeypatch: pytest.MonkeyPatch, shards: int | None, *values: bytes
) -> tuple[list[RoundMessage], list[str]]:
    monkeypatch.setattr(round_messages, "round_consumer", lambda _: Consumer(0, *values))
    reader = RoundReader(Settings(), Waits(Metrics()), shards)
    reader.log = LOG
    with structlog.testing.capture_logs() as lines:
        found = await reader.fetch()
    return found, [line["error"] for line in lines]


async def test_a_resize_makes_no_shard_warn_of_a_wrong_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    resize = [
        encode_round_record(KIND_FILL_PROGRESS, DIGEST, Share(0, 3), RANGE, FILLED, log=LOG),
        encode_round_record(KIND_REQUEST, DIGEST, Share(0, 2), RANGE, ASK, log=LOG),
    ]
    response = encode_round_record(KIND_TOO_LARGE, DIGEST, Share(0, 2), RANGE, log=LOG)
    found, warned = await read(monkeypatch, 2, *resize, response)
    assert ([one.record.kind for one in found], warned) == ([KIND_REQUEST, KIND_TOO_LARGE], [])
    found, warned = await read(monkeypatch, 4, *resize)
    assert (found, warned) == ([], [])
    found, warned = await read(monkeypatch, None, *resize)
    assert ([one.record.kind for one in found], warned) == ([KIND_FILL_PROGRESS, KIND_REQUEST], []), (
        "the resolver hears them"
    )


async def test_a_stranger_is_warned_of_even_behind_records_of_a_resize(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = encode_round_record(KIND_FILL_PROGRESS, DIGEST, Share(0, 3), RANGE, FILLED, log=LOG)
    for stranger, message in (
        (
            encode_round_record(KIND_CANDIDATES, DIGEST, Share(0, 3), RANGE, log=LOG),
            r"of one of 2 shards, got '0 of 3'",
        ),
        (
            encode_round_record(KIND_FILL_PROGRESS, bytes(16), Share(0, 3), RANGE, FILLED, log=LOG),
            "must be of these settings",
        ),
        (filled[:-1] + bytes([filled[-1] ^ 1]), "end in its checksum"),
    ):
        found, warned = await read(monkeypatch, 2, filled, stranger, stranger)
        assert (found, len(warned)) == ([], 1)
        assert message in warned[0]


@pytest.mark.parametrize("log", [OTHER, LOG._replace(salt=6)])
async def test_a_record_about_another_log_is_refused_and_never_skipped(
    monkeypatch: pytest.MonkeyPatch, log: LogIdentity
) -> None:
    record = encode_round_record(KIND_FILL_PROGRESS, DIGEST, Share(0, 3), RANGE, FILLED, log)
    with pytest.raises(
        OtherLogError, match=f"about the log {LOG} of this reader, and is about the log {log}"
    ) as refused:
        await read(monkeypatch, None, record)
    assert "give every service topics of its own" in refused.value.next_step
