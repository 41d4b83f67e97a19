"""Generates the pages of the soak: sizes are log-normal from 1 to 200 KB, three in ten pages are copies."""

import math
import random
from collections.abc import Iterator
from functools import cache

import orjson

from tests.fixtures.pages.crawls import FRAMES, SYLLABLES, PageMessage, url_of

LEAST_BYTES, MEDIAN_BYTES, MOST_BYTES = 1_000, 4_000, 200_000
SPREAD = 1.0
"""Standard deviation of the logarithm: half of the pages have 2 to 8 KB, one in a thousand more than 88 KB."""
COPIES = (3, 6, 9)
"""Last digits of the numbers whose pages are copies."""
TEXT_SHARE = 0.13
"""Share of a page's bytes, as in bench/speed/pages.py; the rest is menu and script."""
SENTENCE_BYTES = 90
SITES = 5


def soak_pages(first: int, count: int, partitions: int) -> Iterator[PageMessage]:
    """Pages number first, first + 1, ..., assigned to the partitions in turn. A number always gives the same page.

    A copy is of any earlier page: the same bytes, or the article in another site's frame, or with a line above it.
    """
    for number in range(first, first + count):
        dice, shown, way = random.Random(number), number, 0
        if number % 10 in COPIES:
            earlier = dice.randrange(number)
            shown, way = earlier - (earlier % 10 in COPIES), dice.randrange(3)
        site = (shown + (way == 1)) % SITES
        body = _body(shown, site, "A line of the editor was put above the text of the agency. " if way == 2 else "")
        fields = {"url": url_of(number), "body": body, "content_type": "text/html"}
        yield PageMessage(b"%d" % number, orjson.dumps(fields), partition=number % partitions)


def _body(article: int, site: int, above: str) -> str:
    """The page of an article on a site. The article determines its size."""
    dice = random.Random(-1 - article)
    size = min(MOST_BYTES, max(LEAST_BYTES, round(dice.lognormvariate(math.log(MEDIAN_BYTES), SPREAD))))
    sentences = max(4, round(size * TEXT_SHARE / SENTENCE_BYTES))
    words = iter(dice.choices(_vocabulary(), k=8 * sentences))
    text = " ".join(FRAMES[number % 3].format(*(next(words) for _ in range(8))) for number in range(sentences))
    menu, script = _surroundings()
    around = max(0, size - len(text) - 300) // 2
    return (
        f"<!doctype html><html><head><title>site{site}</title><script>var s=[{script[:around]}];</script></head><body>"
        f"<nav class='site{site}'><ul>{menu * (around // len(menu))}</ul></nav><article><p>{above}{text}</p></article>"
        f"<footer>copyright site{site}</footer></body></html>"
    )


@cache
def _vocabulary() -> list[str]:
    dice = random.Random("vocabulary")
    return ["".join(dice.choices(SYLLABLES, k=4)) for _ in range(20_000)]


@cache
def _surroundings() -> tuple[str, str]:
    """A menu item, and a script of half of the largest page."""
    dice = random.Random("script")
    item = "<li class='menu__item'><a class='menu__link' href='/local/'><span>Local</span></a></li>\n"
    return item, ",".join(dice.randbytes(4).hex() for _ in range(MOST_BYTES // 18))
