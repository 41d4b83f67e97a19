"""Every registered scheme runs in the service with the guarantees of the default one."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.sign.schemes.registry import SCHEMES
from tests.conftest import Broker
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.fixtures.pages.crawls import PageMessage
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.pages.small_crawl import crawl_of_two_hosts
from tests.fixtures.services.oracle import (
    Verdict,
    ids_by_key,
    judge_again,
    judge_again_in,
    settings_from,
    verdicts_sent,
)
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.states.comparison import first_difference

ROUNDS = 5
"""The crawl, and again in other orders: exact copies of every page beside the near ones that it has itself."""
BEFORE_KILL = 60
AT_ONCE = 3
"""Services that run side by side: starting one takes processor time, taking over from a killed one only time."""


def messages() -> list[PageMessage]:
    pages = [one for one in crawl_of_two_hosts() if one.judgeable]
    dice, sent = random.Random(5), list[PageMessage]()
    for number in range(ROUNDS):
        for place in range(len(pages)) if number == 0 else dice.sample(range(len(pages)), len(pages)):
            page, key = pages[place], b"%d-%d" % (number, place)
            fields = {"url": page.url, "body": page.body.decode("utf-8", "replace"), "content_type": "text/html"}
            sent.append(PageMessage(key, json.dumps(fields).encode()))
    return sent


def toml_of(name: str) -> str:
    """The [scheme] of a test's settings."""
    settings = settings_named(name).model_dump(mode="json")
    return "".join(f"scheme.{setting} = {json.dumps(value)}\n" for setting, value in settings.items())


@dataclass(frozen=True)
class Ran:
    """What came of a scheme whose worker was killed in mid-run and started again.

    sent: page key -> its verdicts in the outputs  expected: those of the log, judged again in memory
    changed: what a state on disk differs in from the log judged again, by how the state came about
    """

    sent: dict[bytes, list[Verdict]]
    expected: dict[bytes, Verdict]
    changed: dict[str, str | None]


def run_with(name: str, servers: str, directory: Path, pages: list[PageMessage]) -> Ran:
    with TopicSet(servers, partitions=2) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + toml_of(name) + "service.batch_pages = 16\n"
        with Spotsieve(directory, toml, name) as service:
            first = len(pages) * 2 // 3
            service.begin(topics, pages[:first], BEFORE_KILL)
            service.kill()
            topics.send(pages[first:])
            service.start().until_ready()
            topics.until_all_committed()
            assert service.terminate() == 0, service.text()
        log = topics.read("log")
        expected, in_memory = judge_again(toml, log, topics.names["log"])
        settings = settings_from(toml)
        text = verdict_settings_text(settings)

        def opened(path: Path) -> State:
            return disk_state(path, text, topics.names["log"], settings.index)

        def change(state: State) -> str | None:
            found = first_difference(state, in_memory)
            return None if found is None else str(found)

        with opened(service.state) as state, opened(directory / f"{name}-rebuilt") as rebuilt:
            assert state.entry_count > 0
            judge_again_in(rebuilt, toml, log, topics.names["log"])
            changed = {"killed and started again": change(state), "rebuilt from the log": change(rebuilt)}
        ids = ids_by_key(topics)
        return Ran(verdicts_sent(topics), {key: expected[page] for key, page in ids.items()}, changed)


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Ran]]]:
    """Every scheme that this session asks for, side by side on one broker."""
    selected = {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == Path(__file__) and hasattr(item, "callspec")
    }
    pages, directory = messages(), tmp_path_factory.mktemp("schemes")
    pool = ThreadPoolExecutor(AT_ONCE)
    chosen = [name for name in SCHEMES if name in selected]
    yield {name: pool.submit(run_with, name, kafka.bootstrap_servers, directory, pages) for name in chosen}
    pool.shutdown(cancel_futures=True)


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict", fault="kill -9 of a worker, under every published scheme"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_gives_the_log_s_verdicts_and_its_state_is_rebuilt_equal(
    runs: dict[str, Future[Ran]], name: str
) -> None:
    ran = runs[name].result()
    assert ran.sent == {key: [verdict] for key, verdict in ran.expected.items()}
    assert ran.changed == dict.fromkeys(ran.changed)
    kinds = Counter(kind for kind, _ in ran.expected.values())
    pages = sum(kinds.values())
    # Exact copies are found by all; all but the first round's pages are.
    assert kinds["duplicate"] >= pages * (ROUNDS - 1) // ROUNDS - 2 * (ROUNDS - 1)
    assert kinds["novel"] > 0
