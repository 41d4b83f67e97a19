"""A missing login or right ends in one clear line, and that the rights we ask for suffice."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka.protocol.admin import CreateAclsRequest

from spotsieve.stream.base.errors import EXIT_BROKER, EXIT_SETTING
from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from spotsieve.stream.kafka.clients import administrator
from tests.fixtures.brokers.listeners import Listener, free_ports, listener_settings
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.service import Spotsieve

PASSWORD = "s3cret-of-the-crawl"
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
LITERAL, PREFIXED = 3, 4
READ, WRITE, DESCRIBE_CONFIGS = 3, 4, 10
ALLOW = 3

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="broker" password="{PASSWORD}-of-the-broker" user_crawl="{PASSWORD}";'
)


@dataclass(frozen=True)
class Guarded:
    """A broker with two doors: one where everybody may do everything, and one with a login and rights."""

    open_servers: str
    guarded_servers: str


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    prepare()
    open_door, login, controller = free_ports(3)
    listeners = {"PLAINTEXT": Listener(open_door), "SASL_PLAINTEXT": Listener(login, "SASL_PLAINTEXT")}
    settings = {
        **listener_settings(listeners, controller),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with LocalKafka(port=open_door, settings=settings):
        yield Guarded(f"127.0.0.1:{open_door}", f"127.0.0.1:{login}")


def rights(topics: TopicSet) -> dict[str, tuple[int, str, int, int]]:
    """What `spotsieve run` says it needs, by a name to leave one out."""
    group = f"group-{topics.suffix}"
    return {
        "read input": (TOPIC, topics.names["input"], LITERAL, READ),
        "read log": (TOPIC, topics.names["log"], LITERAL, READ),
        **{
            f"write {role}": (TOPIC, topics.names[role], LITERAL, WRITE) for role in ("novel", "duplicates", "rejected")
        },
        "write log": (TOPIC, topics.names["log"], LITERAL, WRITE),
        "read group": (GROUP, group, LITERAL, READ),
        "write transactional ids": (TRANSACTIONAL_ID, group, PREFIXED, WRITE),
    }


def grant(guarded: Guarded, given: list[tuple[int, str, int, int]]) -> None:
    async def act() -> None:
        async with administrator(bootstrap_servers=guarded.open_servers) as admin:
            for kind, name, pattern, operation in given:
                request = CreateAclsRequest(kind, name, pattern, "User:crawl", "*", operation, ALLOW)
                response = await admin._send_to_controller(request)
                assert response.creation_responses[0][0] == 0, response

    asyncio.run(act())


def toml_for(guarded: Guarded, topics: TopicSet, more: str = "") -> str:
    return topics.toml().replace(guarded.open_servers, guarded.guarded_servers) + (
        'kafka.security_protocol = "SASL_PLAINTEXT"\nkafka.sasl_username = "crawl"\nlog.level = "debug"\n' + more
    )


LOGIN = {"SPOTSIEVE_KAFKA__SASL_PASSWORD": PASSWORD}


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_the_rights_that_the_error_asks_for_suffice(guarded: Guarded, tmp_path: Path, guarantee: str) -> None:
    with TopicSet(guarded.open_servers) as topics:
        needed = rights(topics)
        if guarantee == "at_least_once":
            del needed["write transactional ids"]
        grant(guarded, list(needed.values()))
        (tmp_path / "password").write_text(PASSWORD + "\n")
        toml = toml_for(guarded, topics, f'service.guarantee = "{guarantee}"\n')
        secret = {"SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE": str(tmp_path / "password")}
        with Spotsieve(tmp_path, toml, environment=secret) as service:
            topics.send(crawl(20).messages)
            service.start().until_ready()
            service.until_committed(20)
            assert service.terminate() == 0, service.text()
            assert PASSWORD not in service.text()


def test_a_check_that_may_not_read_the_settings_of_topics_warns_of_them(guarded: Guarded, tmp_path: Path) -> None:
    with TopicSet(guarded.open_servers, config={"cleanup.policy": "compact"}) as topics:
        grant(guarded, list(rights(topics).values()))
        check = Spotsieve(tmp_path, toml_for(guarded, topics), command=("topics", "check"), environment=LOGIN)
        with check:
            assert check.run_to_end() == 0, check.text()
            (line,) = [line for line in check.lines() if "DescribeConfigs" in line["event"]]
            assert (line["level"], line["topics"]) == ("warning", sorted(topics.names.values()))
            grant(guarded, [(TOPIC, name, LITERAL, DESCRIBE_CONFIGS) for name in topics.names.values()])
            assert check.run_to_end() == EXIT_SETTING, check.text()
            assert "topics.log must not be compacted" in check.error()
            assert "DescribeConfigs" not in check.text()


@pytest.mark.parametrize(
    "missing",
    [
        "read input",
        "read log",
        "write novel",
        "write duplicates",
        "write log",
        "read group",
        "write transactional ids",
    ],
)
def test_a_missing_right_is_named_with_what_to_grant(guarded: Guarded, tmp_path: Path, missing: str) -> None:
    with TopicSet(guarded.open_servers) as topics:
        needed = rights(topics)
        del needed[missing]
        grant(guarded, list(needed.values()))
        topics.send(crawl(20).messages)
        with Spotsieve(tmp_path, toml_for(guarded, topics), environment=LOGIN) as service:
            assert service.run_to_end() == EXIT_BROKER, service.text()
            line = service.error()
            assert "permission" in line
            assert "grant" in line
            assert "crawl" in line
            assert PASSWORD not in service.text()
        assert topics.uncommitted() == 20


def test_a_wrong_password_is_refused_and_never_shown(guarded: Guarded, tmp_path: Path) -> None:
    with TopicSet(guarded.open_servers) as topics:
        wrong = {"SPOTSIEVE_KAFKA__SASL_PASSWORD": "wr0ng-passw0rd"}
        with Spotsieve(tmp_path, toml_for(guarded, topics), environment=wrong) as service:
            assert service.run_to_end() == EXIT_BROKER
            assert "password" in service.error()
            assert "wr0ng" not in service.text()


def test_a_login_at_a_door_without_one_is_explained(guarded: Guarded, tmp_path: Path) -> None:
    with TopicSet(guarded.open_servers) as topics:
        toml = toml_for(guarded, topics).replace(guarded.guarded_servers, guarded.open_servers)
        with Spotsieve(tmp_path, toml, environment=LOGIN) as service:
            assert service.run_to_end() == EXIT_BROKER
            assert "security_protocol" in service.error()
            assert PASSWORD not in service.text()
