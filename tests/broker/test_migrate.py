"""A service is migrated while it runs: other settings, another log, no page lost, none twice."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewTopic

from spotsieve.state.log.record import decode
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.cli import main
from spotsieve.stream.kafka.clients import administrator
from tests.conftest import Broker
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet, make_topics
from tests.fixtures.pages.crawls import PageMessage, crawl, edited, html_of, json_page
from tests.fixtures.services.freezing import Freezing
from tests.fixtures.services.oracle import ids_by_key, judge_again, settings_from, verdicts_sent
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.waiting import SECONDS, wait_until

STRICTER = "scheme.min_containment = 0.99\n"


@contextmanager
def new_log(topics: TopicSet) -> Iterator[str]:
    """Another log topic on the broker of these topics, deleted at the end."""
    name = f"{topics.names['log']}-new"

    async def act(delete: bool) -> None:
        async with administrator(bootstrap_servers=topics.servers) as admin:
            await (admin.delete_topics([name]) if delete else make_topics(admin, [NewTopic(name, 1, 1)]))

    asyncio.run(act(delete=False))
    yield name
    asyncio.run(act(delete=True))


class Sides:
    """The old and the new configuration of one service."""

    def __init__(self, folder: Path, topics: TopicSet, log: str, changes: str, more: str = "") -> None:
        common = topics.toml(KILLED_SESSION_MS) + more
        self.topics, self.log = topics, log
        self.old = Spotsieve(folder, common, "old")
        self.new_toml = common.replace(topics.names["log"], log) + changes
        self.new = Spotsieve(folder, self.new_toml, "new")
        self.new.config.write_text(f'{self.new_toml}\nindex.directory = "{self.new.state}"\n')
        options = ("migrate", "--json", "--to", str(self.new.config))
        self.moving = Spotsieve(folder, common + f'index.directory = "{self.old.state}"\n', "moving", options)
        self.archive = folder / "archive.jsonl"
        archive = ("--from-pages", str(self.archive))
        self.switching = Spotsieve(folder, self.moving.toml, "switching", (*options, "--switch"))
        self.with_archive = Spotsieve(folder, self.moving.toml, "with-archive", (*options, "--switch", *archive))

    def moved(self, moving: Spotsieve) -> dict[str, Any]:
        """Run a migration to its end; -> its report."""
        assert moving.run_to_end() == 0, moving.text()
        text = moving.text()
        found: dict[str, Any] = json.loads(text[text.index("{\n") :])
        return found

    def log_end(self) -> int:
        async def end_offset() -> int:
            from aiokafka import AIOKafkaConsumer, TopicPartition

            async with AIOKafkaConsumer(bootstrap_servers=self.topics.servers) as consumer:
                (end,) = (await consumer.end_offsets([TopicPartition(self.log, 0)])).values()
                return int(end)

        return asyncio.run(end_offset())

    def records(self) -> list[Any]:
        """The records of the new log."""
        names, self.topics.names["log"] = self.topics.names["log"], self.log
        try:
            return self.topics.read("log")
        finally:
            self.topics.names["log"] = names


@pytest.mark.guarantee(
    "a migrated service loses no page and doubles none",
    fault="it runs on, kill -9 of the migration, an old worker starts again",
)
@pytest.mark.timeout(900)
def test_a_running_service_is_migrated_and_switched_without_a_lost_or_doubled_page(
    kafka: Broker, tmp_path: Path
) -> None:
    made = with_edits(crawl(2_400, copies_percent=40, seed=7).messages)
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics, new_log(topics) as log:
        sides = Sides(tmp_path, topics, log, STRICTER, "service.batch_pages = 20\n")
        waiting = Spotsieve(tmp_path, sides.new_toml, "waiting")
        with sides.old as old, sides.moving as moving, sides.switching as switching, waiting, sides.new as new:
            old.begin(topics, made[:1_000], committed=600)
            moving.start()

            def begun() -> bool:
                assert moving.alive.poll() is None, moving.text()
                return sides.log_end() > 5

            wait_until(begun, SECONDS, "the new log to have records", every=0.02)
            moving.kill()
            at_kill = sides.log_end()
            waiting.start()
            topics.send(made[1_000:1_500])
            found = sides.moved(moving)
            assert found["moved_up_to"] > at_kill, "it was killed in the middle"
            assert not found["open"]
            wait_until(lambda: "waiting until the log is open" in waiting.get("/readyz")[1], SECONDS, "it to wait")
            topics.send(made[1_500:2_000])
            report = sides.moved(switching)
            assert report["open"]
            assert report["old_by_new"]["duplicate"]["novel"] > 0
            assert old.wait() == 4, old.text()
            assert f"ends here and goes on in the log {log!r}" in old.error()
            assert old.run_to_end() == 4, "an old worker never joins again"
            waiting.until_ready()
            topics.until_all_committed()
            topics.send(made[2_000:])
            new.start().until_ready()  # over the state that the migration has made
            topics.until_all_committed()
            assert new.terminate() == 0, new.text()
            assert waiting.terminate() == 0, waiting.text()
        in_memory = check_both_sides(sides, topics, made)
        text = verdict_settings_text(settings_from(sides.new_toml))
        for service in (sides.new, waiting):
            with disk_state(service.state, text, log, settings_from(sides.new_toml).index) as state:
                if state.position == in_memory.position:
                    assert first_difference(state, in_memory) is None
                else:
                    assert service is sides.new, "which ended before the other one had written its last marks"


def check_both_sides(sides: Sides, topics: TopicSet, made: Sequence[PageMessage]) -> State:
    """Check that each page has one verdict, by the old log before its end or by the new one; -> the new log's state."""
    sent = verdicts_sent(topics)
    assert sent.keys() == {message.key for message in made}, "a lost page"
    assert {key: found for key, found in sent.items() if len(found) > 1} == {}, "a doubled page"
    pages = ids_by_key(topics)
    novel = {pages[key] for key in sent if sent[key][0][0] == "novel"}
    originals = {of for ((kind, of),) in sent.values() if kind == "duplicate"}
    assert originals <= novel, "a page was dropped for an original that was not emitted"
    expected = judge_again(sides.old.toml, until_closed(topics), topics.names["log"])[0]
    becomes, in_memory = judge_again(sides.new_toml, sides.records(), sides.log)
    by_old = {key for key in sent if sent[key][0] == expected.get(pages[key])}
    by_new = {key for key in sent if sent[key][0] == becomes[pages[key]]}
    assert by_old | by_new == sent.keys()
    assert by_old - by_new, "pages that only the old settings judge so"
    assert by_new - by_old, "and only the new ones"
    return in_memory


def with_edits(messages: Sequence[PageMessage]) -> list[PageMessage]:
    """A quarter of the pages as an editor changed them: copies of the others are near, and not exact."""
    made = list(messages)
    for number in range(0, len(made), 4):
        page = json.loads(made[number].value or b"")
        made[number] = replace(made[number], value=json.dumps(page | {"body": edited(page["body"])}).encode())
    return made


def until_closed(topics: TopicSet) -> list[Any]:
    """The old log up to the record that ends it: nobody judges what is behind."""
    found = list[Any]()
    for record in topics.read("log"):
        handover = decode(record.value).handover
        if handover is not None and handover.closed:
            return found
        found.append(record)
    raise AssertionError("the old log has no end")


@pytest.mark.guarantee(
    "a migrated service loses no page and doubles none",
    fault="two old workers frozen before the switch, one in a transaction; one wakes up before the new worker starts, "
    "the other after it has taken over",
)
@pytest.mark.timeout(900)
def test_old_workers_that_are_frozen_over_the_switch_lose_and_double_nothing(kafka: Broker, tmp_path: Path) -> None:
    made = with_edits(crawl(2_400, copies_percent=40, seed=11).messages)
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics, new_log(topics) as log:
        sides = Sides(tmp_path, topics, log, STRICTER, "service.batch_pages = 20\n")
        second = Spotsieve(tmp_path, sides.old.toml, "second")
        sleeping = Freezing(tmp_path, sides.old.toml, "sleeper", transactions=3)
        with sleeping as sleeper, second, sides.switching as switching, sides.new as new:
            for worker in (sleeper, second):
                worker.start().until_ready()
            wait_until(lambda: sleeper.metric("spotsieve_assigned_partitions") == 1, SECONDS, "it to give one away")
            second.until_metric("spotsieve_assigned_partitions", 1)
            sleeper.arm()
            topics.send(made[:2_000])
            sleeper.until_frozen()
            second.freeze()
            assert topics.in_transaction()
            assert sides.moved(switching)["open"]
            second.thaw()
            assert second.wait() == 4, second.text()
            new.start().until_ready()
            topics.until_all_committed()
            sleeper.thaw()
            topics.send(made[2_000:])
            assert sleeper.wait() == 4, sleeper.text()
            assert f"ends here and goes on in the log {log!r}" in sleeper.error()
            topics.until_all_committed()
            assert new.terminate() == 0, new.text()
        check_both_sides(sides, topics, made)


@pytest.mark.guarantee(
    "a migrated service loses no page and doubles none",
    fault="pages are signed again; some are gone from the topic, and some of these from the archive, too",
)
@pytest.mark.timeout(900)
def test_pages_are_signed_again_from_the_topic_and_from_files(kafka: Broker, tmp_path: Path) -> None:
    changes = "scheme.shingle_words = 4\nindex.horizon_hours = 100\n"
    with TopicSet(kafka.bootstrap_servers, partitions=1) as topics, new_log(topics) as log:
        sides = Sides(tmp_path, topics, log, changes, "service.batch_pages = 13\n")
        with sides.old as old, sides.with_archive as switching, sides.new as new:
            old.start().until_ready()
            first = [json_page(number, html_of(number)) for number in range(60)]
            topics.send(first)
            old.until_committed(60)
            assert main(["state", "forget", "-c", str(old.config), "--url", "https://crawl.example/50"]) == 0
            old.until_metric("spotsieve_forgotten_pages_total", 1)
            topics.delete_before("input", 10)
            # The archive has the first ten but one, and other bytes under the address of another one.
            kept = [first[number].value or b"" for number in range(10) if number not in (3, 7)]
            sides.archive.write_bytes(b"\n".join([*kept, json_page(7, html_of(107)).value or b"", b""]))
            report = sides.moved(switching)
            assert (report["signed_again"], report["pages"], report["pages_gone"]) == (True, 60, 2)
            assert (report["pages_from_files"], report["pages_unlike"]) == (8, 1)
            assert (report["forgotten"], report["differ"], report["open"]) == (1, 0, True)
            assert old.wait() == 4, old.text()
            copies = [json_page(100 + number, edited(html_of(number))) for number in (3, 5, 7, 20, 50, 59)]
            topics.send(copies)
            new.start().until_ready()
            topics.until_all_committed()
            assert new.terminate() == 0, new.text()
        sent = verdicts_sent(topics)
        assert [len(sent[message.key or b""]) for message in (*first, *copies)] == [1] * 66
        verdicts = [sent[message.key or b""][0][0] for message in copies]
        assert verdicts == ["novel", "duplicate", "novel", "duplicate", "novel", "duplicate"]
        # The switch is done: to ask for it again says so and changes nothing.
        again = sides.moved(switching)
        assert again["open"]


def test_two_configurations_with_one_log_or_different_groups_are_rejected(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, new_log(topics) as log:
        config = tmp_path / "old.toml"
        config.write_text(topics.toml() + f'index.directory = "{tmp_path / "old"}"\n')
        run = ["migrate", "-c", str(config)]
        for given, message in (
            ([], "topics.log must differ from the old configuration"),
            ([f"topics.log={log}"], "index.directory must differ from the old configuration"),
            (
                [f"topics.log={log}", f"index.directory={tmp_path / 'new'}", "kafka.group_id=x"],
                "kafka.group_id must be",
            ),
            ([f"topics.log={log}", f"index.directory={tmp_path / 'new'}"], "is empty; there is nothing to migrate"),
        ):
            began = time.monotonic()
            assert main([*run, *(word for one in given for word in ("--set", one))]) in (2, 4)
            assert message in capsys.readouterr().err
            assert time.monotonic() - began < 60


@pytest.mark.timeout(600)
def test_messages_of_a_recreated_input_are_not_signed_for_earlier_pages(kafka: Broker, tmp_path: Path) -> None:
    pages = [json_page(number, html_of(number % 5)) for number in range(10)]
    others = [json_page(100 + number, html_of(100 + number)) for number in range(8)]
    with TopicSet(kafka.bootstrap_servers) as topics, new_log(topics) as log:
        sides = Sides(tmp_path, topics, log, "scheme.shingle_words = 4\n", 'kafka.restart_from = "earliest"\n')
        with sides.old as old, sides.switching as switching, sides.new as new:
            topics.send(pages)
            old.start().until_ready()
            topics.until_all_committed()
            assert old.terminate() == 0, old.text()
            topics.recreate("input")
            topics.send(others)
            old.start().until_ready()
            topics.until_all_committed()
            assert old.terminate() == 0, old.text()
            report = sides.moved(switching)
            assert (report["pages"], report["pages_gone"], report["unsent"]) == (18, 10, 0)
            topics.send([json_page(200, html_of(105)), json_page(201, html_of(0))])
            new.start().until_ready()
            topics.until_all_committed()
            assert new.terminate() == 0, new.text()
        sent = verdicts_sent(topics)
    # The first is a copy of a page of the recreated topic; the content of the other one's original is gone.
    assert [sent[f"https://crawl.example/{number}".encode()][0][0] for number in (200, 201)] == ["duplicate", "novel"]
