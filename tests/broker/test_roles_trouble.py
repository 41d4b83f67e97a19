"""Workers, shards and resolvers on a real broker: one running service, and one trouble after the other."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import xxhash

from spotsieve.state.log.record import decode, encode
from spotsieve.stream.base.errors import EXIT_STATE
from spotsieve.stream.service.pages.poison_pages import FOLDER
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.conftest import Broker
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.fixtures.pages.crawls import PageMessage, crawl, html_of, json_page
from tests.fixtures.services.breaking import WORD, breaking_judge
from tests.fixtures.services.oracle import verdicts_sent
from tests.fixtures.services.roles import Roles
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until

PAGES = 1_400
SETTINGS = "cluster.round_pages = 1000\ncluster.resolver_session_ms = 3000\n"
LONG_ADDRESS, LONG_PAGES = 1_900, 800
"""This many originals with such URLs are more than a message, and those of a shard's hosts are less."""
BREAKS_EVERY = 20
WORKERS = ("worker-0", "worker-1")
pytestmark = pytest.mark.slow


class Service:
    """The service that all tests of this file share. Each sends pages of its own, and all sent so far are checked."""

    def __init__(self, roles: Roles) -> None:
        self.roles, self.topics = roles, roles.topics
        self._left, self._sent = crawl(PAGES).messages, list[PageMessage]()

    def send(self, pages: int | Sequence[PageMessage]) -> None:
        """Send these pages, or so many of the next ones."""
        if isinstance(pages, int):
            count, pages = pages, self._left[:pages]
            self._left = self._left[count:]
        self.topics.send(pages)
        self._sent += pages

    def check(self) -> None:
        """Wait until all is committed, and check every verdict, and that no round has two outcomes."""
        self.topics.until_all_committed()
        self.roles.check({page.key for page in self._sent if page.key})
        outcomes = self.roles.outcomes()
        assert len(outcomes) == len(set(outcomes)), "a round with two outcomes"


@pytest.fixture(scope="module")
def service(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with TopicSet(kafka.bootstrap_servers, partitions=2, shards=2) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + SETTINGS
        with Roles(tmp_path_factory.mktemp("roles"), topics, workers=2, shards=2, resolvers=2, toml=toml) as roles:
            yield Service(roles.start())


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="a resolver is frozen with an open round until another works, and then goes on",
)
def test_a_resolver_that_wakes_up_is_fenced_and_doubles_nothing(service: Service) -> None:
    roles = service.roles
    roles["shard-1"].freeze()
    roles.until_answered(0, lambda: service.send(100))
    first = roles.active()
    first.freeze()
    second = roles.active(but=first)
    roles["shard-1"].thaw()
    service.topics.until_all_committed()
    # The responses are all there, so it publishes its own outcome of the same round at once.
    first.thaw()
    wait_until(lambda: "on standby" in first.get("/readyz")[1], SECONDS, "the first resolver to stand by", 0.2)
    assert second.get("/readyz")[0] == 200
    service.send(100)
    service.check()


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="responses of an open round are gone from matches; then the resolver is killed, too",
)
@pytest.mark.parametrize("killed", [False, True])
def test_answers_that_are_gone_are_given_once_more(service: Service, killed: bool) -> None:
    roles = service.roles
    roles["shard-1"].freeze()
    roles.until_answered(0, lambda: service.send(50))
    service.topics.delete_before("matches", service.topics.ends("matches")[0])
    if killed:
        active = roles.active()
        active.kill()
        roles.active()
        active.start()
    roles["shard-1"].thaw()
    service.check()


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="matches is recreated, with and without an open round",
)
@pytest.mark.parametrize("is_open", [False, True])
def test_recreated_matches_stop_no_role(service: Service, is_open: bool) -> None:
    roles, topics = service.roles, service.topics
    everybody = [roles[f"{role}-{number}"] for role in ("resolver", "shard", "worker") for number in range(2)]
    if is_open:
        roles["shard-1"].freeze()
        roles.until_answered(0, lambda: service.send(50))
    for process in everybody:
        process.kill()
    topics.recreate("matches")
    assert topics.ends("matches")[0] == 0
    for process in everybody:
        process.start()
    service.send(50)
    service.check()


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process", fault="a resolver of another group, or of other settings"
)
def test_a_resolver_that_does_not_fit_gives_no_verdict(service: Service, tmp_path: Path) -> None:
    toml, command = service.roles.toml, ("run", "--role", "resolver")
    with Spotsieve(tmp_path, toml + "scheme.min_features = 9\n", "other-settings", command) as other:
        assert other.run_to_end() == EXIT_STATE, other.text()
        assert "scheme.min_features" in other.error()
    named = toml.replace(f'kafka.group_id = "{service.topics.group}"', f'kafka.group_id = "{service.topics.group}x"')
    assert named != toml
    with Spotsieve(tmp_path, named, "other-group", command).start() as other:
        wait_until(lambda: "on standby" in other.get("/readyz")[1], SECONDS, "it to stand by", 0.2)
        service.send(50)
        service.check()


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="a round whose outcome or response is larger than a message",
)
@pytest.mark.parametrize(("hosts", "what"), [(1, "the response of a shard"), (8, "the outcome")])
def test_a_round_too_large_for_a_message_is_repeated_with_half_of_its_pages(
    service: Service, hosts: int, what: str
) -> None:
    roles = service.roles
    originals = [_long(hosts, 0, number) for number in range(LONG_PAGES)]
    copies = [_long(hosts, 1, number) for number in range(LONG_PAGES)]
    service.send(originals)
    service.topics.until_all_committed()
    resolver = roles.active()
    named = len(_smaller(resolver))
    roles["shard-1"].freeze()
    # All copies are in the log before the next round is cut.
    roles.until_answered(0, lambda: service.send(1))
    ends = service.topics.ends("log")[0]
    service.send(copies)
    wait_until(lambda: service.topics.ends("log")[0] > ends, SECONDS, "the copies to come to the log", 0.2)
    _until_still(service.topics)
    roles["shard-1"].thaw()
    service.check()
    assert f"{what} exceeds the message limit" in _smaller(resolver)[named:]


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="a shard of other settings, or of another number of shards",
)
def test_a_shard_that_does_not_fit_is_refused_in_one_line(service: Service, tmp_path: Path) -> None:
    toml = service.roles.toml
    of = {
        "other settings": (toml + "scheme.min_features = 9\n", EXIT_STATE),
        "another number": (toml.replace("cluster.shards = 2", "cluster.shards = 3"), 2),
    }
    for name, (text, code) in of.items():
        with Spotsieve(tmp_path, text, name.replace(" ", "-"), ("run", "--role", "shard", "--shard", "1")) as other:
            assert other.run_to_end() == code, other.text()
            assert {"other settings": "settings", "another number": "must have at least 3 partitions"}[
                name
            ] in other.error()
    service.send(20)
    service.check()


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="a record of a later release in verdicts; verdicts is recreated; then matches, too",
)
def test_recreated_verdicts_are_refused_until_the_shards_restart(service: Service) -> None:
    roles, topics = service.roles, service.topics
    for name in ("worker-1", "resolver-0"):
        roles[name].kill()
    roles.active()
    newer = bytearray(topics.read("verdicts")[-1].value)
    newer[4] += 1
    newer[-8:] = xxhash.xxh3_64_intdigest(newer[:-8]).to_bytes(8, "little")
    topics.send([PageMessage(None, bytes(newer))], role="verdicts")
    left = [roles[name] for name in ("worker-0", "shard-0", "shard-1")]
    for process in left:
        assert process.wait() == EXIT_STATE, process.text()
        assert "let all roles run the same release" in process.error()
    roles["resolver-1"].kill()
    topics.recreate("verdicts")
    shards = left[1:]
    for shard in shards:
        shard.start()
    for shard in shards:
        assert shard.wait() == EXIT_STATE, shard.text()
        assert "recreated or lost it" in shard.error()
        assert "spotsieve topics create" in shard.error()
        shutil.rmtree(shard.state)
    topics.recreate("matches")
    for process in (*left, roles["resolver-1"]):
        process.start()
    service.send(50)
    service.check()


@pytest.mark.guarantee("a recreated log is rejected", fault="the log of shards is recreated and filled")
def test_roles_refuse_a_log_that_was_recreated_and_filled_again(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers, partitions=1, shards=1) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + SETTINGS
        with Roles(tmp_path, topics, workers=1, shards=1, resolvers=1, toml=toml) as roles:
            roles.start()
            topics.send(crawl(60).messages)
            topics.until_all_committed()
            for name in ("worker-0", "shard-0", "resolver-0"):
                assert roles[name].terminate() == 0
            records = [decode(record.value) for record in topics.read("log")] * 2
            topics.recreate("log")
            values = [
                encode(one.signatures, bytes(15) + b"w", at, one.settings_digest) for at, one in enumerate(records)
            ]
            topics.send([PageMessage(None, value, (), None) for value in values], role="log")
            for name in ("shard-0", "resolver-0"):
                assert roles[name].run_to_end() == EXIT_STATE, roles[name].text()
                assert "must be the record that the state applied there" in roles[name].error()
                assert "restore that log" in roles[name].error()


@pytest.mark.guarantee(
    "a page that causes an internal error stops no worker", fault="an error in a shard, then in the resolver"
)
def test_pages_that_break_a_round_are_passed_on_and_everybody_files_the_same(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = service.roles
    shard, resolver, standby = roles["shard-1"], roles["resolver-1"], roles["resolver-0"]
    # The oracle breaks on the same pages. A resolver that stands by would go on in the place of a killed one.
    monkeypatch.setattr(SpotsieveScheme, "probe", breaking_judge(SpotsieveScheme.probe))
    shard.kill()
    with as_broken(shard, "judge"):
        service.send([_breaking(n) for n in range(60)])
        service.check()
        assert "a defect of Spotsieve stopped these pages" in shard.text()
        shard.kill()
    standby.kill()
    resolver.kill()
    # Without the defect it files all rounds again, with the pages that the resolver has published.
    shutil.rmtree(shard.state)
    shard.start()
    with as_broken(resolver, "resolve"):
        service.send([_breaking(n) for n in range(60, 120)])
        service.check()
        assert "a defect of Spotsieve stopped these pages" in resolver.text()
        resolver.kill()
    resolver.start()
    service.send([json_page(200_000 + n, html_of(60_000_000 + n)) for n in range(120)])
    service.check()
    kept = [json.loads(path.read_text()) for name in WORKERS for path in (roles[name].state / FOLDER).glob("*.json")]
    broken = {n for n in range(120) if n % BREAKS_EVERY == 0}
    assert len(kept) == len(broken)
    assert all(report["step"] == "judge" and "Defect" in report["traceback"] for report in kept)
    sent = verdicts_sent(service.topics)
    assert {n for n in range(120) if sent[_breaking(n).key or b""] == [("unchecked", None)]} == broken
    found = {n for n in range(120) if sent[json_page(200_000 + n, "").key or b""][0][0] == "novel"}
    assert found == broken, "what broke the code is no original"


@contextmanager
def as_broken(process: Spotsieve, step: str) -> Iterator[None]:
    """Start a role with a defect; the next start is one without."""
    module, command = process.module, process.command
    process.module, process.command = "tests.fixtures.services.breaking", (step, *command[1:])
    process.start()
    yield
    process.module, process.command = module, command


def _breaking(number: int) -> PageMessage:
    """A page of these tests; some of them, at regular distances, break the code."""
    word = WORD if number % BREAKS_EVERY == 0 else "plain"
    return json_page(100_000 + number, html_of(60_000_000 + number), url=f"https://b.example/{word}/{number}")


def _long(hosts: int, template: int, number: int) -> PageMessage:
    """A page of a long address; with template 1 the copy of that of template 0, on the same host."""
    shown, key = 50_000_000 + 1_000 * hosts + number, 10_000 * (10 * hosts + template) + number
    url = f"https://h{number % hosts}.example/{key}/" + "long" * (LONG_ADDRESS // 4)
    return json_page(key + 1_000_000, html_of(shown, template, sentences=5), url=url)


def _smaller(resolver: Spotsieve) -> list[str]:
    return [
        line["because"] for line in resolver.lines() if line["event"] == "a round is announced again with fewer pages"
    ]


def _until_still(topics: TopicSet) -> None:
    """Wait until the log has all pages that were sent: its end stays where it is."""
    seen = list[int]()

    def still() -> bool:
        seen.append(topics.ends("log")[0])
        return len(seen) > 4 and len(set(seen[-4:])) == 1

    wait_until(still, SECONDS, "the log to stand still", 0.3)
