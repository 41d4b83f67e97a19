"""A service forgets by event times alone, whatever kills it; a page that says 2100 does not make it forget."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.settings.digest import verdict_settings_text
from tests.conftest import Broker
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.fixtures.pages.crawls import PageMessage, html_of, json_page, url_of
from tests.fixtures.services.oracle import check_verdicts_sent, judge_again, settings_from
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.states.comparison import first_difference

BEGAN_S = 1_700_000_000
DAY_S = 86_400
FILLERS = 550


def at(day: float, number: int, shown: int, fetched_at: object = None) -> PageMessage:
    """A page that was fetched and sent on that day and shows that article; fetched_at: what it says of itself."""
    sent_s = int(BEGAN_S + day * DAY_S)
    page = json_page(number, html_of(shown, template=number % 2), fetched_at=fetched_at or sent_s)
    return replace(page, timestamp_ms=sent_s * 1000)


def keys(numbers: Sequence[int]) -> set[bytes]:
    return {url_of(number).encode() for number in numbers}


@pytest.mark.guarantee("only event times decide how long a page counts as an original", fault="kill -9 of the service")
@pytest.mark.timeout(900)
def test_copies_beyond_the_horizon_pass_and_copies_within_are_dropped_across_kill_9(
    kafka: Broker, tmp_path: Path
) -> None:
    first = [at(0, 0, 0), *(at(number / 20, number, number) for number in range(1, FILLERS)), at(29, 560, 0)]
    second = [
        at(29.5, 562, 1),
        at(31, 563, 0),
        at(31.5, 564, 0),
        at(31.6, 565, 500),
        at(31.7, 566, 9000, fetched_at="2100-01-01T00:00:00Z"),
        at(31.8, 567, 0),
    ]
    with TopicSet(kafka.bootstrap_servers, config={"retention.ms": "-1"}) as topics:
        topics.send(first)
        toml = topics.toml(KILLED_SESSION_MS) + "index.horizon_hours = 720\nservice.batch_pages = 20\n"
        with Spotsieve(tmp_path, toml) as service:
            service.start().until_ready()
            service.until_metric("spotsieve_log_position", 5)
            service.kill()
            topics.send(second)
            service.start().until_ready()
            topics.until_all_committed()
            assert service.metric("spotsieve_future_times_total") == 1
            assert service.terminate() == 0, service.text()
        check_verdicts_sent(topics, service.toml, [page.key for page in (*first, *second) if page.key is not None])
        dropped = {record.key for record in topics.read("duplicates")}
        assert dropped == keys([560, 562, 564, 565, 567])
        settings, log_name = settings_from(service.toml), topics.names["log"]
        with disk_state(service.state, verdict_settings_text(settings), log_name, settings.index) as state:
            assert 0 < state.clock.floor < FILLERS
            assert state.clock.watermark_ms == (BEGAN_S + int(31.8 * DAY_S)) * 1000
            _, in_memory = judge_again(service.toml, topics.read("log"), log_name)
            assert first_difference(state, in_memory) is None
