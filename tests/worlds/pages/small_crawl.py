"""A small crawl for tests of schemes: stories in many languages, twice, once or mixed, from two alternating hosts."""

from collections.abc import Sequence

from spotsieve.stream.base.page import Page
from tests.worlds.pages.spotsieve_pages import PATHS, STORIES, newspaper, page, portal

HERE, THERE = "https://www.herald.example/a/1", "https://news.portal.example/story?id=7"


def crawl_of_two_hosts() -> list[Page]:
    """Every story twice or once, and mixtures of stories, from two alternating hosts; some pages are not judged."""
    texts = [STORIES[name, number] for name in PATHS for number in (1, 2, 1)]
    texts += [STORIES[name, 1][:2] + STORIES[name, 2][:2] for name in PATHS]
    texts += [STORIES["English", 1][:3], STORIES["English", 2][1:], STORIES["English", 2] + STORIES["English", 1]]
    bodies: Sequence[str] = [(newspaper, portal)[n % 2](text) for n, text in enumerate(texts)]
    odd = ["", "word", "word", "<p>Gone for good.</p>", "\0\1 no text"]
    pages = [page(n, (HERE, THERE)[n % 2], body) for n, body in enumerate([*bodies, *odd])]
    pages.append(page(len(pages), HERE, b"\x89PNG", judgeable=False))
    return pages


CRAWL = crawl_of_two_hosts()
