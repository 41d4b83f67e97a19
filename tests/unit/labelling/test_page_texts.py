"""The texts in which fresh text is measured: of a file of texts, or the main text without template text."""

import lzma
from pathlib import Path

import numpy as np
import pytest

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files import check_inputs
from spotsieve.stream.research.evaluation.choices import single
from spotsieve.stream.research.labelling.estimates import score_choices
from spotsieve.stream.research.labelling.page_texts import CrawlTexts, crawl_texts, set_texts
from spotsieve.stream.research.scoring.fresh_text import PageGrams, fresh_words, words_of
from tests.fixtures.filter_crawl import article, lines

NOTICE = ". ".join(article(99).split(". ")[:4])
JAPANESE = (
    "新しい橋は来年の春に開通する予定であると市の担当者が水曜日に発表した。"
    "工事は三年前に始まったが、洪水のために二度も中断された。"
)


def page(name: str, *texts: str, host: str = "a") -> dict[str, str]:
    body = f"<title>{name}</title><body>{''.join(f'<p>{text}</p>' for text in texts)}</body>"
    return {"id": name, "url": f"https://{host}.example/{name}", "body": body}


def read(folder: Path, pages: list[dict[str, str]]) -> CrawlTexts:
    path = folder / "crawl.jsonl"
    path.write_bytes(lines(pages))
    return crawl_texts(check_inputs([str(path)]), Settings())


def is_text(found: PageGrams, text: str) -> bool:
    expected = PageGrams.of(words_of(text))
    return found.words == expected.words and np.array_equal(found.grams, expected.grams)


def story(number: int) -> list[str]:
    """The paragraphs of a page, the second a notice that other pages have, too."""
    sentences = article(200 + number).split(". ")
    return [article(number), NOTICE, *(". ".join(sentences[start : start + 4]) for start in range(0, 16, 4))]


def has(text: PageGrams, passage: str) -> bool:
    """Whether a text has a passage. Passages may share a 3-gram by chance."""
    own = PageGrams.of(words_of(passage))
    return 2 * fresh_words(own, text) < own.words


def test_a_block_on_many_pages_of_a_host_is_no_text_of_theirs(tmp_path: Path) -> None:
    ids, texts = read(tmp_path, [page(f"p{number}", *story(number)) for number in range(12)])
    assert ids == [f"p{number}" for number in range(12)]
    assert all(has(text, article(number)) for number, text in enumerate(texts))
    assert not any(has(text, NOTICE) for text in texts)


def test_a_block_on_two_pages_of_a_host_or_on_many_hosts_is_text(tmp_path: Path) -> None:
    pages = [page(f"p{number}", *story(number)) for number in range(3)]
    assert [has(text, NOTICE) for text in read(tmp_path, pages).texts] == [False] * 3
    assert [has(text, NOTICE) for text in read(tmp_path, pages[:2]).texts] == [True] * 2
    many = [page(f"p{number}", *story(number), host=f"host{number}") for number in range(12)]
    assert all(has(text, NOTICE) for text in read(tmp_path, many).texts)


def test_equal_pages_are_one_page_of_their_host_and_keep_their_text(tmp_path: Path) -> None:
    pages = [page(f"p{number}", article(1)) for number in range(12)]
    assert all(is_text(text, article(1)) for text in read(tmp_path, pages).texts)


def test_words_of_scripts_without_spaces_are_those_of_their_text(tmp_path: Path) -> None:
    (text,) = read(tmp_path, [page("bridge", JAPANESE * 3)]).texts
    whole = PageGrams.of(words_of(JAPANESE * 3))
    assert fresh_words(whole, text) == fresh_words(text, whole) == 0
    assert abs(text.words - whole.words) <= 3


def test_a_set_s_distinctive_texts_are_taken_and_a_page_without_one_is_empty(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl.xz").write_bytes(lzma.compress(lines([page("one", article(1)), page("two", article(2))])))
    ids = ["two", "absent", "one"]
    read_pages = set_texts(tmp_path, ids, Settings())
    assert [text.words > 0 for text in read_pages] == [True, False, True]
    assert is_text(read_pages[0], article(2))
    texts = [{"id": "one", "text": "Its own text."}]
    (tmp_path / "texts.jsonl.xz").write_bytes(lzma.compress(lines(texts)))
    assert [text.words for text in set_texts(tmp_path, ids, Settings())] == [0, 0, 3]


@pytest.mark.parametrize("line", [{"id": "one"}, {"id": 1, "text": "words"}, {"id": "one", "text": None}])
def test_a_line_without_a_text_is_refused(tmp_path: Path, line: dict[str, object]) -> None:
    (tmp_path / "texts.jsonl.xz").write_bytes(lzma.compress(lines([line])))
    with pytest.raises(InputError, match="line 1 must have an id and a text"):
        set_texts(tmp_path, ["one"], Settings())


def test_files_that_change_between_two_readings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "crawl.jsonl"
    path.write_bytes(lines([page("one", article(1))]))
    inputs, settings = check_inputs([str(path)]), Settings()

    def append_before_the_filter_reads(step: str) -> None:
        if step.startswith("filtering"):
            path.write_bytes(lines([page("one", article(1)), page("two", article(2))]))

    with pytest.raises(InputError, match="have changed while they were read twice"):
        score_choices(inputs, settings, [single(settings, settings.scheme)], append_before_the_filter_reads)
