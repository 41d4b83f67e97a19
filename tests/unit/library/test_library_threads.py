"""One Deduplicator is called by many threads and from asyncio, and its verdicts fit one order of pages."""

import asyncio
import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spotsieve import Deduplicator, Verdict
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import article
from tests.fixtures.waiting import SECONDS

THREADS = 8
TEXTS = 40


def pages_of(thread: int) -> list[tuple[str, str, str]]:
    """The same texts in every thread, under ids of its own."""
    return [
        (f"{thread}-{seed}", f"https://{thread}.example/{seed}", f"<p>{article(seed)}</p>") for seed in range(TEXTS)
    ]


def check(verdicts: list[Verdict], known: int) -> None:
    """One page of each text is novel, and all others are its copies, in any order of arrival."""
    novel = {verdict.id.partition("-")[2]: verdict.id for verdict in verdicts if verdict.kind == "novel"}
    assert len(verdicts) == THREADS * TEXTS
    assert known == len(novel) == sum(verdict.kind == "novel" for verdict in verdicts) == TEXTS
    for verdict in verdicts:
        if verdict.kind != "novel":
            assert verdict.original is not None
            assert verdict.original.id == novel[verdict.id.partition("-")[2]]


@pytest.mark.parametrize("place", [None, "state"], ids=["in memory", "on disk"])
def test_threads_that_add_the_same_texts_let_one_of_each_through(tmp_path: Path, place: str | None) -> None:
    started = threading.Barrier(THREADS)

    def work(thread: int) -> list[Verdict]:
        started.wait()
        pages = pages_of(thread)
        if thread % 2:
            return [seen.add(*page) for page in pages]
        return list(seen.add_many(pages))

    with Deduplicator(None if place is None else tmp_path / place, service__batch_pages=7) as seen:
        with ThreadPoolExecutor(THREADS) as pool:
            found = [verdict for verdicts in pool.map(work, range(THREADS)) for verdict in verdicts]
        check(found, seen.known_pages)
        asked = [seen.query(f"?{verdict.id}", verdict.url, f"<p>{article(3)}</p>") for verdict in found[:3]]
    assert {verdict.kind for verdict in asked} == {"duplicate"}


async def test_coroutines_add_pages_by_to_thread_and_the_loop_goes_on(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "state") as seen:
        adding = [asyncio.to_thread(seen.add, *page) for thread in range(THREADS) for page in pages_of(thread)]
        check(await asyncio.gather(*adding), seen.known_pages)


FORKED = """
import gc, os, sys
from spotsieve import Deduplicator, StateError
from tests.fixtures.filter_crawl import article

with Deduplicator(sys.argv[1]) as seen:
    seen.add("a", "", article(1))
    child = os.fork()
    if not child:
        told = 0
        for act in (seen.add, seen.query, lambda *_: seen.known_pages, lambda *page: list(seen.add_many([page]))):
            try:
                act("b", "", article(2))
            except StateError as error:
                told += "this is a fork of it" in str(error)
        seen.close()
        del seen, act
        gc.collect()
        os._exit(told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    seen.add("c", "", article(3))
with Deduplicator(sys.argv[1]) as seen:
    assert [seen.query("q", "", article(seed)).kind for seed in (1, 2, 3)] == ["duplicate", "novel", "duplicate"]
with Deduplicator() as seen:
    seen.add("a", "", article(1))
    child = os.fork()
    if not child:
        os._exit(seen.query("b", "", article(1)).is_duplicate)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
"""


def test_a_fork_of_the_owner_is_refused_and_leaves_the_state_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "state")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("place", [None, "state"], ids=["in memory", "on disk"])
@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_open_one_cannot_be_copied(make: Callable[[object], object], place: str | None, tmp_path: Path) -> None:
    opened = Deduplicator(None if place is None else tmp_path / place)
    with opened as seen, pytest.raises(TypeError, match="cannot be pickled or copied"):
        make(seen)
