"""The visible text of a page: original spelling, aligned with the filter's words, in linear time."""

from itertools import islice

import pytest

from spotsieve.stream.base.page import Markup
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.demo.crawl import build_crawl
from spotsieve.stream.files import check_inputs
from spotsieve.stream.files.reader import pages_of
from spotsieve.stream.research.labelling.review_page import side_by_side
from spotsieve.stream.sign.features.shown_text import align, paragraphs_in, paragraphs_of, read_text, words_of
from spotsieve.stream.sign.features.sieve import blocks_of, selected_blocks
from tests.fixtures.cpu_time import assert_cpu_grows
from tests.fixtures.filter_crawl import DATA
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
        ("<title>t</title>a<item><title>c &lt; d</title>e</item>", Markup.XML, "a\nc < d\ne"),
        ("a <![CDATA[<b>&amp;</b>]]> b", Markup.XML, "a <b>&amp;</b> b"),
        ("<p title='a > b' data-x=\"<i>c</i>\" alt=it's>d</p> <a href=x'>e</a>", True, "d\ne"),
        ("a <textarea><i>b</i> &amp; c</textarea> <xmp><i>&amp;</i></xmp> d", True, "a <i>b</i> & c <i>&amp;</i> d"),
        ("a <svg><title>b</title><text>c</text></svg> d <noscript>e", True, "a c d e"),
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
    def read(size: int) -> None:
        body = (piece * size)[: 3 * size]
        read_text(body, True)
        read_text(body, False)

    assert_cpu_grows(read, 40_000, 200_000, most=12, extra=0.6)


def test_only_the_common_text_of_two_pages_is_marked() -> None:
    one = page(0, "https://a.example/", "<nav>Home Sport</nav><p>The old mill by the river opens again in spring.</p>")
    other = page(1, "https://b.example/", "<p>Good news: the old mill by the river opens, they said.</p>")
    sides = side_by_side(one, other)
    marks = [[part for _, parts in side.lines for part in parts[1::2]] for side in sides]
    assert marks == [["The old mill by the river opens"], ["the old mill by the river opens"]]
    whole = ["".join("".join(parts) for _, parts in side.lines) for side in sides]
    assert whole[1] == "Good news: the old mill by the river opens, they said."
    assert [side.host for side in sides] == ["a.example", "b.example"]


def paragraphs(body: str | bytes, markup: Markup | bool = True) -> list[str]:
    """The text of every block of a page."""
    content = body.encode() if isinstance(body, str) else body
    selected = selected_blocks(content, markup)
    return paragraphs_in(content, markup, selected, [True] * len(selected.ends))


@pytest.mark.parametrize(
    ("body", "markup", "texts"),
    [
        (
            "<p>Caf&eacute;&nbsp;12.50&#8364;, <b>bo</b>ld!<p>'So,' he\n said.",
            True,
            ["Café 12.50€, bold!", "'So,' he said."],
        ),
        ("<title>t</title>one<br>two <br/><br/> three<div>***</div><p>four", True, ["one\ntwo\nthree", "four"]),
        ("<pre>\ndef f():\n\n    return 1  \n</pre><p>a   b", True, ["def f():\n\n    return 1", "a b"]),
        ("<p title='x > y' data-z='<p>no</p>'>a<!-- <p>b</p> --><script>c('<p>')</script> d", True, ["a d"]),
        ("<template><p>a</p></template><p>b</p><noscript>c", True, ["b", "c"]),
        ("one\ntwo  \n\n \nthree", False, ["one\ntwo", "three"]),
        ("<rss><title>t</title><item><title>a &amp; b</title><link>c</link></item></rss>", Markup.XML, ["a & b", "c"]),
        ("การเมือง <b>ไ</b>ทย", True, ["การเมือง ไทย"]),
        ("<p>a\0b c\xadd</p>", True, ["ab cd"]),
        ("<p>a &#" + "1" * 5000 + "; b &#" + "0" * 5000 + "65;</p>", True, ["a \ufffd b A"]),
        ("a &#" + "1" * 5000 + "; b", True, ["a \ufffd b"]),
        ("", True, []),
    ],
)
def test_the_paragraphs_are_the_texts_of_the_blocks(body: str, markup: Markup | bool, texts: list[str]) -> None:
    assert paragraphs(body, markup) == texts


def test_a_paragraph_keeps_bytes_that_are_no_utf_8_apart() -> None:
    assert paragraphs(b"<p>one\xfftwo \xe4\xb8") == ["one\ufffdtwo \ufffd"]


@pytest.mark.parametrize("name", ["news", "docs", "catalogue", "scripts", "newsgroups"])
def test_the_paragraphs_have_the_words_of_their_blocks(name: str) -> None:
    """On real pages: each paragraph, scanned as plain text, has exactly the words of its block."""
    file = DATA / name / "pages.jsonl.xz"
    if not file.exists():
        pytest.skip(f"../shared/data/{name} is not beside the repository: the labelled pages are not part of it")
    words = 0
    for made in islice(pages_of(check_inputs([str(file)]), InputSettings()), 0, 400, 20):
        scored, texts = blocks_of(made.body, made.markup), paragraphs(made.body, made.markup)
        for block, text in zip(scored, texts, strict=True):
            found = [word for one in blocks_of(text.encode(), False) for word in one.tokens]
            assert found == list(block.tokens), made.label
            words += len(found)
    assert words > 2_000


def test_equal_blocks_have_one_place() -> None:
    selected = selected_blocks(b"<p>a b c<p>d<p>A b, c<p>e", True)
    assert selected.places == [0, 1, 0, 2]


@pytest.mark.parametrize(
    "piece",
    [b"<a", b'<a ="', b"='<i ", b"<p>", b"<!--", b"<script ", b"<noscript>", b"<template>", b"<svg><p>x", b"&a"],
)
def test_paragraphs_of_hostile_pages_take_linear_time(piece: bytes) -> None:
    assert_cpu_grows(
        lambda size: paragraphs((b"word " + piece * size)[: 3 * size]), 40_000, 200_000, most=12, extra=0.6
    )
