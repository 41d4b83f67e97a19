"""Pages made to be expensive cost time linear in their size, on the whole way from bytes to signature."""

import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial

import pytest

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.urls import host_of
from spotsieve.stream.sign.intake.charset import to_utf8
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of
from tests.conftest import REPOSITORY
from tests.fixtures.cpu_time import assert_cpu_below, assert_cpu_grows, assert_cpu_ratio
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.bodies import page_of_body
from tests.fixtures.pages.scheme_settings import settings_named

SMALL, GROWTH = 500_000, 8
MOST_GROWTH = 20
"""Of CPU time from SMALL bytes to GROWTH times as many: linear is 8, quadratic is 64."""
PAGE_BYTES = 4_000_000, 16_000_000
MOST_MEMORY = 64
"""Memory for the largest page, per byte of the page; measured: 26."""


def repeated(piece: bytes) -> Callable[[int], bytes]:
    return lambda size: piece * (size // len(piece))


def within(start: bytes, piece: bytes, end: bytes) -> Callable[[int], bytes]:
    return lambda size: start + piece * (size // len(piece)) + end


def numbered(pattern: bytes) -> Callable[[int], bytes]:
    return lambda size: b"".join(pattern % number for number in range(size // len(pattern % 1_000_000)))


def nested(opening: bytes, closing: bytes) -> Callable[[int], bytes]:
    def build(size: int) -> bytes:
        depth = size // len(opening + closing)
        return opening * depth + b"the text at the bottom of it all" + closing * depth

    return build


def entity_flood(size: int) -> bytes:
    names = [
        b"&amp;",
        b"&NotEqualTilde;",
        b"&#x1F600;",
        b"&#0;",
        b"&#xFFFFFFFFFFFF;",
        b"&CounterClockwiseContourIntegral",
    ]
    chosen = random.Random(1).choices(names, k=size // 12)
    return b"".join(chosen)


BOMBS: dict[str, Callable[[int], bytes]] = {
    "nothing but <": repeated(b"<"),
    "nothing but >": repeated(b">"),
    "deep nesting": nested(b"<div>", b"</div>"),
    "deep nesting of lists": nested(b"<ul><li>", b"</li></ul>"),
    "deep nesting of sections": nested(b"<nav><article>", b"</article></nav>"),
    "deep nesting of foreign content": nested(b"<svg><math>", b"</math></svg>"),
    "deep nesting of templates": nested(b"<template>", b"</template>"),
    "deep nesting of links": nested(b"<a href=x>", b"</a>"),
    "one tag of a million attributes": lambda size: b"<p " + numbered(b"a%d='the value' ")(size) + b">the text</p>",
    "one attribute as long as the page": within(b"<p title='", b"x ", b"'>the text"),
    "one attribute that never ends": within(b"<p title='", b"x>", b""),
    "a million blocks": numbered(b"<p>w%d"),
    "a million links": numbered(b"<a href=%d>x</a> "),
    "entity flood": entity_flood,
    "entities without an end": repeated(b"&CounterClockwiseContourIntegra"),
    "one token": repeated(b"a"),
    "one token of letters and marks": repeated("a\u0301".encode()),
    "one word again and again": repeated(b"word "),
    "a giant comment": within(b"<!--", b"- -! --x <p>", b"--><p>the text"),
    "a comment that never ends": within(b"<!--", b"--!-", b""),
    "a giant CDATA section": within(b"<svg><![CDATA[", b"]]x]]<p>", b"]]></svg>"),
    "a giant script": within(b"<script>", b"<!--<script></script", b"--></script><p>the text"),
    "a script that never ends": within(b"<script>", b"</scripts></scrip", b""),
    "a giant style": within(b"<style>", b"</styles>", b"</style>"),
    "ideographs": repeated("漢".encode()),
    "stop-words only": repeated(b"of "),
    "control characters": repeated(bytes(range(1, 32))),
    "bytes that are no UTF-8": repeated(b"\xc3\xff\xf0\x9f"),
}
FIRST, OTHERS = ("spotsieve", "chain"), tuple(name for name in SCHEMES if name not in ("spotsieve", "chain"))
"""The two that read markup in kernels of their own meet every bomb in full; the others share their tokens or spots."""
OTHERS_SMALL, OTHERS_MEMORY = 50_000, ("one token", "one word again and again", "ideographs", "a million blocks")


@cache
def bomb_of(name: str, size: int) -> bytes:
    """A bomb for all of the OTHERS."""
    return BOMBS[name](size)


@cache
def scheme_named(name: str) -> Scheme:
    return scheme_of(settings_named(name))


def read_and_sign(body: bytes, schemes: Sequence[str] = FIRST) -> None:
    page = page_of_body(body, "text/html", len(body))
    assert page.judgeable
    for name in schemes:
        scheme_named(name).sign([page])


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    read_and_sign(b"<p>the first call of the kernels takes them from the cache", tuple(SCHEMES))


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
@pytest.mark.guarantee(
    "hostile input costs bounded time and memory, and the run continues", fault="pages that are expensive to read"
)
def test_the_cpu_time_of_a_bomb_grows_as_its_size_does(bomb: Callable[[int], bytes]) -> None:
    bodies = {size: bomb(size) for size in (SMALL, SMALL * GROWTH)}
    assert_cpu_grows(lambda size: read_and_sign(bodies[size]), SMALL, SMALL * GROWTH, most=MOST_GROWTH, extra=0.002)


@pytest.mark.parametrize("name", OTHERS)
def test_the_cpu_time_of_every_other_scheme_grows_as_its_page_does(name: str) -> None:
    for bomb in BOMBS:
        small, large = (partial(read_and_sign, bomb_of(bomb, OTHERS_SMALL * times), (name,)) for times in (1, GROWTH))
        assert_cpu_ratio(large, small, most=MOST_GROWTH, extra=0.01)


@pytest.mark.parametrize("bomb", [b"<a", b'<a "', b"<meta ", b"<!", b"<meta a='", b"</a "], ids=repr)
def test_a_head_of_tags_that_never_end_is_read_at_most_32_times(bomb: bytes) -> None:
    # each tag was read to the end of the 4 KB: 100 ms a page, where an ordinary legacy page takes one
    ordinary, hostile = (
        (piece * (4096 // len(piece)))[:4096] + b"\xe4\xf6\xfc " * 20 for piece in (b"<p class='a'>word</p> ", bomb)
    )
    assert_cpu_ratio(lambda: to_utf8(hostile), lambda: to_utf8(ordinary), most=30, extra=0.01)


def test_a_host_of_a_million_labels_is_no_name_and_is_not_converted() -> None:
    host = ("ü" * 20 + ".") * 20_000
    assert host_of(f"http://{host}/") == host.removesuffix(".")
    assert_cpu_below(0.2, lambda: host_of(f"http://{host}/"))


def test_hosts_are_converted_up_to_the_longest_that_dns_has() -> None:
    longest = "ü" + "." * 1 + "a" * 251
    assert host_of(f"http://{longest}/") == longest  # a label of 251 letters is none, and stays as it is
    assert host_of("http://bücher." + "a." * 100 + "example/").startswith("xn--bcher-kva.a.")


def memory_of_bombs(size: int) -> int:
    """Most memory that the process has had beyond what it had before the first bomb, in bytes. size: of a bomb"""
    import resource

    read_and_sign(b"<p>the first call of the kernels takes them from the cache", tuple(SCHEMES))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for bomb in BOMBS.values():
        read_and_sign(bomb(size))
    for name in OTHERS_MEMORY:
        for scheme in OTHERS:
            scheme_named(scheme).sign([Page("s", 0, 0, "", BOMBS[name](size // 4), True, 0)])
    read_and_sign(b"a" * 4 * size)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


@pytest.mark.parametrize("size", mostly_long(PAGE_BYTES, 1))
def test_bombs_and_a_token_of_four_times_their_size_take_bounded_memory(size: int) -> None:
    program = f"from tests.unit.text.test_page_bombs import memory_of_bombs; print(memory_of_bombs({size}))"
    ran = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert int(ran.stdout) < MOST_MEMORY * size
