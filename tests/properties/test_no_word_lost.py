"""Every visible word of lexbor's tree is a token of ours, in the order of the page; what has no end tag takes none.

The pages come from the demo's templates, from ../shared/data/news where it exists, and from a generator. Every place of
text has a word of its own. tests/reference/lexbor.py lists what the standard does not decide.
"""

import json
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.page import Markup
from spotsieve.stream.demo.crawl import build_crawl
from spotsieve.stream.sign.features.sieve import blocks_of
from spotsieve.stream.sign.text.html import elements
from tests.fixtures.pages.page_tokens import tokens_of
from tests.reference.lexbor import DATA, lexbor_tokens, pages_of
from tests.reference.text import KINDS

ARTICLE = "<p>The mill at the river was sold, and the <a href=/mill>council of the town</a> met on the bridge.</p>" * 3
NAMES = (
    "a b i p div span br img nav header footer aside form table tr td th tbody caption colgroup col ul li ol dl dt dd "
    "h1 h2 select option optgroup button object applet marquee iframe textarea title style script noframes noembed xmp "
    "template path body html head input font pre listing plaintext blockquote article main figure details summary "
    "dialog datalist video audio canvas label fieldset legend ruby rt center nobr link meta base my-element"
).split()
FOREIGN = "svg math g text path foreignObject desc mi mtext a p b ul nav font annotation-xml".split()
ATTRIBUTES = ("", "", "", " href=x", " name=top", " a='>'", ' b="<p>" c', " shadowrootmode=open")
PIECE = re.compile(r"<!--.*?(?:-->|\Z)|<[^<>]*>|[^<]+|<", re.DOTALL)


def tags(names: list[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "<{}{}{}>".format,
        st.tuples(st.sampled_from(["", "", "/"]), st.sampled_from(names)).map("".join),
        st.sampled_from(ATTRIBUTES),
        st.sampled_from(["", "", "", "/"]),
    )


def numbered(pieces: list[str]) -> str:
    """The tags with a word of its own behind each."""
    return "".join(f"{piece} word{number}th " for number, piece in enumerate(pieces))


def own_words(tokens: list[str]) -> list[int]:
    return [int(token[4:-2]) for token in tokens if re.fullmatch(r"word\d+th", token)]


def assert_no_word_is_lost(page: str) -> None:
    ours = own_words([token for block in tokens_of(page.encode(), True) for token in block])
    assert ours == sorted(ours), "in the order of the page"
    assert set(own_words(lexbor_tokens(page.encode()))) <= set(ours)


@settings(max_examples=600, deadline=None)
@given(st.one_of(st.lists(tags(NAMES), max_size=14), st.lists(tags(FOREIGN), max_size=14)).map(numbered))
def test_generated_pages_lose_no_word_of_the_tree(page: str) -> None:
    assert_no_word_is_lost(page)


@cache
def real_pages() -> list[list[str]]:
    """The tags of pages of several sites, without <noscript> and text."""
    bodies = [
        json.loads(sent.value).get("body") for sent in build_crawl()[::12] if sent.value and sent.value[:1] == b"{"
    ]
    if (DATA / "news" / "pages.jsonl.xz").exists():
        bodies += [body.decode() for number, (_, body) in enumerate(pages_of("news")) if number % 60 == 0]
    found = [PIECE.findall(re.sub(r"</?noscript[^>]*>", "", body)) for body in bodies if isinstance(body, str)]
    return [[piece for piece in pieces if piece[0] == "<" and len(piece) > 2] for pieces in found]


def mutated(pieces: list[str], draw: random.Random) -> str:
    """The page with a few tags lost, doubled, moved, closed by a slash, or cut off, and words in its text."""
    changed = list(pieces)
    for _ in range(draw.randrange(1, 12)):
        place, other = draw.randrange(len(changed)), draw.randrange(len(changed))
        match draw.randrange(5):
            case 0:
                changed.pop(place)
            case 1:
                changed.insert(place, changed[other])
            case 2:
                changed[place], changed[other] = changed[other], changed[place]
            case 3:
                changed[place] = re.sub(r"^(<[^/!].*)>$", r"\1 />", changed[place])
            case 4:
                changed.insert(place, f"<{draw.choice(NAMES[:-12])}>")
        if len(changed) < 3:
            return numbered(changed)
    page = numbered(changed)
    return page[: draw.randrange(len(page))].rpartition(" ")[0] if draw.random() < 0.2 else page


def in_foreign_content(page: str) -> bool:
    """Whether a misplaced end tag can end svg or math for us and not for lexbor."""
    return re.search(r"<(?:svg|math)\b", page, re.IGNORECASE) is not None


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_mutated_real_pages_lose_no_word_of_the_tree(seed: int) -> None:
    draw = random.Random(seed)
    page = mutated(draw.choice(real_pages()), draw)
    assume(not in_foreign_content(page))
    assert_no_word_is_lost(page)


def test_the_real_pages_are_of_several_sites() -> None:
    assert len({tuple(pieces[:12]) for pieces in real_pages()}) >= 5
    assert min(map(len, real_pages())) > 10


def xml_nodes() -> st.SearchStrategy[str]:
    """Well-formed XML: elements of HTML and of feeds, half of them empty, with words and CDATA."""
    names = [*KINDS, "entry", "content", "item", "x:y"]
    empty = st.sampled_from(names).map("<{}/>".format)
    word = st.sampled_from([" w ", " w ", "<![CDATA[ w <p> w ]]>", "<!-- w -->"])
    raw = st.sampled_from(["script", "style", "title", "iframe", "noscript"]).map("<{0}> w </{0}>".format)
    inner = [name for name in names if KINDS.get(name, elements.INLINE) <= elements.BREAK]
    return st.recursive(
        st.one_of(empty, empty, word, raw),
        lambda nodes: st.tuples(st.sampled_from(inner), st.lists(nodes, max_size=5)).map(
            lambda one: f"<{one[0]}>{''.join(one[1])}</{one[0]}>"
        ),
        max_leaves=25,
    )


def xml_words(node: ET.Element, title: ET.Element | None) -> Iterator[str]:
    """The words of a tree that are not in elements that hide them. title: the title of the page"""
    name = node.tag.rpartition("}")[2]
    hidden = KINDS.get(name) in (elements.HIDDEN, elements.HIDDEN_BREAK, elements.SCRIPT, elements.TEMPLATE)
    if node is not title and (not hidden or name == "title"):
        yield from re.findall(r"\w+", node.text or "")
        for below in node:
            yield from xml_words(below, title)
            yield from re.findall(r"\w+", below.tail or "")


@settings(max_examples=400, deadline=None)
@given(xml_nodes())
def test_pages_of_an_xml_type_have_the_words_of_the_xml_tree(nodes: str) -> None:
    page = f"<root xmlns:x='urn:x'>{nodes}</root>"
    numbers = iter(range(1_000_000))
    page = re.sub(r"\bw\b", lambda _: f"w{next(numbers)}", page)
    tree = ET.fromstring(page)
    title = next((node for node in tree.iter("title") if node.text), None)
    expected = list(xml_words(tree, title))
    assert [token for block in tokens_of(page.encode(), Markup.XML) for token in block] == expected


def test_the_titles_of_the_entries_of_a_feed_are_text() -> None:
    feeds = {
        "RSS": "<rss><channel><title>feed</title>{0}<item><title>one</title><link>a</link></item>"
        "<item><title><![CDATA[two]]></title></item><item><title/></item></channel></rss>",
        "Atom": "<feed><title type='text'>feed</title>{0}<entry><title>one</title><link href=a />a</entry>"
        "<entry><title type='html'>two</title></entry><entry><title/></entry></feed>",
        "DocBook": "<book><title>feed</title>{0}<chapter><title>one</title><p>a</p></chapter>"
        "<chapter><title>t<emphasis>w</emphasis>o</title></chapter></book>",
    }
    for feed in feeds.values():
        for before in ("", "<title/>"):
            page = f"<?xml version='1.0'?>{before}{feed.format('')}".encode()
            assert tokens_of(page, Markup.XML) == [["one"], ["a"], ["two"]]
    assert tokens_of(b"<title>page</title><title>two</title><p>a", Markup.HTML) == [["a"]]


SECTIONS = [name for names in elements.SECTIONS for name in names]
HIDDEN = [name for name in elements.HIDDEN_NAMES if name]
OPEN_ONLY = [
    *(f"<{name}>" for name in SECTIONS),
    *("<div>", "<a href=x>", "<a name=top>", "<a>", "<button>", "<object>", "<option>", "<select>", "<noscript>"),
    *(f"<{name} src={value}/>" for name in HIDDEN for value in ("x ", "x", "'x'")),
    "<nav><ul><li><a href=x>",
    "<form><table><tr><td><a href=x><b>",
    '<template shadowrootmode="open">',
    "<template ShadowRootMode=CLOSED>",
]


@pytest.mark.parametrize("tag", OPEN_ONLY)
def test_an_element_without_an_end_tag_takes_no_block_with_it(tag: str) -> None:
    for before, behind in (("", ""), ("<nav><a href=y>Home</a></nav>", ""), ("", "<nav><ul><li>x</ul></nav>")):
        rest = f"{ARTICLE}<div>Other text</div>{ARTICLE}{behind}"
        assert blocks_of(f"{before}{tag}{rest}".encode(), True) == blocks_of(f"{before}{rest}".encode(), True)


@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name] != elements.FOREIGN])
def test_an_empty_element_tag_of_xml_takes_nothing_with_it(name: str) -> None:
    page = f"<p>Menu</p><{name} a='b'/>{ARTICLE}<p>More <![CDATA[text]]></p>".encode()
    without = page.replace(f"<{name} a='b'/>".encode(), b"")
    assert blocks_of(page, Markup.XML) == blocks_of(without, Markup.XML)


def links_in(page: str) -> list[int]:
    return [block.links for block in blocks_of(page.encode(), True)]


def test_an_anchor_is_a_link_only_with_an_address() -> None:
    assert links_in("<p><a name=top>one</a> <a id=href>two</a> <a data-href=x>three</a>") == [0]
    assert links_in("<p><a href>one</a> <a class=c HREF = 'x'>two</a> <a title='a > b' href=x>three</a>") == [3]
    assert links_in("<p><svg><a xlink:href='#x'>one</a> <a xlink:href='#y'/>two</svg>") == [1]


def test_an_unclosed_link_ends_at_the_first_block_tag_and_a_closed_one_does_not() -> None:
    assert links_in("<p><a href=x>one<p>two<p>three") == [1, 0, 0]
    assert links_in("<p><a href=x>one<p>two<p><a href=y>three</a> four") == [1, 0, 1]
    assert links_in("<p><a href=x>one<p>two<p>three</a> four") == [1, 1, 1]
    assert links_in("<li><a href=x>one<li><a href=y>two<li><a href=z>three") == [1, 1, 1]


def test_only_shadow_roots_among_templates_are_shown() -> None:
    page = b"<x-a><template shadowrootmode=open>a <template>b</template> c</template></x-a> d"
    assert tokens_of(page, True) == [["a", "c", "d"]]
    page = b"<template><div><template shadowrootmode=open>a</template></div> b</template> c"
    assert tokens_of(page, True) == [["c"]]
    for mode in ("", "=x", "=opened", "=''"):
        assert tokens_of(f"<template shadowrootmode{mode}>a</template> b".encode(), True) == [["b"]]


def test_cdata_is_text_in_xml_and_a_comment_in_html() -> None:
    page = b"<p>a <![CDATA[b & <c> d]]> e</p>"
    assert tokens_of(page, Markup.XML) == [["a", "b", "c", "d", "e"]]
    assert tokens_of(page, Markup.HTML) == [["a", "d", "e"]]
