"""Whatever the bytes, the kernel of the default scheme's columns agrees with its reference implementation."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.page import Markup
from spotsieve.stream.sign.features.sieve import SieveSettings, blocks_of, sieve_pages
from tests.reference.blocks import noted_blocks_of
from tests.reference.scorecard import reasons_of
from tests.reference.sieve import columns_of

TAGS = (
    "<p> </p> <a> </a> <a/> <A\thref='x'> <a\tb='c'\nHREF=x> <a\thref=x/> <a\thref> <a\tname=href> "
    "<nav/> <ul> </ul> <li> <table> <td> </table> <dl> <dt> <dd> </dl> <nav> </nav> "
    "<header> </header> <footer> </footer> <aside> </aside> <form> </form> <select> <option> </select> <h1> </h1> "
    "<h3> </h4> <article> </article> <main> </main> <blockquote> </blockquote> <pre> </pre> <figure> </figure> "
    "<body> </body> <div> </div> <br> <b> </b> <!--x--> <template> </template> <textarea> </textarea> <svg> "
    "<template\tshadowrootmode=open> <noscript> </noscript> <noscript/> <script/> <title/> <iframe/> <style/> "
    "</svg> <script> </script> &eacute; é 漢 ไ &amp; > | word The of und der"
).split(" ")
WORDS = (
    "1 2 42 9.99 b2b x1y &#49;st &#x32; １２ ٣ caf&eacute; Ünder1 Страница 7-я 第1章 ไทย a1\u0301 <b>5</b>5 "
    "pre<i>1</i> <title> </title> <TITLE\n> </Title\t> <title/> &lt;title&gt; <svg><title> </title></svg> <math><title>"
).split(" ")
WEIGHTS = ["<p>" + "w " * size for size in (1, 2, 3, 5, 7, 11, 47, 48, 63, 191, 255, 256, 300)]
FOREIGN = (
    "<svg> </svg> <svg> </svg> <math> </math> <foreignObject> </foreignObject> <desc> <mi> <style> </style> <template> "
    "</template> <nav> </nav> <aside> <form> <select> <a> </a> <a\thref=x> <a\txlink:href='x'/> <a\tx\txlink:href=x> "
    "<nav/> <p> <article> <ul> </ul> <b> word an 漢 other"
).split(" ")
BLANKS = [" ", "\n", "\n\n", "\n> ", "\n| ", "\0", " " * 61, "words and more words of this text " * 3, "<ul>" * 20]
soup = st.lists(st.sampled_from([*TAGS, *BLANKS]), max_size=60).map(lambda parts: "".join(parts).encode())
text = st.lists(st.sampled_from(["the", "of", "a", "b", "</p><p>", "<a>", "<a href=x>", "</a>"]), max_size=300).map(
    lambda parts: " ".join(parts).encode()
)
foreign = st.lists(st.sampled_from([*FOREIGN, " ", " "]), max_size=40).map(lambda parts: "".join(parts).encode())
blocks = st.lists(
    st.tuples(
        st.sampled_from(["<p>", "<li><a href=x>", "<td>", "<li>", "</li>", "<h1>", "</a><p>"]),
        st.lists(st.sampled_from([*WORDS, *"abcdefg"]), max_size=8).map(" ".join),
    ).map("".join),
    max_size=150,
).map(lambda parts: "".join(parts).encode())
DIVIDERS = (
    *("|", "-", "--", "|-", "&", "+", "&amp;", "&#43;", "&ndash;", "&#8212;", "&vert;", "&nbsp;", "&fjlig;", "&nGt;"),
    *("\u00b7", "\u00ad", "\u3000", "\ufffd", "a-", "-a", "\u00e4"),
)
TITLE_PIECES = [*WORDS, *TAGS, *BLANKS, *DIVIDERS, "y" * 70, "long title words", "\u00a0"]
titles = st.tuples(
    st.sampled_from(["<title>", "", "<svg><title>", "<title></title>", "<template><title>", "<title/><p>", "x" * 50]),
    st.lists(st.sampled_from(TITLE_PIECES), max_size=100).map(" ".join),
    st.sampled_from(["</title>", "", "</title", "</title><title>second one</title>", "</svg><title>first</title>"]),
    soup,
).map(lambda parts: "".join(parts[:3]).encode() + parts[3])
pages = st.one_of(
    soup,
    text,
    foreign,
    blocks,
    titles,
    st.lists(st.sampled_from(WEIGHTS)).map(lambda parts: "".join(parts).encode()),
    st.binary(max_size=100),
)
LAYOUTS = [SieveSettings(), SieveSettings(1, 3, 64), SieveSettings(9, 20, 2**64 - 1)]


@settings(max_examples=800, deadline=None)
@given(pages, st.sampled_from(Markup))
def test_what_stands_around_each_block_is_what_the_reference_sees(page: bytes, markup: Markup) -> None:
    found = blocks_of(page, markup)
    expected = noted_blocks_of(page, markup)
    assert [block.tokens for block in found] == [block.tokens for block in expected]
    assert [block.links for block in found] == [block.links for block in expected]
    assert [block.lead for block in found] == [block.lead for block in expected]
    assert [block.sections for block in found] == [sum(1 << bit for bit in block.sections) for block in expected]
    assert [block.reason for block in found] == reasons_of(expected)


@settings(max_examples=200, deadline=None)
@given(st.lists(pages, max_size=4), st.sampled_from(Markup), st.sampled_from(LAYOUTS))
def test_every_column_of_a_batch_is_that_of_the_reference(
    batch: list[bytes], markup: Markup, layout: SieveSettings
) -> None:
    bounds = np.concatenate([[0], np.cumsum([len(page) for page in batch])]).astype(np.int64)
    found = sieve_pages(np.frombuffer(b"".join(batch), dtype=np.uint8), bounds, markup, layout)
    assert len(found) == len(batch)
    for row, page in enumerate(batch):
        expected = columns_of(page, markup, layout)
        assert found.token_counts[row] == expected.tokens
        assert found.kept_counts[row] == expected.kept
        assert found.block_counts[row] == expected.blocks
        assert found.weak[row] or not expected.weak
        assert tuple(found.body_digest[row].tolist()) == expected.body
        assert found.feature_counts[row] == expected.features
        assert found.language[row] == expected.language
        assert found.minima[found.minima_bounds[row] : found.minima_bounds[row + 1]].tolist() == expected.minima
        assert found.blocks[found.block_bounds[row] : found.block_bounds[row + 1]].tolist() == expected.packed
        assert found.samples[found.sample_bounds[row] : found.sample_bounds[row + 1]].tolist() == expected.samples
        assert found.titles[found.title_bounds[row] : found.title_bounds[row + 1]].tolist() == expected.titles
        assert found.headline[row] == expected.headline
