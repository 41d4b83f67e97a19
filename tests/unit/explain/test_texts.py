"""The texts of an explanation: exact containment, and marks of shared and fresh text."""

import numpy as np
import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.insight.explain.explanation import HostFacts, host_sentence
from spotsieve.stream.insight.explain.texts import BlockRole, PageBlocks, read_pair
from spotsieve.stream.insight.explain.trace import blocks_by_host, trace_page
from spotsieve.stream.judge import PLAIN, judge
from spotsieve.stream.judge.by_host.containment import ALL_TEXT, TEMPLATE_TEXT
from spotsieve.stream.judge.by_host.memory import MOST_HOST_PAGES
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.cpu_time import assert_cpu_grows

SETTINGS = SpotsieveSettings()
SCHEME = SpotsieveScheme(SETTINGS)
NOTICE = "we use cookies on this site and you agree to all of them when you read on"


def words(first: int, count: int) -> str:
    return " ".join(f"word{number}" for number in range(first, first + count))


def page(number: int, *paragraphs: str, title: str = "", host: str = "a.example") -> Page:
    body = f"<title>{title or f'page{number} of the mill'}</title>" + "".join(f"<p>{text}</p>" for text in paragraphs)
    return Page("s", 0, number, f"https://{host}/{number}", body.encode(), True, 0)


def test_edited_words_are_not_fresh_and_added_sentences_are() -> None:
    first = page(0, words(0, 60))
    edited = page(1, words(0, 20) + " other words here " + words(23, 37), words(100, 10))
    texts = read_pair(edited, first, SETTINGS)
    assert [(run.words, run.text) for run in texts.page.fresh] == [(10, words(100, 10))]
    assert texts.page.shared == 18 + 35
    assert texts.page.shingles == 58 + 8
    assert texts.containment == pytest.approx(53 / 66)
    assert texts.other is not None
    assert texts.other.fresh == ()
    marked = [(piece.text, piece.shared, piece.fresh) for block in texts.page.blocks for piece in block.pieces]
    assert ("other words here", False, False) in [(text.strip(), shared, fresh) for text, shared, fresh in marked]
    assert (words(100, 10), False, True) in marked


def test_one_page_alone_has_no_fresh_text() -> None:
    texts = read_pair(page(0, words(0, 60)), None, SETTINGS)
    assert (texts.other, texts.containment, texts.fresh_words, texts.page.fresh) == (None, None, None, ())
    assert not any(piece.shared or piece.fresh for block in texts.page.blocks for piece in block.pieces)


def test_a_repeated_block_counts_once() -> None:
    again = page(1, words(0, 40), words(200, 30), words(0, 40), words(200, 30))
    state = memory_state()
    facts = blocks_by_host(SCHEME.sign([again]), SCHEME, state, PLAIN)
    texts = read_pair(again, page(0, words(0, 40)), SETTINGS, ALL_TEXT, facts)
    assert texts.fresh_words == 30
    assert texts.page.shingles == 38 + 28
    assert [block.compared for block in texts.page.blocks] == [True, True, False, False]


def test_template_text_of_the_host_is_outside_of_the_compared_part() -> None:
    pages = [page(number, NOTICE, words(1000 * number, 80)) for number in range(6)]
    state = memory_state()
    _, index_update = judge(SCHEME.sign(pages), SCHEME, state, 256, 0)
    state.file(index_update, 1, 0)
    queried = page(9, NOTICE, words(5000, 70), words(9000, 30))
    facts = blocks_by_host(SCHEME.sign([queried]), SCHEME, state, PLAIN)
    assert facts is not None
    assert facts.roles == [BlockRole.TEMPLATE, BlockRole.DISTINCTIVE, BlockRole.DISTINCTIVE]
    texts = read_pair(queried, pages[5], SETTINGS, ALL_TEXT, facts, facts)
    assert texts.page.compared_words == 100
    assert texts.fresh_words == 30
    assert facts.in_part(TEMPLATE_TEXT).all()


@pytest.mark.parametrize("seed", range(12))
def test_exact_figures_are_those_of_the_judge_where_its_samples_hold_the_whole_text(seed: int) -> None:
    dice = np.random.default_rng(seed)
    # Shorter texts are compared block by block, and longer ones have more shingles than an entry has samples.
    first = [words(int(dice.integers(0, 40)) * 50, int(dice.integers(27, 32))) for _ in range(4)]
    later = [text if dice.random() < 0.7 else words(int(dice.integers(50, 99)) * 50, 28) for text in first]
    pages = [page(0, *first, host="a.example", title="mill"), page(1, *later, host="b.example", title="mill")]
    state = memory_state()
    _, index_update = judge(SCHEME.sign(pages[:1]), SCHEME, state, 256, 0)
    state.file(index_update, 1, 0)
    queried = SCHEME.sign(pages[1:])
    trace = trace_page(queried, SCHEME, state, 0, also=[0])
    (candidate,) = trace.candidates
    assert trace.host is not None
    if candidate.part is None:
        texts = read_pair(pages[1], pages[0], SETTINGS, ALL_TEXT, trace.host.blocks)
        assert texts.page.shared == 0
        return
    texts = read_pair(pages[1], pages[0], SETTINGS, candidate.part.part, trace.host.blocks)
    assert texts.containment == pytest.approx(candidate.part.containment.value)
    assert texts.fresh_words == pytest.approx(candidate.part.fresh_words.value)


def test_a_page_of_many_equal_words_is_read_in_linear_time() -> None:
    def read(words: int) -> None:
        page = Page("a", 0, 0, "https://a.example/", b"<p>" + b"word " * words, True, 0)
        texts = read_pair(page, page, SpotsieveSettings())
        assert [len(block.pieces) for block in texts.page.blocks] == [1]

    # Four times the words took thirteen times as long, since each word copied the text before it.
    assert_cpu_grows(read, 20_000, 80_000, most=7)


def test_more_pages_of_a_host_than_its_sketch_tells_apart_are_not_given_as_a_number() -> None:
    blocks = PageBlocks(np.zeros(1, np.uint64), np.zeros(1, np.uint8))
    few, many = (host_sentence(HostFacts(pages, 10, 9, 9, 0, blocks)) for pages in (40, MOST_HOST_PAGES))
    assert few.startswith("Pages of the host so far: 40. ")
    assert many.startswith("Pages of the host so far: 532 or more. ")
