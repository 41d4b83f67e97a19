"""One column of the crash matrix: a service of one or two workers, killed at one step after the other."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tests.worlds.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.worlds.pages.crawls import Crawl, PageMessage
from tests.worlds.services.killed_at import POINTS, SAID, Point, armed_by
from tests.worlds.services.oracle import Verdict, ids_by_key, judge_again, verdicts_sent
from tests.worlds.services.service import Spotsieve
from tests.worlds.waiting import SECONDS, wait_until

BURST, CHUNK = 200, 25
WAVE = BURST + 4 * CHUNK
"""Pages around a kill: a burst, so that several micro-batches are in flight; then chunk by chunk, each one when all
earlier pages are committed, until the kill has come; then the rest.
"""
CALLS = 2
"""A worker is killed when it has done its step for the second time in a wave."""
SETTINGS = "service.batch_pages = 25\nservice.linger_ms = 20\n"


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """A guarantee and a number of workers, with as many input partitions."""

    guarantee: str
    workers: int

    def points(self) -> tuple[Point, ...]:
        """The steps that this guarantee has."""
        return tuple(point for point in POINTS if point.function(self.guarantee))


COLUMNS = tuple(Column(guarantee, workers) for guarantee in ("exactly_once", "at_least_once") for workers in (1, 2))
CELLS = tuple((column, point.name) for column in COLUMNS for point in column.points())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdicts of the pages in flight when a worker was killed.

    missing: pages without a verdict  repeats: verdicts beyond the first, with any content
    differing: pages whose verdict differs from a new judgment of the log
    """

    pages: int
    missing: int
    repeats: int
    differing: int


@dataclass(frozen=True, slots=True)
class Ran:
    """A column: the outcome at each point, and every page's verdict with its original's number in the crawl."""

    outcomes: dict[str, Outcome]
    verdicts: dict[bytes, list[tuple[str, bytes | None]]]


def run_column(servers: str, directory: Path, column: Column, points: Sequence[Point], pages: Crawl) -> Ran:
    """Kill a worker at each point, each time in the middle of a wave of pages; then read and judge what was sent.

    Without points: the undisturbed run over all pages. Raises AssertionError if a point is not reached or a service
    does not continue.
    """
    with TopicSet(servers, partitions=column.workers) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + SETTINGS + f'service.guarantee = "{column.guarantee}"\n'
        waves = list(_waves(pages.messages, column.workers))
        with ExitStack() as running:
            others = [
                running.enter_context(Spotsieve(directory, toml, f"other-{number}"))
                for number in range(1, column.workers)
            ]
            for other in others:
                other.start()
            for point, wave in zip(points, waves, strict=False):
                with _victim(directory, toml, point) as victim:
                    try:
                        _kill_among(topics, victim, others, wave)
                    except BaseException as error:
                        error.add_note(f"{column}: the worker that is killed after {point.name!r}")
                        raise
            with _plain(directory, toml) as last:
                last.start()
                for wave in [] if points else waves:
                    topics.send(wave)
                topics.until_all_committed(SECONDS)
                assert last.until_ready().terminate() == 0, last.text()
            for other in others:
                assert other.terminate() == 0, other.text()
        return _judged(topics, toml, points, waves)


def _waves(messages: Sequence[PageMessage], partitions: int) -> Iterator[list[PageMessage]]:
    dealt = [replace(message, partition=number % partitions) for number, message in enumerate(messages)]
    for first in range(0, len(dealt), WAVE):
        yield dealt[first : first + WAVE]


def _plain(directory: Path, toml: str) -> Spotsieve:
    return Spotsieve(directory, toml, "victim")


def _victim(directory: Path, toml: str, point: Point) -> Spotsieve:
    return Spotsieve(directory, toml, "victim", (point.name, str(CALLS)), module="tests.worlds.services.killed_at")


def _kill_among(topics: TopicSet, victim: Spotsieve, others: Sequence[Spotsieve], wave: Sequence[PageMessage]) -> None:
    """Start the worker, wait for its partition, and send pages until it has killed itself; then the rest of them."""
    armed_by(victim.config).unlink(missing_ok=True)
    victim.start().until_ready()
    wait_until(
        lambda: all(worker.metric("spotsieve_assigned_partitions") == 1 for worker in (victim, *others)),
        SECONDS,
        "each worker to have a partition",
        0.2,
    )
    topics.until_all_committed(SECONDS)
    armed_by(victim.config).touch()
    rest, number = list(wave), BURST
    while victim.alive.poll() is None:
        assert rest, f"{victim.command[0]!r} was not reached:\n{victim.text()}"
        topics.send(rest[:number])
        del rest[:number]
        number = CHUNK
        _until_dead_or_committed(topics, victim)
    assert victim.alive.returncode == -signal.SIGKILL, victim.text()
    assert SAID.format(victim.command[0]) in victim.text().splitlines(), victim.text()
    assert rest, "pages must still have been to come, or the test shows less"
    topics.send(rest)


def _until_dead_or_committed(topics: TopicSet, victim: Spotsieve) -> None:
    wait_until(
        lambda: victim.alive.poll() is not None or topics.uncommitted() == 0, SECONDS, "the pages to be committed", 0.1
    )


def outcomes_of(topics: TopicSet, toml: str, waves: Sequence[Sequence[PageMessage]]) -> list[Outcome]:
    """The outcome of each wave, from the outputs and from judging the log again."""
    sent, ids = verdicts_sent(topics), ids_by_key(topics)
    expected, _ = judge_again(toml, topics.read("log"), topics.names["log"])
    outcomes = list[Outcome]()
    for wave in waves:
        verdicts = [(sent.get(message.key or b"", []), expected.get(ids[message.key or b""])) for message in wave]
        outcomes.append(
            Outcome(
                pages=len(wave),
                missing=sum(not said for said, _ in verdicts),
                repeats=sum(max(0, len(said) - 1) for said, _ in verdicts),
                differing=sum(bool(set(said) - {right}) for said, right in verdicts),
            )
        )
    return outcomes


def _judged(topics: TopicSet, toml: str, points: Sequence[Point], waves: Sequence[Sequence[PageMessage]]) -> Ran:
    sent, keys = verdicts_sent(topics), {page: key for key, page in ids_by_key(topics).items()}
    names = [point.name for point in points]
    outcomes = dict(zip(names, outcomes_of(topics, toml, waves[: len(names)]), strict=True))
    return Ran(outcomes, {key: [_by_key(verdict, keys) for verdict in said] for key, said in sent.items()})


def _by_key(verdict: Verdict, keys: dict[str, bytes]) -> tuple[str, bytes | None]:
    kind, original = verdict
    return kind, None if original is None else keys[original]
