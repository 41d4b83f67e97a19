"""The visible text of a page: original spelling, aligned with the filter's words, in linear time."""

import time

import pytest

from spotsieve.stream.base.page import Markup
from spotsieve.stream.demo.crawl import build_crawl
from spotsieve.stream.insight.explain.shown_text import align, paragraphs_of, read_text, words_of
from spotsieve.stream.research.labelling.review_page import side_by_side
from spotsieve.stream.sign.features.sieve import blocks_of
from tests.fixtures.pages.spotsieve_pages import page


@pytest.mark.parametrize(
    ("body", "markup", "text"),
    [
        (
            "<p>It's 12.50&nbsp;EUR, caf&eacute; <b>bo</b>ld<p>soft&shy;hyphen",
            True,
            "It's 12.50 EUR, café bold\nsofthyphen",
        ),
        ("<title>T &amp; t</title>a<br>b<script>var a='<p>no'</script><td>c</td>", True, "a b\nc"),
        ("a &lt;script&gt; &bogus; a < b &#x41; <!-- <p> --> c", True, "a <script> &bogus; a < b A c"),
        ("a &amp; b\nc\n \n\nd <p>", False, "a &amp; b c\nd <p>"),
        ("日本語 <i>x</i>", True, "日本語 x"),
        ("a <script src=x.js/>b <title/>c", True, "a b c"),
        ("a <template shadowrootmode=open>b</template> <template>c</template>d", True, "a b d"),
        ("a <script/>b <![CDATA[c & d]]> e<style>f</style>", Markup.XML, "a b c & d e"),
    ],
)
def test_the_visible_text_keeps_the_spelling_of_the_page(body: str, markup: Markup | bool, text: str) -> None:
    shown = read_text(body.encode(), markup)
    assert shown.text == text
    assert len(shown.origins) >= len(text)


def test_origins_locate_the_words_in_the_source() -> None:
    shown = read_text(b"<div>one <b>two</b>, three&nbsp;four</div>", True)
    found = [shown.source[shown.origins[word.start] : shown.origins[word.end - 1] + 1] for word in words_of(shown.text)]
    assert found == ["one", "two", "three", "four"]


def test_paragraphs_are_main_text_if_their_blocks_are() -> None:
    wrong = words = 0
    for sent in build_crawl()[:60:4]:
        made = page(0, sent.url, sent.body.decode())
        shown = read_text(made.body, made.markup)
        lines = paragraphs_of(shown, made)
        kept = {" ".join(block.tokens): block.kept for block in blocks_of(made.body, made.markup)}
        for line in lines:
            words += 1
            wrong += kept.get(" ".join(word.form for word in line.words), line.kept) != line.kept
    assert words > 300
    assert wrong == 0


def test_the_alignment_skips_words_without_a_token() -> None:
    tokens = "a b c d e f".split()
    assert align("a x b c y y e f".split(), tokens) == [0, None, 1, 2, None, None, 4, 5]
    assert align("f a b".split(), tokens) == [None, 0, 1]


@pytest.mark.parametrize("piece", [b"<a", b"<!--", b"<script ", b"<a \"'", b"&a", b"\n ", b"<title>", b"<svg><p>"])
def test_hostile_pages_take_linear_time(piece: bytes) -> None:
    def seconds(size: int) -> float:
        body = (piece * size)[: 3 * size]
        began = time.process_time()
        read_text(body, True)
        read_text(body, False)
        return time.process_time() - began

    seconds(1_000)
    assert seconds(200_000) < 12 * max(min(seconds(40_000), seconds(40_000)), 0.05)


def test_only_the_common_text_of_two_pages_is_marked() -> None:
    one = page(0, "https://a.example/", "<nav>Home Sport</nav><p>The old mill by the river opens again in spring.</p>")
    other = page(1, "https://b.example/", "<p>Good news: the old mill by the river opens, they said.</p>")
    sides = side_by_side(one, other)
    marks = [[part for _, parts in side.lines for part in parts[1::2]] for side in sides]
    assert marks == [["The old mill by the river opens"], ["the old mill by the river opens"]]
    whole = ["".join("".join(parts) for _, parts in side.lines) for side in sides]
    assert whole[1] == "Good news: the old mill by the river opens, they said."
    assert [side.host for side in sides] == ["a.example", "b.example"]
