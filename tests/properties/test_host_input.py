"""Odd hosts by the real signing: whatever a host is like, its pages are judged, none is lost, and memory and time stay.

What they are compared with: a crowd of ordinary hosts whose pages share a menu and have titles of their own.
"""

import functools
import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.judge import judge
from spotsieve.stream.sign.schemes.identity import hash_hosts
from tests.fixtures.cpu_time import RUNS
from tests.fixtures.pages.crawls import SYLLABLES, article
from tests.fixtures.pages.spotsieve_pages import LINKS, SCHEME, page
from tests.reference.host_memory import MOST_ITEMS, MOST_WORDS

PAGES, COPIES, RECORD = 1_500, 20, 250
MENU = f"<ul>{''.join(f'<li><a href=/{place}>{name}</a></li>' for place, name in enumerate(LINKS))}</ul>"
SCRIPTS = ("новости дня", "ニュース", "أخبار اليوم", "חדשות", "समाचार", "ข่าววันนี้", "뉴스", "ειδήσεις", "新闻")


class Look(NamedTuple):
    """The address, the title and what stands around the text of page number n of a kind of host."""

    url: Callable[[int], str]
    title: Callable[[int], str]
    frame: Callable[[int], str]


def titled(number: int) -> str:
    """Some words of the page's own, and the site's name."""
    dice = random.Random(-number)
    words = ["".join(dice.choices(SYLLABLES, k=3)) for _ in range(4)]
    return f"<title>{' '.join(words)} - site</title>"


def framed(number: int) -> str:
    """A menu that no other page has."""
    dice = random.Random(-number)
    blocks = [" ".join("".join(dice.choices(SYLLABLES, k=3)) for _ in range(6)) for _ in range(30)]
    return f"<ul>{''.join(f'<li>{block}</li>' for block in blocks)}</ul>"


ORDINARY = Look(lambda number: f"https://www.site{number % 30}.example/{number}", titled, lambda _: MENU)
ONE = ORDINARY._replace(url=lambda number: f"https://one.example/{number}")
ODD = {
    "of one page each": ORDINARY._replace(url=lambda number: f"https://host{number}.example/"),
    "of all pages": ONE,
    "with a new template on every page": ONE._replace(frame=framed),
    "without titles": ONE._replace(title=lambda _: ""),
    "with empty titles": ONE._replace(title=lambda _: "<title> \n</title>"),
    "with one title": ONE._replace(title=lambda _: "<title>one and the same</title>"),
    "with titles in other scripts": ONE._replace(title=lambda n: f"<title>{SCRIPTS[n % 9]} {n}</title>"),
    "with titles of a thousand words": ONE._replace(title=lambda n: f"<title>{article(-n, 60)}</title>"),
    "by IP address": ORDINARY._replace(url=lambda number: f"http://10.0.0.{number % 3}:8080/{number}"),
    "by IPv6 address": ORDINARY._replace(url=lambda number: f"http://[2001:db8::{number % 3}]/{number}"),
    "without an address": ORDINARY._replace(url=lambda _: ""),
    "with an address that has no host": ORDINARY._replace(url=lambda number: f"file:///pages/{number}"),
    "without a menu": ONE._replace(frame=lambda _: ""),
}


class Judged(NamedTuple):
    """Verdicts by page, CPU time of judging and filing in seconds, and the state after it."""

    kind: list[Kind]
    reason: list[Reason]
    original: list[int | None]
    seconds: float
    state: State


def pages_of(look: Look, count: int = PAGES) -> list[Page]:
    """`count` pages of different text, then some of the same text in other bytes."""

    def shown(number: int, words: str = "") -> str:
        around = f"{look.frame(number)}<article><p>{article(number)}{words}</p></article>"
        return f"<!doctype html><html><head>{look.title(number)}</head><body>{around}</body></html>"

    pages = [page(number, look.url(number), shown(number)) for number in range(count)]
    copied = random.Random(1).sample(range(count), COPIES)
    again = [page(count + turn, look.url(number), shown(number, " again")) for turn, number in enumerate(copied)]
    return pages + again


def judge_all(pages: Sequence[Page], signing: bool = False) -> Judged:
    """Judge pages in records of RECORD. signing: whether the time includes signing"""
    state, kinds, reasons, originals = memory_state(), list[Kind](), list[Reason](), list[int | None]()
    seconds = 0.0
    for first in range(0, len(pages), RECORD):
        before = time.process_time()
        signed = SCHEME.sign(pages[first : first + RECORD])
        before = before if signing else time.process_time()
        verdicts, index_update = judge(signed, SCHEME, state, 256, 64)
        state.file(index_update, state.position + 1, 0)
        seconds += time.process_time() - before
        kinds += map(Kind, verdicts.kind)
        reasons += map(Reason, verdicts.reason)
        originals += [original.offset if original else None for original in verdicts.originals]
    return Judged(kinds, reasons, originals, seconds, state)


@functools.cache
def ordinary_seconds() -> float:
    """What ordinary hosts take, compiled kernels given."""
    pages = pages_of(ORDINARY)
    judge_all(pages[:RECORD])
    return min(judge_all(pages).seconds for _ in range(2))


def check_memory(state: State, hosts: Sequence[int]) -> None:
    """No host is remembered by more than there is room for."""
    known = state.memories(np.unique(np.array(hosts, np.uint64)))
    assert int(np.diff(known.item_bounds).max()) <= MOST_ITEMS
    assert int(np.diff(known.word_bounds).max()) <= MOST_WORDS
    assert known.urls.all()


@pytest.mark.parametrize("look", ODD.values(), ids=ODD)
def test_odd_hosts_are_told_apart_and_their_copies_found_in_little_time(
    look: Look,
) -> None:
    pages = pages_of(look)
    found = judge_all(pages)
    lost = [number for number in range(PAGES) if found.kind[number] != Kind.NOVEL]
    assert lost == []
    assert set(found.reason[:PAGES]) == {Reason.NO_MATCH}
    copied = random.Random(1).sample(range(PAGES), COPIES)
    assert found.original[PAGES:] == copied
    assert set(found.reason[PAGES:]) == {Reason.CONTAINED}
    check_memory(found.state, hash_hosts(pages).tolist())
    again = (judge_all(pages).seconds for _ in range(RUNS - 1))
    assert any(seconds <= 3 * ordinary_seconds() for seconds in itertools.chain([found.seconds], again))


def signed_articles(first: int, count: int) -> Signatures:
    """Articles of one block each on one host, without a title, as short as made-up crawls have them."""
    return SCHEME.sign(
        [
            page(number, f"https://one.example/{number}", f"<html><body><p>{article(number)}</p></body></html>")
            for number in range(first, first + count)
        ]
    )


@pytest.mark.guarantee("no page is lost to another page of a large host", fault="none: 100,000 short articles")
@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_no_article_of_a_large_host_is_lost_to_another(count: int) -> None:
    state, lost = memory_state(), list[int]()
    for first in range(0, count, 1_000):
        signed = signed_articles(first, 1_000)
        verdicts, index_update = judge(signed, SCHEME, state, 256, 64)
        state.file(index_update, state.position + 1, 0)
        lost += (first + np.flatnonzero(verdicts.kind != Kind.NOVEL)).tolist()
    assert lost == []
    check_memory(state, hash_hosts([page(0, "https://one.example/", "")]).tolist())


def test_texts_that_quote_each_other_in_a_ring_are_all_novel() -> None:
    # Each consists of a text of its own and the text before it in the ring.
    count = 40
    shown = [
        f"<title>{titled(number)}</title><p>{article(number)}</p><p>{article((number - 1) % count)}</p>"
        for number in range(count)
    ]
    found = judge_all([page(number, f"https://ring.example/{number}", body) for number, body in enumerate(shown)])
    assert set(found.kind) == {Kind.NOVEL}
    across = [page(number, f"https://ring{number}.example/", body) for number, body in enumerate(shown)]
    assert set(judge_all(across).kind) == {Kind.NOVEL}


def test_a_page_that_joins_two_earlier_pages_is_novel() -> None:
    pages = [page(number, f"https://one.example/{number}", f"<p>{article(number)}</p>") for number in range(30)]
    pages += [
        page(
            30 + number,
            f"https://{host}.example/{30 + number}",
            f"<p>{article(number)}</p><p>{article(29 - number)}</p>",
        )
        for number in range(15)
        for host in [("one", "two")[number % 2]]
    ]
    assert set(judge_all(pages).kind) == {Kind.NOVEL}


def seconds_of(body: str) -> float:
    """The CPU time of signing and judging a page and a copy of it, both with a page of the host before them."""
    pages = [page(number, f"https://one.example/{number}", body + "!" * number) for number in range(2)]
    judge_all(pages[:1])
    return min(judge_all(pages, signing=True).seconds for _ in range(2))


@pytest.mark.parametrize(
    ("blocks", "count"),
    [
        (lambda _: "<p>one and the same block</p>", 1_000_000),
        (lambda number: f"<p>block {number} of {number * 7} others</p>", 100_000),
        (lambda number: f"<p>block of no number but {SYLLABLES[number % 18]} {article(number, 1)}</p>", 20_000),
    ],
    ids=["equal", "different", "long"],
)
def test_time_is_linear_in_the_blocks_of_a_page(blocks: Callable[[int], str], count: int) -> None:
    whole = [blocks(number) for number in range(count)]
    part = seconds_of("".join(whole[: count // 8]))
    assert seconds_of("".join(whole)) <= 8 * 2 * part + 0.05
