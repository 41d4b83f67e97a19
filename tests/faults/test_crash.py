"""Kill -9 loses no page, doubles none and changes no verdict."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.fixtures.pages.crawls import Crawl, PageMessage, crawl
from tests.fixtures.services.oracle import Verdict, ids_by_key, judge_again, verdicts_sent
from tests.fixtures.services.service import Spotsieve

PAGES = 20_000
PARTITIONS = 4
SETTINGS = 'service.batch_pages = 128\nlog.level = "debug"\n'
KILL_AFTER = (2_000, 4_000, 3_000)
"""Messages that each life of the first test's worker commits at least before it is killed. Of those that were sent
6,000 are left then: this process may stand still for a second on a busy machine, in which the worker goes on."""
RESERVE = 1_000


def check_verdicts(topics: TopicSet, toml: str, sent_pages: Crawl, sent: dict[bytes, list[Verdict]]) -> None:
    """Every verdict that was sent is the one the log gives, and one page of each article is novel."""
    expected, _ = judge_again(toml, topics.read("log"), topics.names["log"])
    ids = ids_by_key(topics)
    assert len(expected) == len(ids) == len(sent_pages.messages)
    wrong = {key: verdicts for key, verdicts in sent.items() if set(verdicts) != {expected[ids[key]]}}
    assert not wrong, f"{len(wrong)} pages, such as {next(iter(wrong.items()))}"
    novel = [sent_pages.articles[key] for key, verdicts in sent.items() if verdicts[0][0] == "novel"]
    assert len(novel) == len(set(novel)), "two pages of one article are novel"
    assert set(novel) == set(sent_pages.articles.values()), "an article has no novel page"


def run_with_crashes(
    service: Spotsieve, topics: TopicSet, messages: Sequence[PageMessage], kill_after: Sequence[int]
) -> None:
    """Kill and restart in the middle of the run, each time after a number of messages, then let it finish."""
    kept = list(messages[len(messages) * 3 // 4 :])
    topics.send(messages[: len(messages) * 3 // 4])
    for committed in kill_after:
        _kill_after(service, committed)
        while not topics.uncommitted():
            # This process stood still, and the worker was done before it was killed: that shows nothing.
            assert kept, "pages must still have been flowing, or the test shows nothing"
            topics.send(kept[:RESERVE])
            del kept[:RESERVE]
            _kill_after(service, 1)
    topics.send(kept)
    service.start().until_ready()
    topics.until_all_committed()
    assert service.terminate() == 0, service.text()


def _kill_after(service: Spotsieve, committed: int) -> None:
    service.start().until_ready()
    service.until_committed(committed)
    service.kill()


@pytest.mark.guarantee("exactly_once: every page has exactly one verdict", fault="kill -9 of a worker in mid-run")
@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_20_000_pages_every_verdict_is_read_exactly_once(kafka: Broker, tmp_path: Path) -> None:
    pages = crawl(PAGES)
    with TopicSet(kafka.bootstrap_servers, partitions=PARTITIONS) as topics:
        with Spotsieve(tmp_path, topics.toml(KILLED_SESSION_MS) + SETTINGS) as service:
            run_with_crashes(service, topics, pages.messages, KILL_AFTER)
        sent = verdicts_sent(topics)
        assert sent.keys() == pages.articles.keys(), "a page without a verdict"
        assert {len(verdicts) for verdicts in sent.values()} == {1}, "a page with two verdicts"
        check_verdicts(topics, service.toml, pages, sent)


@pytest.mark.guarantee(
    "at_least_once: no page is lost, and repeats have the same verdict", fault="kill -9 of a worker in mid-run"
)
@pytest.mark.long
@pytest.mark.timeout(900)
def test_under_at_least_once_a_crash_loses_no_page_and_repeats_say_the_same(kafka: Broker, tmp_path: Path) -> None:
    pages = crawl(PAGES // 2, seed=2)
    with TopicSet(kafka.bootstrap_servers, partitions=PARTITIONS) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + SETTINGS + 'service.guarantee = "at_least_once"\n'
        with Spotsieve(tmp_path, toml) as service:
            run_with_crashes(service, topics, pages.messages, (1_000, 3_000))
        sent = verdicts_sent(topics)
        assert sent.keys() == pages.articles.keys(), "a page without a verdict"
        check_verdicts(topics, service.toml, pages, sent)
