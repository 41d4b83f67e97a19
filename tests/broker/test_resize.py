"""A running service of shards is watched, grows and shrinks on a real broker: no verdict changes, whoever is killed."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from spotsieve.state.portable.merging import place_of_snapshots, snapshots_in
from spotsieve.state.snapshot.checkpoints import FOLDER, REQUEST
from spotsieve.state.snapshot.snapshots import take_snapshot
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.cli import main
from spotsieve.stream.sharding.records.frame import KIND_RANGE, decode_round_record
from tests.conftest import Broker
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.oracle import check_verdicts_sent, settings_from
from tests.fixtures.services.roles import Roles
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until

PAGES, PARTS = 1_200, 4
AHEAD = 9
"""Offsets of `verdicts` between the request for snapshots and their outcome. A round takes four or more."""
SMALL_ROUNDS = "cluster.round_pages = 60\ncluster.resolver_session_ms = 3000\n"


class ResizeCommand:
    """`spotsieve shards` with the settings of a service."""

    def __init__(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._config, self._capsys = str(config), capsys

    def __call__(self, *words: str) -> tuple[int, str]:
        self._capsys.readouterr()
        code = main(["shards", *words, "-c", self._config])
        printed = self._capsys.readouterr()
        return code, printed.out + printed.err

    def status(self) -> dict[str, Any]:
        code, text = self("status", "--json")
        assert code == 0, text
        found: dict[str, Any] = json.loads(text)
        return found


def three_shards(tmp_path: Path, toml: str, stack: ExitStack) -> list[Spotsieve]:
    """The shards that a service of two grows to, not started. The stack ends them."""
    words = (("run", "--role", "shard", *of_three(number)) for number in range(3))
    return [stack.enter_context(Spotsieve(tmp_path, toml, f"new-{number}", one)) for number, one in enumerate(words)]


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="two shards become three under a flow of pages; kill -9 of a new shard and of the resolver meanwhile",
)
def test_two_shards_become_three(kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = crawl(PAGES).messages
    with TopicSet(kafka.bootstrap_servers, shards=2) as topics, ExitStack() as stack:
        toml = topics.toml(KILLED_SESSION_MS) + SMALL_ROUNDS
        with Roles(tmp_path, topics, workers=1, shards=2, resolvers=1, toml=toml) as roles:
            ask, new = ResizeCommand(roles["worker-0"].config, capsys), three_shards(tmp_path, toml, stack)
            roles.start()
            assert ask("resize", "--shards", "3")[0] == 4, "there is no round yet"
            parts = [pages[at::PARTS] for at in range(PARTS)]
            topics.send(parts[0])
            topics.until_all_committed()
            status = ask.status()
            assert (status["shards"], status["outcomes"]["records_behind"], status["waits_for"]) == (2, 0, None)
            assert [one["rounds_behind"] for one in status["answering"]] == [0, 0]

            assert ask("resize", "--shards", "2")[0] == 0, "there are two already, so nothing is requested"
            assert "resize 2 -> 3 started; now start the new shards" in ask("resize", "--shards", "3")[1]
            assert "a resize 2 -> 3 is under way, got 4" in ask("resize", "--shards", "4")[1]
            for one in new[:2]:
                one.start()
            topics.send(parts[1])
            new[0].until_ready()
            new[0].kill()
            roles["resolver-0"].kill()
            for one in (roles["resolver-0"], new[0], new[2]):
                one.start()
            topics.send(parts[2])
            assert [ask.status()[name] for name in ("shards", "asked")] == [2, 3]
            for number in range(2):
                assert roles[f"shard-{number}"].wait() == 0
                assert (
                    "is not needed any more, because the number of shards is now 3" in roles[f"shard-{number}"].text()
                )
            topics.send(parts[3])
            topics.until_all_committed()
            wait_until(lambda: ask.status()["outcomes"]["records_behind"] == 0, SECONDS, "all outcomes to be published")
            status = ask.status()
            assert (status["shards"], status["asked"], len(status["answering"])) == (3, None, 3)
            assert "has no resize to cancel" in ask("resize", "--cancel")[1]
            for one in new:
                assert one.terminate() == 0
            roles.stop()
            roles.check({page.key for page in pages if page.key})


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="verdicts and the log lost their beginning, and two shards become three from snapshots",
)
def test_two_shards_become_three_from_snapshots(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, backup = crawl(PAGES).messages, tmp_path / "backup"
    with TopicSet(kafka.bootstrap_servers, shards=2) as topics, ExitStack() as stack:
        toml = topics.toml(KILLED_SESSION_MS) + SMALL_ROUNDS
        toml += f'cluster.snapshots = "{backup}"\n'
        with Roles(tmp_path, topics, workers=1, shards=2, resolvers=1, toml=toml) as roles:
            ask, new = ResizeCommand(roles["worker-0"].config, capsys), three_shards(tmp_path, toml, stack)
            roles.start()
            parts = [pages[at::PARTS] for at in range(PARTS)]
            topics.send(parts[0])
            topics.until_all_committed()
            wait_until(lambda: ask.status()["outcomes"]["records_behind"] == 0, SECONDS, "all outcomes to be published")
            topics.delete_before("verdicts", 1)
            code, text = ask("resize", "--shards", "3")
            assert code == 4, "there are no snapshots"
            assert "holds none of the present shards" in text
            assert "spotsieve state snapshot" in text
            outcome = ask.status()["outcomes"]["offset"] + AHEAD
            with taking_snapshots(roles, backup, outcome):
                topics.send(parts[1])
            # Pages went on meanwhile, and all before the round of the snapshots is gone.
            topics.until_all_committed()
            position, last_outcome = place_of_snapshots(snapshots_in(backup))
            assert last_outcome is not None
            assert outcome <= last_outcome.offset < ask.status()["outcomes"]["offset"]
            log = [record for record in topics.read("log") if record.offset < position]
            topics.delete_before("log", position)
            topics.delete_before("verdicts", last_round(topics, toml, last_outcome.offset))
            assert "resize 2 -> 3 started" in ask("resize", "--shards", "3")[1]
            new[0].start()
            new[0].until_ready()
            new[0].kill()
            for one in new:
                one.start()
            topics.send(parts[2])
            for number in range(2):
                assert roles[f"shard-{number}"].wait() == 0
            assert "began from snapshots of all shards" in new[1].text()
            topics.send(parts[3])
            topics.until_all_committed()
            wait_until(lambda: ask.status()["outcomes"]["records_behind"] == 0, SECONDS, "all outcomes to be published")
            assert (ask.status()["shards"], ask.status()["asked"]) == (3, None)
            for one in new:
                assert one.terminate() == 0
            roles.stop()
            log += [record for record in topics.read("log") if record.offset >= position]
            check_verdicts_sent(topics, toml, {page.key for page in pages if page.key}, log)


def last_round(topics: TopicSet, toml: str, before: int) -> int:
    """The offset of the announcement of the last round before this offset of `verdicts`."""
    digest = digest_of_settings(settings_from(toml))
    offsets = (
        decode_round_record(record.value or b"", digest, None, record.topic, record.offset).kind == KIND_RANGE
        and record.offset
        for record in topics.read("verdicts")
        if record.offset < before
    )
    return max(map(int, offsets))


@contextmanager
def taking_snapshots(roles: Roles, backup: Path, outcome: int) -> Iterator[None]:
    """Take a snapshot of each shard after an outcome that follows in the block."""
    states = [Path(roles[f"shard-{number}"].state) for number in range(2)]
    with ThreadPoolExecutor(len(states)) as threads:
        taken = [
            threads.submit(take_snapshot, state, backup / f"shard-{number}", SECONDS, after_outcome=outcome)
            for number, state in enumerate(states)
        ]
        for state in states:
            wait_until((state / FOLDER / REQUEST).exists, SECONDS, "the request for a snapshot")
        yield
        assert all(one.result().log_position for one in taken)


def of_three(number: int) -> tuple[str, ...]:
    return ("--shards", "3", "--shard", str(number))
