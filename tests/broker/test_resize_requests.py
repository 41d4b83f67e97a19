"""A resize request without a response is known to the next command that requests, on a real broker."""

import asyncio
from pathlib import Path

import pytest

from spotsieve.state.format.meta import NO_LOG
from spotsieve.state.horizon import NO_TIME
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import main
from spotsieve.stream.insight.shards import request
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.skips import first_record
from spotsieve.stream.service.log.writer import RecordWriter
from spotsieve.stream.sharding.records.frame import (
    KIND_RANGE,
    KIND_REQUEST,
    KIND_RESIZE,
    RoundRange,
    encode_round_record,
)
from spotsieve.stream.sharding.records.resolver import (
    AnnouncedRecord,
    RoundAnnouncement,
    write_announcement,
    write_request,
    write_resize,
)
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import Resize, ResizeEvent, Share
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.services.oracle import settings_from

RANGE = RoundRange(LogPlace(0, 0), LogPlace(1, 0), 0, 0, NO_TIME)


def write(settings: Settings, role: str, kind: int, body: bytes) -> int:
    """Write a record of the resolver, or an ask; -> its offset."""

    async def written() -> int:
        writer = RecordWriter(settings, Waits(Metrics()), lambda: 0, role)
        await writer.start()
        try:
            digest = digest_of_settings(settings)
            first = await first_record(settings)
            log = first[1].log if first is not None and first[1].log is not None else NO_LOG
            return await writer.write(encode_round_record(kind, digest, Share(0, 2), RANGE, body, log))
        finally:
            await writer.close()

    return asyncio.run(written())


def test_an_open_resize_request_is_reported_and_can_be_cancelled(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "RESPONSE_SECONDS", 1.0)
    config = tmp_path / "cluster.toml"

    def resize(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["shards", "resize", *words, "-c", str(config)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    with TopicSet(kafka.bootstrap_servers, shards=2) as topics:
        config.write_text(topics.toml(), "utf-8")
        settings = settings_from(topics.toml())
        # Requests before the newest round are answered: the resolver ignored this one.
        offset = write(settings, "matches", KIND_REQUEST, write_request(2))
        write(settings, "matches", KIND_REQUEST, write_request(7))
        write(
            settings,
            "verdicts",
            KIND_RANGE,
            write_announcement(RoundAnnouncement(1, (), (offset + 2, 0), (AnnouncedRecord(0, 3, 0),))),
        )
        assert "has no resize to cancel" in resize("--cancel")[1]

        code, text = resize("--shards", "3")
        assert (code, "has not responded within" in text) == (5, True), text
        for shards in ("3", "4"):
            code, text = resize("--shards", shards)
            assert (code, f"2 -> 3 waits for a resolver, got {shards}" in text) == (2, True), text
        assert topics.ends("matches")[0] == offset + 3, "nothing was written, and no partition was added for it"
        assert resize("--cancel")[0] == 0
        assert "has no resize to cancel" in resize("--cancel")[1]

        code, text = resize("--shards", "4")
        assert (code, "has not responded within" in text) == (5, True), text
        write(
            settings, "verdicts", KIND_RESIZE, write_resize(Resize(ResizeEvent.REQUESTED, 4, topics.ends("matches")[0]))
        )
        assert "a resize 2 -> 4 is under way, got 3" in resize("--shards", "3")[1]
        before = topics.ends("matches")
        code, text = resize("--shards", "4")
        assert (code, "resize 2 -> 4 started" in text) == (0, True), text
        assert topics.ends("matches") == before, "the same request again writes nothing"
