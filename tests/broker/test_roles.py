"""Workers, shards and a resolver on a real broker give the verdicts of one process."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.cli import main
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage, crawl
from tests.fixtures.services.oracle import judge_again, settings_from, verdicts_sent
from tests.fixtures.services.roles import Roles
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until

PAGES = 2_000


def check_metrics(roles: Roles) -> None:
    """Each process tells its role and how far it is: what alerts and the dashboard compare."""
    labels_by_role = {
        "worker-1": {"role": "worker", "shard": ""},
        "shard-1": {"role": "shard", "shard": "1"},
        "resolver-0": {"role": "resolver", "shard": ""},
    }
    assert [roles[name].metric("spotsieve_role", **labels) for name, labels in labels_by_role.items()] == [1, 1, 1]

    def lags() -> list[float]:
        end = max(roles[name].metric("spotsieve_log_end") for name in labels_by_role)
        return [end - roles[name].metric("spotsieve_log_position") for name in labels_by_role]

    wait_until(lambda: not any(lags()), SECONDS, "all roles to reach the end of the log")
    for stage in ("prefetch", "confirm", "resolve_hosts"):
        assert roles["shard-1"].metric("spotsieve_stage_duration_seconds_count", stage=stage) > 0


def check_states(roles: Roles, topics: TopicSet, pages: Sequence[PageMessage], folder: Path) -> set[bytes]:
    """A running shard is copied and restored, and the states of all are made one, by which a page is forgotten.

    Returns the keys of the pages that it sends.
    """
    shards = [roles[f"shard-{number}"] for number in range(2)]
    copied, merged, config = folder / "copied", folder / "merged", str(shards[0].config)
    assert main(["state", "snapshot", "--state", str(shards[1].state), str(copied)]) == 0

    def is_merged() -> bool:
        return main(["state", "merge", *(str(shard.state) for shard in shards), "--state", str(merged)]) == 0

    wait_until(is_merged, SECONDS, "all shards to stand at one place", 0.5)
    settings = settings_from(shards[0].toml)
    _, expected = judge_again(roles.toml, topics.read("log"), topics.names["log"])
    with disk_state(merged, verdict_settings_text(settings), topics.names["log"], settings.index) as state:
        # What stands behind the last round moves the position of a shard with the next one.
        for found, wanted in zip(state.items(), expected.items(), strict=True):
            assert found == wanted or found[0] == b"meta/progress"
    url = topics.read("novel")[0].key.decode()
    assert main(["state", "forget", "-c", config, "--state", str(merged), "--url", url]) == 0
    (page,) = [page for page in pages if page.key == url.encode()]
    again = [replace(page, key=b"again-%d" % number, partition=0) for number in range(2)]
    topics.send(again)
    topics.until_all_committed()
    assert {key: kind for key in (b"again-0", b"again-1") for kind, _ in verdicts_sent(topics)[key]} == {
        b"again-0": "novel",
        b"again-1": "duplicate",
    }
    assert shards[1].terminate() == 0, shards[1].text()
    shutil.rmtree(shards[1].state)
    assert main(["state", "restore", str(copied), "--state", str(shards[1].state)]) == 0
    shards[1].start().until_ready()
    topics.send([replace(page, key=b"restored")])
    topics.until_all_committed()
    assert main(["replay", "-c", config, "--fail-on-difference"]) == 0
    return {b"again-0", b"again-1", b"restored"}


@pytest.mark.guarantee(
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
            more = check_states(roles, topics, pages, tmp_path)
            roles.stop()
            roles.check({page.key for page in pages if page.key} | more)
