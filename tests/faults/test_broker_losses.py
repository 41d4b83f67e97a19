"""A cluster that loses a coordinator, or the room on its disk, costs time and no page."""

import uuid
from pathlib import Path

import pytest

from spotsieve.state.verify.walk import verify
from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from spotsieve.stream.demo.localkafka.broker import NODE_ID
from tests.fixtures.brokers.cluster import SECOND_ID, Coordinators, two_brokers
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.freezing import Freezing
from tests.fixtures.services.oracle import check_verdicts_sent
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.small_disk import SmallDisk
from tests.fixtures.waiting import SECONDS, wait_until

SLOWED = "service.batch_pages = 32\n"
DISK_KIB = 128 * 1024


def transactions(topics: TopicSet) -> str:
    """The transactional id of a service on these topics."""
    return f"{topics.group}:{topics.names['input']}:0"


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict", fault="the coordinator of group and transactions is lost"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_coordinators_that_move_to_another_broker_cost_no_page_and_double_none(tmp_path: Path) -> None:
    pages = crawl(4_000, seed=13)
    with two_brokers() as (first, second):
        both = f"{first.bootstrap_servers},{second.bootstrap_servers}"
        with TopicSet(both, replication=2) as topics:
            with Spotsieve(tmp_path, topics.toml(), "maker") as maker:
                # The first service makes the internal topics; only then it is known who coordinates what.
                maker.start().until_ready()
                Coordinators(both)  # It waits for the topics: a ready service may still be about to make one.
                assert maker.terminate() == 0

            def is_placed() -> bool:
                now = Coordinators(both)
                for _ in range(100):
                    topics.group = f"group-{uuid.uuid4().hex[:8]}"
                    if now.of_group(topics.group) == now.of_transactions(transactions(topics)) == SECOND_ID:
                        return True
                return False

            wait_until(is_placed, SECONDS, "a group whose coordinators are on the second broker", every=1.0)
            toml = topics.toml() + SLOWED
            with Freezing(tmp_path, toml) as service:
                service.begin(topics, pages.messages)
                service.until_frozen()
                assert topics.in_transaction()
                second.kill()
                service.thaw()
                topics.until_all_committed()
                service.until_ready()
                after = Coordinators(first.bootstrap_servers)
                assert after.of_group(topics.group) == after.of_transactions(transactions(topics)) == NODE_ID
                assert service.terminate() == 0, service.text()
            check_verdicts_sent(topics, toml, pages.articles)


@pytest.mark.guarantee("exactly_once: every page has exactly one verdict", fault="the disk of the broker is full")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_service_waits_for_a_broker_whose_disk_is_full_and_goes_on_afterwards(tmp_path: Path) -> None:
    prepare()
    pages = crawl(6_000, seed=14)
    with (
        SmallDisk(tmp_path / "disk", kib=DISK_KIB) as disk,
        LocalKafka(disk.path / "kafka") as broker,
        TopicSet(broker.bootstrap_servers) as topics,
    ):
        toml = topics.toml() + SLOWED
        with Freezing(tmp_path, toml) as service:
            service.begin(topics, pages.messages)
            service.until_frozen()
            ballast = disk.fill(room_kib=256)
            service.thaw()
            broker.wait_for_end(SECONDS)
            assert "No space left on device" in (broker.directory / "broker.log").read_text("utf-8")
            service.until_waiting()
            ballast.unlink()
            broker.start()
            topics.until_all_committed()
            service.until_ready()
            assert service.terminate() == 0, service.text()
            assert verify(service.state).damaged == 0
        check_verdicts_sent(topics, toml, pages.articles)


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict", fault="one of the broker's two disks is full"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broker_that_lost_one_of_its_disks_is_waited_for_by_partition(tmp_path: Path) -> None:
    prepare()
    pages = crawl(4_000, seed=16)
    with SmallDisk(tmp_path / "disk", kib=DISK_KIB) as disk:
        first, second = tmp_path / "kafka" / "data", disk.path / "data"
        settings = {"log.dirs": f"{first},{second}", "metadata.log.dir": str(first)}
        with (
            LocalKafka(tmp_path / "kafka", settings=settings) as broker,
            TopicSet(broker.bootstrap_servers, partitions=4) as topics,
        ):
            toml = topics.toml() + SLOWED
            with Freezing(tmp_path, toml) as service:
                service.begin(topics, pages.messages)
                service.until_frozen()
                ballast = disk.fill(room_kib=100)
                service.thaw()
                wait_until(
                    lambda: "leader of partition" in service.get("/readyz")[1], SECONDS, "/readyz to name a partition"
                )
                service.until_waiting()
                lost = {f"{path.name.rpartition('-')[0]}/{path.name.rpartition('-')[2]}" for path in second.iterdir()}
                named = [line for line in service.get("/readyz")[1].splitlines() if "leader of partition" in line]
                assert named
                assert {line.split("leader of partition ")[1].split(":")[0] for line in named} <= lost
                ballast.unlink()
                broker.kill()
                broker.start()
                topics.until_all_committed()
                service.until_ready()
                assert service.terminate() == 0, service.text()
                assert verify(service.state).damaged == 0
            check_verdicts_sent(topics, toml, pages.articles)
