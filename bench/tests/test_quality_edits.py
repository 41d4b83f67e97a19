"""The robustness bench edits exactly the number of words that it reports."""

import difflib
import re
from html import unescape
from random import Random

import pytest

from bench.quality.edits import (
    MarkedPage,
    draw_link_lists,
    inject,
    link_texts,
    mark,
    replace_words,
    spans_of,
    words_of,
)

SENTENCES = [f"The keeper of mill number{n} didn&rsquo;t see lantern{n} at the river{n} again." for n in range(30)]
MAIN = "\n".join(SENTENCES).replace("&rsquo;", "’")
MENU = (
    '<ul class="the-menu"><li><a href="/a?x=the&amp;y=of">News today</a></li>'
    '<li><a href="/b"><b>Sport</b></a></li></ul>'
)
HTML = (
    "<!DOCTYPE html><html><head><title>The keeper of mill number1</title><script>var the = 'keeper of mill number1';"
    f"</script><!-- the keeper of mill --></head><body>{MENU}<div id=main><p>"
    + "</p>\n<p>".join(SENTENCES).replace("lantern3", "<em>lantern3</em>")
    + "</p></div><p>All rights reserved.</p></body></html>"
)
VOCABULARY = ("harvest", "council", "orchard", "again")


@pytest.fixture
def page() -> MarkedPage:
    marked = mark("p", HTML, MAIN)
    assert marked is not None
    return marked


def tags(html: str) -> list[str]:
    return re.findall(r"<[^>]*>", html)


def visible(html: str) -> list[str]:
    return [span.word for span in spans_of(html)]


def test_words_are_those_of_text_nodes_alone() -> None:
    assert visible(MENU) == ["News", "today", "Sport"]
    assert visible("<title>a b</title><p>c&amp;d <!-- e --> f</p><script>g</script><style>h</style>1 < 2") == [
        "c",
        "d",
        "f",
        "1",
        "2",
    ]


def test_the_main_text_is_found_in_its_place_and_the_menu_is_not_part_of_it(page: MarkedPage) -> None:
    assert [span.word for span in page.main] == words_of(MAIN)
    assert all(unescape(page.html[span.start : span.end]) == span.word for span in page.words)
    assert {"News", "Sport", "reserved"} <= {span.word for span in page.words} - {span.word for span in page.main}


def test_a_main_text_that_is_not_in_the_page_gives_nothing_to_edit() -> None:
    assert mark("p", HTML, MAIN + " and a second half that stands nowhere" * 20) is None
    assert mark("p", HTML, "") is None


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05, 0.10, 1.0])
def test_exactly_the_said_share_of_words_is_replaced_and_the_markup_is_untouched(
    page: MarkedPage, share: float
) -> None:
    edited = replace_words(page.html, page.main, share, VOCABULARY, Random(1))
    before, after = visible(page.html), visible(edited)
    assert len(before) == len(after)
    changed = [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert len(changed) == max(1, round(share * len(page.main)))
    assert {after[number] for number in changed} <= set(VOCABULARY)
    assert tags(edited) == tags(page.html)
    assert {page.words.index(span) for span in page.main} >= set(changed)


def test_words_of_the_whole_page_can_be_replaced(page: MarkedPage) -> None:
    edited = replace_words(page.html, page.words, 1.0, VOCABULARY, Random(1))
    assert set(visible(edited)) == set(VOCABULARY)
    assert tags(edited) == tags(page.html)


def test_the_same_seed_gives_the_same_edit(page: MarkedPage) -> None:
    edits = {replace_words(page.html, page.main, 0.1, VOCABULARY, Random(seed)) for seed in (1, 1, 2)}
    assert len(edits) == 2


def test_link_texts_are_read_without_their_tags() -> None:
    html = MENU + '<a href="#"><img src="x"></a><A HREF="/c">Caf&eacute; &amp; bar</A>'
    assert link_texts(html) == ["News today", "Sport", "Café bar"]


@pytest.mark.parametrize("words", [1, 100, 300])
def test_link_lists_have_exactly_the_said_number_of_words(words: int) -> None:
    lists = draw_link_lists([("News today", "Sport", "All the weather of the week"), ("Chess",)], words, Random(2))
    assert sum(len(text.split()) for texts in lists for text in texts) == words


@pytest.mark.parametrize("as_links", [True, False])
def test_lists_are_injected_between_two_main_blocks_and_nothing_else_changes(page: MarkedPage, as_links: bool) -> None:
    lists = [["Local news", "Jobs & cars"], ["Video"]]
    edited = inject(page, lists, as_links, Random(3))
    added = visible(edited)
    assert len(added) == len(visible(page.html)) + 5
    (place,) = [at for at in range(len(added)) if added[at : at + 5] == ["Local", "news", "Jobs", "cars", "Video"]]
    first, last = page.words.index(page.main[0]), page.words.index(page.main[-1])
    assert first < place <= last
    kept = difflib.SequenceMatcher(None, page.html, edited, autojunk=False).get_opcodes()
    assert [code for code, *_ in kept if code != "equal"] == ["insert"]
    assert edited.count("<ul>") == (2 if as_links else 0)
    assert edited.count("<a ") - page.html.count("<a ") == (3 if as_links else 0)
