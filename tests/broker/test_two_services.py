"""Two services on one broker: with default names both are right, and topics that they share by mistake are refused."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage, crawl
from tests.fixtures.services.oracle import check_verdicts_sent
from tests.fixtures.services.roles import Roles
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until

PAGES = 24
ROLES = {"worker": (), "shard": ("--shard", "0"), "resolver": ()}


def topics_of(kafka: Broker) -> TopicSet:
    """The topics of a service with one shard. Those of its rounds have the names that the log gives them."""
    topics = TopicSet(kafka.bootstrap_servers, shards=1)
    for role in ("matches", "verdicts"):
        topics.names[role] = f"{topics.names['log']}.{role}"
    return topics


def toml_of(topics: TopicSet, **shared: str) -> str:
    """Its settings: topics of rounds are named only if they are shared."""
    lines = [line for line in topics.toml().splitlines() if not line.startswith(("topics.matches", "topics.verdicts"))]
    return "\n".join([*lines, *(f'topics.{role} = "{name}"' for role, name in shared.items()), ""])


def pages_of(number: int) -> list[PageMessage]:
    """Pages of a service, with copies among them and keys of their own, that no other service gets."""
    pages = crawl(PAGES, seed=number).messages
    return [replace(page, key=b"%d %s" % (number, page.key)) for page in pages if page.key]


@pytest.fixture(scope="module")
def first(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    """A service that has judged pages and goes on running."""
    with topics_of(kafka) as topics:
        toml = toml_of(topics)
        with Roles(tmp_path_factory.mktemp("first"), topics, 1, 1, 1, toml) as roles:
            roles.start()
            topics.send(pages_of(1))
            topics.until_all_committed()
            yield roles
            roles.stop()


@pytest.mark.guarantee(
    "two services need to differ only in input, outputs, log and group",
    fault="two services with shards on one broker, with the default names of their other topics",
)
def test_two_services_with_default_names_are_both_right(kafka: Broker, first: Roles, tmp_path: Path) -> None:
    with topics_of(kafka) as topics, Roles(tmp_path, topics, 1, 1, 1, toml_of(topics)) as second:
        second.start()
        for number, one in enumerate((first.topics, topics), 2):
            one.send(pages_of(number))
        for one in (first.topics, topics):
            one.until_all_committed()
        check_verdicts_sent(topics, second.toml, {page.key for page in pages_of(3) if page.key})
        sent = {page.key for number in (1, 2) for page in pages_of(number) if page.key}
        check_verdicts_sent(first.topics, first.toml, sent)
        assert topics.log_id() != first.topics.log_id()
        second.stop()


@pytest.mark.guarantee(
    "verdicts of another service are rejected",
    fault="two services on one broker share the topic of verdicts, or the topic of matches",
)
@pytest.mark.parametrize(("role", "refused"), [("verdicts", ("worker", "shard", "resolver")), ("matches", ("shard",))])
def test_a_topic_of_rounds_that_two_services_share_is_refused(
    kafka: Broker, first: Roles, tmp_path: Path, role: str, refused: tuple[str, ...]
) -> None:
    with topics_of(kafka) as topics, ExitStack() as stack:
        before = first.topics.ends(role)
        toml = toml_of(topics, **{role: first.topics.names[role]})
        second = {
            name: stack.enter_context(Spotsieve(tmp_path, toml, name, ("run", "--role", name, *more)))
            for name, more in ROLES.items()
        }
        topics.send(pages_of(4))
        second["worker"].start()
        wait_until(lambda: topics.ends("log")[0] > 0, SECONDS, "the worker to begin its log")
        for name in refused:
            if name != "worker":
                second[name].start()
        for name in refused:
            assert second[name].wait() == 4, second[name].text()
            error = second[name].error()
            assert first.topics.names[role] in error
            assert topics.log_id() in error
            assert first.topics.log_id() in error
            assert "topics of its own" in error
            assert "delete" not in error
        assert first.topics.ends(role) == before, "nothing was written for the other service"
        assert topics.uncommitted() == PAGES
        assert topics.ends("novel") == topics.ends("duplicates") == {0: 0}
        first.topics.send(pages_of(5)[:3])
        first.topics.until_all_committed()


@pytest.mark.guarantee(
    "workers of one group follow one log",
    fault="a worker with another topics.log and the same kafka.group_id",
)
def test_a_worker_of_another_log_waits_until_the_workers_of_its_group_have_left(kafka: Broker, tmp_path: Path) -> None:
    pages = pages_of(6)
    with TopicSet(kafka.bootstrap_servers) as topics, TopicSet(kafka.bootstrap_servers) as other:
        toml = topics.toml()
        mixed = toml.replace(topics.names["log"], other.names["log"])
        assert mixed != toml
        with Spotsieve(tmp_path, toml, "first") as first, Spotsieve(tmp_path, mixed, "second") as second:
            first.start().until_ready()
            topics.send(pages[:12])
            topics.until_all_committed()
            second.start()
            wait_until(lambda: "no workers of this log" in second.text(), SECONDS, "the second worker to be refused")
            assert topics.group in second.text()
            status, why = second.get("/readyz")
            assert (status, "no workers of this log" in why) == (503, True)
            topics.send(pages[12:])
            topics.until_all_committed()
            check_verdicts_sent(topics, toml, {page.key for page in pages if page.key})
            assert (first.terminate(), second.until_ready().terminate()) == (0, 0)
