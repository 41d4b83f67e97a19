"""Real pages for the benchmarks: those of the labelled sets, and replicas of them in other letters.

A replica has the markup of its page and the same words, but in each word of at least LONG_WORD letters all letters are
exchanged by a table of its own. So replicas have real structure, sizes and template text, and share no text with each
other. Short words stay as they are: scorecards and languages know them.
"""

import lzma
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from random import Random

import orjson

from bench.quality.sets import DATA
from spotsieve.stream.base.page import Page
from spotsieve.stream.research.evaluation.trial import PAGES_FILE

SETS = "news", "docs", "catalogue"
LEAST_BYTES, MOST_BYTES = 8_000, 40_000
"""The sizes of the bodies that are taken: 20.8 KB on average."""
LONG_WORD = 5
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORD = re.compile(
    r"<(?:script|style)\b.*?</(?:script|style)\s*>|<!--.*?-->|<[^>]*>|&#?\w+;|([^\W\d_]+)", re.DOTALL | re.IGNORECASE
)
"""A word in the text of a page, or a piece of markup."""


def has_real_pages() -> bool:
    """Whether the labelled sets are here."""
    return all((DATA / name / PAGES_FILE).exists() for name in SETS)


def real_messages(count: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of `count` JSON messages: the pages in a random order, then their replicas, each at its own host."""
    pages = _in_random_order(seed)
    for number in range(count):
        replica, place = divmod(number, len(pages))
        page = pages[place]
        if replica:
            exchanged = in_letters(page["body"], exchange(f"{seed}-{replica}"))
            page = page | {"url": page["url"].replace("://", f"://r{replica}.", 1), "body": exchanged}
        yield page["url"].encode(), orjson.dumps(page)


def real_pages() -> list[Page]:
    """The pages in a random order, as the library takes them."""
    pages = enumerate(_in_random_order(1))
    return [Page("bench", 0, number, page["url"], page["body"].encode(), True, 0) for number, page in pages]


def exchange(name: str) -> Mapping[int, str | int]:
    """A random exchange of the Latin letters, by name: a table for str.translate."""
    letters = list(LETTERS)
    Random(name).shuffle(letters)
    others = "".join(letters)
    return str.maketrans(LETTERS + LETTERS.upper(), others + others.upper())


def in_letters(markup: str, table: Mapping[int, str | int]) -> str:
    """A page whose words of at least LONG_WORD letters have their letters replaced by a table for str.translate."""
    return words_replaced(markup, lambda word: word.translate(table) if len(word) >= LONG_WORD else word)


def words_replaced(markup: str, replace: Callable[[str], str]) -> str:
    """A page with each word of its text replaced. Its markup stays as it is."""
    return _WORD.sub(lambda part: replace(part[1]) if part[1] else part[0], markup)


def _in_random_order(seed: int) -> list[dict[str, str]]:
    pages = list(_pages())
    Random(f"bench-{seed}").shuffle(pages)
    return pages


@cache
def _pages() -> tuple[dict[str, str], ...]:
    """The pages of the sets that are neither short nor long, as fields of a message."""
    found = []
    for name in SETS:
        for line in lzma.decompress((DATA / name / PAGES_FILE).read_bytes()).splitlines():
            page = orjson.loads(line)
            if LEAST_BYTES <= len(page["body"].encode()) <= MOST_BYTES:
                found.append({field: page[field] for field in ("url", "content_type", "body")})
    return tuple(found)
