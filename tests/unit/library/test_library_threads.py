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
        queried = [seen.query(f"?{verdict.id}", verdict.url, f"<p>{article(3)}</p>") for verdict in found[:3]]
    assert {verdict.kind for verdict in queried} == {"duplicate"}


async def test_coroutines_add_pages_by_to_thread_and_the_loop_goes_on(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "state") as seen:
        adding = [asyncio.to_thread(seen.add, *page) for thread in range(THREADS) for page in pages_of(thread)]
        check(await asyncio.gather(*adding), seen.known_pages)


FORKED = """
import gc, os, signal, sys, weakref
from spotsieve import Deduplicator, StateError
from tests.fixtures.filter_crawl import article

def refused():
    refusals = 0
    for act in (seen.add, seen.query, lambda *_: seen.known_pages, lambda *page: list(seen.add_many([page]))):
        try:
            act("b", "", article(2))
        except StateError as error:
            refusals += "this is a fork of it" in str(error)
    seen.close()
    return refusals == 4 and collected()

def collected():
    global seen
    last = weakref.ref(seen)
    del seen
    gc.collect()
    return last() is None

def closed():
    seen.close()
    return collected()

def read():
    with Deduplicator(path, read_only=True) as view:
        return [view.query("q", "", article(seed)).kind for seed in (1, 2)] == ["duplicate", "novel"]

def query():
    return seen.query("q", "", article(1)).is_duplicate

def fork(act):
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(7 if act() else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 7, (act.__name__, code)

path, kind, *names = sys.argv[1:]
with Deduplicator(path) as seen:
    seen.add("a", "", article(1))
if kind == "memory":
    seen = Deduplicator(against=[path])
else:
    seen = Deduplicator(path, read_only=kind == "read_only")
if kind == "adds":
    seen.add("d", "", article(4))  # RocksDB writes it when it closes.
for name in names:
    fork(globals()[name])
assert query()
if kind != "read_only":
    seen.add("c", "", article(3))
    assert seen.query("q", "", article(3)).is_duplicate
seen.close()
with Deduplicator(path) as seen:
    kinds = [seen.query("q", "", article(seed)).kind for seed in (1, 2, 3)]
assert kinds == ["duplicate", "novel", "duplicate" if kind == "adds" else "novel"], kinds
"""


@pytest.mark.parametrize(
    ("kind", "acts"),
    [("adds", ["refused", "collected", "read"]), ("read_only", ["closed"]), ("memory", ["query", "closed"])],
    ids=["adds", "read only", "memory"],
)
def test_a_forked_process_leaves_the_state_of_its_parent_alone(tmp_path: Path, kind: str, acts: list[str]) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "state"), kind, *acts]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("place", [None, "state"], ids=["in memory", "on disk"])
@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_open_one_cannot_be_copied(make: Callable[[object], object], place: str | None, tmp_path: Path) -> None:
    opened = Deduplicator(None if place is None else tmp_path / place)
    with opened as seen, pytest.raises(TypeError, match="cannot be pickled or copied"):
        make(seen)
