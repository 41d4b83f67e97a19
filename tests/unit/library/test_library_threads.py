"""One Deduplicator is called by many threads and from asyncio, and its verdicts fit one order of pages."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spotsieve import Deduplicator, Verdict
from tests.fixtures.filter_crawl import article

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
