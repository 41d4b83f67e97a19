"""Workers, shards and resolvers are killed in mid-run: nothing is lost or doubled, and all verdicts are right."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.roles import Roles

PAGES, PARTS = 2_000, 4


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="kill -9 of a resolver, a shard and a worker in mid-run; a shard loses its disk",
)
def test_roles_that_are_killed_lose_and_double_nothing(kafka: Broker, tmp_path: Path) -> None:
    pages = crawl(PAGES).messages
    with TopicSet(kafka.bootstrap_servers, partitions=2, shards=2) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + "cluster.round_pages = 100\ncluster.resolver_session_ms = 3000\n"
        with Roles(tmp_path, topics, workers=2, shards=2, resolvers=2, toml=toml) as roles:
            roles.start()
            parts = [pages[at::PARTS] for at in range(PARTS)]
            topics.send(parts[0])
            roles.active().kill()
            topics.send(parts[1])
            roles.active()
            roles["shard-0"].kill()
            roles["worker-0"].kill()
            topics.send(parts[2])
            for name in ("shard-0", "worker-0"):
                roles[name].start()
            topics.until_all_committed()
            lost = roles["shard-1"]
            lost.kill()
            shutil.rmtree(lost.state)
            lost.start()
            topics.send(parts[3])
            topics.until_all_committed()
            rounds = lost.metric("spotsieve_rounds_total")
            answered = lost.metric("spotsieve_stage_duration_seconds_count", stage="find_candidates")
            assert answered < rounds / 2, "rounds judged before are indexed, and not judged again"
            roles.stop()
            roles.check({page.key for page in pages if page.key})
