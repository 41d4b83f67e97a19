"""Workers, shards and a resolver on a real broker give the verdicts of one process."""

from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.worlds.brokers.topics import TopicSet
from tests.worlds.pages.crawls import crawl
from tests.worlds.services.roles import Roles
from tests.worlds.services.service import Spotsieve
from tests.worlds.waiting import SECONDS, wait_until

PAGES = 2_000


def check_metrics(roles: Roles) -> None:
    """Each process tells its role and how far it is: what alerts and the dashboard compare."""
    told = {
        "worker-1": {"role": "worker", "shard": ""},
        "shard-1": {"role": "shard", "shard": "1"},
        "resolver-0": {"role": "resolver", "shard": ""},
    }
    assert [roles[name].metric("spotsieve_role", **labels) for name, labels in told.items()] == [1, 1, 1]

    def lags() -> list[float]:
        end = max(roles[name].metric("spotsieve_log_end") for name in told)
        return [end - roles[name].metric("spotsieve_log_position") for name in told]

    wait_until(lambda: not any(lags()), SECONDS, "all roles to reach the end of the log")
    assert roles["shard-1"].metric("spotsieve_stage_duration_seconds_count", stage="walk") > 0


@pytest.mark.promise(
    "shards and a resolver give the verdicts of one process",
    fault="two workers and two shards on a real broker take over from a process that judges alone",
)
def test_roles_give_the_verdicts_of_one_process(kafka: Broker, tmp_path: Path) -> None:
    pages = crawl(PAGES).messages
    with TopicSet(kafka.bootstrap_servers, partitions=2, shards=2) as topics:
        toml = topics.toml() + "cluster.round_pages = 300\n"
        alone = Spotsieve(tmp_path, toml.replace("cluster.shards = 2", "cluster.shards = 0"), "alone")
        with alone, Roles(tmp_path, topics, workers=2, shards=2, resolvers=1, toml=toml) as roles:
            alone.start()
            topics.send(pages[: PAGES // 4])
            topics.until_all_committed()
            roles.start()
            topics.send(pages[PAGES // 4 : PAGES // 2])
            topics.until_all_committed()
            alone.alive.terminate()
            assert alone.wait() == 0, alone.text()
            topics.send(pages[PAGES // 2 :])
            topics.until_all_committed()
            check_metrics(roles)
            roles.stop()
            roles.check({page.key for page in pages if page.key})
