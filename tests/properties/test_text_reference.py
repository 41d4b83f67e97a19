"""Whatever the bytes, the text kernel and its reference implementation give the same blocks of tokens."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.page import Markup
from spotsieve.stream.sign.features.shown_text import paragraphs_in
from spotsieve.stream.sign.features.sieve import selected_blocks
from spotsieve.stream.sign.features.spots import SpotModel, SpotSettings, extract_spots
from tests.fixtures.pages.page_tokens import tokens_of
from tests.reference.spots import chains_of, spot_hash
from tests.reference.text import blocks_of

PIECES = (
    "< > \" ' = / & a b Zq p div 1 <p> </p> <b> </b> <!-- --> --! <! <? </ <script> </script> <SCRIPT\t </Script\n "
    "<script/> <style> </style> <title> </title> <title/> <textarea> </textarea> <xmp> </xmp> <template> </template> "
    "<template/> <template\tshadowrootmode=Open> <template\nshadowrootmode='closed'> <template\tshadowrootmode> "
    "<noscript/> <iframe\tsrc=/> <iframe/> <style\tx='/'/> <noframes/> <textarea/> <xmp/> <plaintext/> <br/> <p/> "
    "<svg> </svg> <svg/> <math> <![CDATA[ ]]> <iframe> </iframe> <noscript> </noscript> <br> <plaintext> <my-tag <h1 "
    "<o:p> <blockquote> &amp; &amp &eacute; &eacute &notit; &#65; &#x41 &#128; &#xD800; &#0; &#99999999999; &fjlig; "
    "ế ﬁ ﷺ ㌖ ½ ² ① Ａ ﾞ カ は ᄒ ᅡ ᆫ 한 가 ㄱ ㅏ क़ \u093c \u0323 \u0307 \u0345 \u3099 \u09c7 \u09be \u1025 \u102e \ufe0f "
    "i ς ᾴ \u0344 é É 漢 ｶ ー \u0301 \u00ad \u200d \u200b 😀 𝒜 𐐀 ſ İ Σ ς Ⱥ don’t the is "
    'a="b" c=\'d>"\' href="x>y" <a\thref=" "></a>'
).split(" ")
LONG_VALUES = ['="' + "z" * 60 + '"', ' longer="' + "z>" * 40 + '"']
BLANKS = [" ", "\n", "\n\n", "\r", "\t", "\0", "\u00a0", " e=f ", ' g = "h" ', "x" * 20, "y" * 70, " " * 61]
# with and without the 64 bytes behind the end that the quick ways through text and tags ask for
tails = st.sampled_from(["", " " * 130, '<p a="b">x</p>' * 12])
soup = st.tuples(st.lists(st.sampled_from([*PIECES, *BLANKS, *LONG_VALUES]), max_size=40), tails).map(
    lambda parts: "".join([*parts[0], parts[1]]).encode()
)
broken = st.tuples(soup, st.binary(max_size=4), st.integers(0, 200)).map(
    lambda parts: parts[0][: parts[2]] + parts[1] + parts[0][parts[2] :]
)
FOREIGN = (
    "<svg> </svg> <svg/> <math> </math> <foreignObject> </foreignObject> <desc> </desc> <title> </title> <title/> <mi> "
    "</mi> <mtext> </mtext> <style> </style> <style/> </style/> <script> </script> <template> </template> <noscript> "
    "<iframe> </iframe> <textarea> </textarea> <xmp> <p> </p> </div> <b> </b> </br> <a> </a> <a/> <article> </article> "
    "<button> </button> <![CDATA[x]]> <li> word an other x"
).split(" ")
foreign = st.lists(st.sampled_from([*FOREIGN, *["<svg>"] * 8, " ", " a "]), max_size=50).map(
    lambda parts: "".join(parts).encode()
)
pages = st.one_of(
    soup, foreign, broken, st.binary(max_size=150), st.text(max_size=80).map(lambda text: text.encode("utf-8"))
)


@settings(max_examples=1500, deadline=None)
@given(pages, st.sampled_from(Markup))
def test_the_kernel_reads_any_bytes_as_the_reference_does(page: bytes, markup: Markup) -> None:
    assert tokens_of(page, markup) == blocks_of(page, markup)


@settings(max_examples=300, deadline=None)
@given(pages, st.sampled_from(Markup))
def test_any_bytes_have_a_paragraph_for_each_block(body: bytes, markup: Markup) -> None:
    selected, tokens = selected_blocks(body, markup), blocks_of(body, markup)
    assert selected.ends == sorted(selected.ends)
    assert all(0 < end <= len(body) for end in selected.ends)
    texts = paragraphs_in(body, markup, selected, [True] * len(selected.ends))
    assert len(texts) == len(tokens) == len(selected.kept)


@settings(max_examples=300, deadline=None)
@given(st.lists(pages, max_size=5), st.sampled_from(Markup), st.integers(1, 3), st.integers(1, 4))
def test_the_spots_of_a_batch_are_those_of_the_reference(
    batch: list[bytes], markup: Markup, distance: int, length: int
) -> None:
    rules = SpotSettings(("the", "is:1", "a:3"), ("the", "is", "b", "é"), distance, length)
    bounds = np.concatenate([[0], np.cumsum([len(page) for page in batch])]).astype(np.int64)
    found = extract_spots(np.frombuffer(b"".join(batch), dtype=np.uint8), bounds, markup, SpotModel(rules))
    expected = [[spot_hash(chain) for chain in chains_of(blocks_of(page, markup), rules)] for page in batch]
    assert found.spots.tolist() == [spot for spots in expected for spot in spots]
    assert np.diff(found.spot_bounds).tolist() == [len(spots) for spots in expected]
