"""A producer faster than the filter makes nothing grow but the lag."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from bench.soak.check import check
from spotsieve.stream.service.worker import MOST_IN_FLIGHT
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage, article, json_page
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until

MIB = 2**20
BATCH_PAGES = 32
WARM_PAGES, PAGES = 600, 5_000
COPIES = 5
"""The distance between two copies, in pages."""
MENU = "<li><a href='/local/'>Local</a></li>" * 800
"""29 KB: all pages together are more than memory may grow by."""
MOST_FETCHED = BATCH_PAGES * (MOST_IN_FLIGHT + 1)
"""Pages between intake and commit, with the micro-batch that waits for room."""
MOST_GROWTH_MIB = 60.0
SETTINGS = f"""
service.batch_pages = {BATCH_PAGES}
kafka.fetch_max_bytes = {MIB}
index.cache_mb = 8
index.write_buffer_mb = 4
"""


def pages(first: int, end: int) -> Iterator[PageMessage]:
    for number in range(first, end):
        shown = number - number % COPIES if number % COPIES == 1 else number
        yield json_page(number, f"<html><body><ul>{MENU}</ul><p>{article(shown, 4)}</p></body></html>")


class Watched:
    """The largest figures that a worker showed."""

    def __init__(self, worker: Spotsieve) -> None:
        self._worker = worker
        self._process = psutil.Process(worker.alive.pid)
        self.most_lag = self.most_fetched = self.most_rss_mib = 0.0

    def look(self) -> None:
        # Fetched before committed: what is committed in between makes the difference smaller, never larger.
        fetched = self._worker.metric("spotsieve_batch_pages_sum")
        self.most_fetched = max(self.most_fetched, fetched - self._worker.committed())
        self.most_lag = max(self.most_lag, self._worker.metric("spotsieve_consumer_lag"))
        self.most_rss_mib = max(self.most_rss_mib, self._process.memory_info().rss / MIB)


@pytest.mark.guarantee("if the producer is faster than the filter, only the lag grows", fault="5,000 pages at once")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_overload_grows_the_lag_alone_and_the_lag_drains_afterwards(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics, ThreadPoolExecutor(1) as pool:
        toml = topics.toml() + SETTINGS
        with Spotsieve(tmp_path, toml) as worker:
            topics.send(pages(0, WARM_PAGES))
            worker.start().until_committed(WARM_PAGES, SECONDS)
            watched = Watched(worker)
            watched.look()
            warm_mib = watched.most_rss_mib
            # Made before: the producer must be faster than the filter.
            many = list(pages(WARM_PAGES, WARM_PAGES + PAGES))
            sending: Future[None] = pool.submit(topics.send, many)

            def drained() -> bool:
                watched.look()
                return sending.done() and worker.committed() == WARM_PAGES + PAGES

            wait_until(drained, SECONDS, "the lag to drain")
            sending.result()
            wait_until(lambda: worker.metric("spotsieve_consumer_lag") == 0, SECONDS, "the lag to be 0")
            assert worker.terminate() == 0, worker.text()
        checked = check(topics, toml, tmp_path / "judged-again")
    assert checked.holds, checked
    assert checked.duplicate == (WARM_PAGES + PAGES) // COPIES
    assert watched.most_lag > 2 * MOST_FETCHED, "the producer must have been faster, or the test shows nothing"
    assert 0 < watched.most_fetched <= MOST_FETCHED
    assert watched.most_rss_mib - warm_mib < MOST_GROWTH_MIB < PAGES * len(MENU) / MIB / 2
