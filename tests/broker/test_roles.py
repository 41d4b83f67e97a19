"""Workers, shards and a resolver on a real broker give the verdicts of one process."""

from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.worlds.brokers.topics import TopicSet
from tests.worlds.pages.crawls import crawl
from tests.worlds.services.roles import Roles

PAGES = 2_000


@pytest.mark.promise(
    "shards and a resolver give the verdicts of one process", fault="two workers and two shards on a real broker"
)
def test_roles_give_the_verdicts_of_one_process(kafka: Broker, tmp_path: Path) -> None:
    pages = crawl(PAGES).messages
    with TopicSet(kafka.bootstrap_servers, partitions=2, shards=2) as topics:
        toml = topics.toml() + "cluster.round_pages = 300\n"
        with Roles(tmp_path, topics, workers=2, shards=2, resolvers=1, toml=toml) as roles:
            roles.start()
            topics.send(pages)
            topics.until_all_committed()
            roles.stop()
            roles.check({page.key for page in pages if page.key})
