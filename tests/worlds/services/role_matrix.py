"""A service of shards in which, wave after wave, a worker, a shard and a resolver end at a step of their loops."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from tests.worlds.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.worlds.pages.crawls import PageMessage
from tests.worlds.services.killed_at import SAID, Point, armed_by
from tests.worlds.services.matrix import Outcome, outcomes_of
from tests.worlds.services.role_steps import ONCE, SIGNALS, STEPS
from tests.worlds.services.roles import Roles
from tests.worlds.services.service import Spotsieve
from tests.worlds.waiting import SECONDS, wait_until

CHUNK, CHUNKS = 25, 12
WAVE = CHUNK * CHUNKS
"""Pages sent while processes of a wave end; the rest is sent when all processes are back."""
CALLS = 2
"""A process ends when it has done its step for the second time in a wave."""
FROZEN_SECONDS = 8.0
"""Longer than the sessions of this service."""
SESSION_MS = 3_000
STEPPING = "tests.worlds.services.role_steps"
VICTIMS = {"worker": "worker-1", "shard": "shard-1", "resolver": "resolver-1"}
SETTINGS = f"cluster.round_pages = 100\ncluster.resolver_session_ms = {SESSION_MS}\nservice.batch_pages = 25\n"


class Wave(NamedTuple):
    """The ends in a wave of pages. how: killed or frozen  points: by role"""

    how: str
    points: Mapping[str, Point]


def waves_of(steps: Mapping[str, Sequence[Point]] = STEPS, hows: Iterable[str] = SIGNALS) -> list[Wave]:
    """Waves that end each of these steps once in each way."""
    return [
        Wave(how, {role: point for role, point in zip(steps, points, strict=True) if point is not None})
        for how in hows
        for points in zip_longest(*steps.values())
    ]


def run_waves(
    servers: str, directory: Path, waves: Sequence[Wave], pages: Sequence[PageMessage], say: Callable[[str], None]
) -> list[Outcome]:
    """The outcome of each wave. Raises AssertionError if a step is not reached or a role does not continue.

    pages: WAVE of each wave, and as many before the first one
    """
    parts = [pages[at : at + WAVE] for at in range(0, len(pages), WAVE)]
    with TopicSet(servers, partitions=2, shards=2) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + SETTINGS
        with Roles(directory, topics, workers=2, shards=2, resolvers=2, toml=toml) as roles:
            options = {name: process.command[1:] for name, process in roles.processes.items()}
            roles.start()
            topics.send(parts[0])
            topics.until_all_committed()
            for wave, part in zip(waves, parts[1:], strict=True):
                say(f"{wave.how}: " + ", ".join(f"{role} {point.name}" for role, point in wave.points.items()))
                _end_at(roles, wave, options, part)
            roles.stop()
            outcomes = roles.outcomes()
            assert len(outcomes) == len(set(outcomes)), "a round with two outcomes"
        return outcomes_of(topics, toml, parts[1:])


def _end_at(roles: Roles, wave: Wave, options: Mapping[str, tuple[str, ...]], pages: Sequence[PageMessage]) -> None:
    """End one process of each role at its step while pages come, and bring all back."""
    victims = {role: roles[VICTIMS[role]] for role in wave.points}
    for role, victim in victims.items():
        victim.kill()
        if role == "resolver":
            # Otherwise the group might choose the victim again, which must stand by until it is armed.
            wait_until(lambda: not _stands_by(roles["resolver-0"]), SECONDS, "the other resolver to work", 0.2)
        point = wave.points[role]
        calls = "1" if point.name in ONCE else str(CALLS)
        victim.module, victim.command = STEPPING, (role, point.name, calls, wave.how, *options[victim.name])
        armed_by(victim.config).unlink(missing_ok=True)
        victim.start()
    for role, victim in victims.items():
        if role != "resolver":
            victim.until_ready()
    roles.topics.until_all_committed()
    if "resolver" in victims:
        standing, working = victims["resolver"], roles["resolver-0"]
        wait_until(lambda: _stands_by(standing), SECONDS, "the victim to stand by", 0.2)
        armed_by(standing.config).touch()
        # It leaves its group, so the victim is chosen at once; then it stands by itself.
        assert working.terminate() == 0, working.text()
        working.start()
    for victim in victims.values():
        armed_by(victim.config).touch()
    left = list(pages)
    while ending := [victim for victim in victims.values() if victim.module == STEPPING]:
        assert left, "\n".join(f"{one.command[1]!r} was not reached:\n{one.text()[-2000:]}" for one in ending)
        roles.topics.send(left[:CHUNK])
        del left[:CHUNK]
        _until_ended_or_committed(roles, ending)
        ended = [victim for victim in ending if _has_ended(victim)]
        if wave.how == "frozen" and ended:
            time.sleep(FROZEN_SECONDS)  # Time itself: their sessions must end.
        for victim in ended:
            _bring_back(victim, wave.how, options[victim.name])
    roles.topics.send(left)
    roles.topics.until_all_committed()


def _stands_by(resolver: Spotsieve) -> bool:
    return "on standby" in resolver.get("/readyz")[1]


def _bring_back(victim: Spotsieve, how: str, options: tuple[str, ...]) -> None:
    """Disarm a process at once: other processes wait for it and would not reach their own steps."""
    victim.module, victim.command = "spotsieve.stream", ("run", *options)
    if how == "frozen":
        victim.thaw()
    else:
        assert victim.wait() == -SIGNALS["killed"], victim.text()
        victim.start()


def _until_ended_or_committed(roles: Roles, ending: Sequence[Spotsieve]) -> None:
    """Wait until one of the processes has reached its last step, or all pages have verdicts."""
    wait_until(
        lambda: any(map(_has_ended, ending)) or roles.topics.uncommitted() == 0,
        SECONDS,
        "pages to be committed, or a role to end",
        0.1,
    )


def _has_ended(victim: Spotsieve) -> bool:
    """Whether the process has reached its last step."""
    said = SAID.format(victim.command[1]) in victim.text().splitlines()
    assert said or victim.alive.poll() is None, victim.text()
    return said
