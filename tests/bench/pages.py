"""Owns the pages that the benchmarks send: generated, so that the measurement needs no data of others."""

from collections.abc import Iterator
from itertools import islice
from random import Random

import orjson

from stream.demo.articles import Article, material, write_articles
from stream.demo.edits import Edit
from stream.demo.sites import NEWSPAPERS, SITES, render

PAGE_BYTES = 20_000
DUPLICATES = 0.3
_NEWSPAPER_SITES = [site for site in SITES if site.template in NEWSPAPERS]


def json_messages(count: int, seed: int, page_bytes: int = PAGE_BYTES) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of `count` JSON messages of about page_bytes; three in ten bring the text of an earlier page.

    A copy has another address and other teasers; its article, which is nine tenths of the page, is the same.
    """
    random = Random(f"bench-{seed}")
    recent: list[Article] = []
    for number, article in enumerate(islice(_articles(random, page_bytes), count)):
        shown = random.choice(recent) if recent and random.random() < DUPLICATES else article
        if shown is article:
            recent = [*recent[-499:], article]
        site = _NEWSPAPER_SITES[number % len(_NEWSPAPER_SITES)]
        url, markup = render(site, shown, Edit.NONE, random)
        url = f"{url}?n={number}"
        fields = {"url": url, "fetched_at": 1_773_468_000 + number, "content_type": "text/html", "body": markup}
        yield url.encode(), orjson.dumps(fields)


def html_pages(count: int, seed: int, page_bytes: int = PAGE_BYTES) -> list[bytes]:
    """The pages alone, as UTF-8."""
    return [orjson.loads(value)["body"].encode() for _, value in json_messages(count, seed, page_bytes)]


def _articles(random: Random, page_bytes: int) -> Iterator[Article]:
    """Endless different articles: sentences of all beats in random order, with numbers and names drawn anew."""
    words = material()
    sentences = [text for beat in words["beat"] for kind in ("facts", "backgrounds", "quotes", "outlooks")
                 for text in beat[kind]] + [text for beat in words["beat"] for topic in beat["topics"]
                                            for text in topic["own"]]  # fmt: skip
    subjects = [topic["subject"] for beat in words["beat"] for topic in beat["topics"]]
    model = write_articles(0)[0]
    while True:
        paragraphs: list[str] = []
        size = 3_000  # what the template brings
        for _ in range(10_000):
            slots = {"subject": random.choice(subjects), "Subject": "It", "body": "the council"}
            slots |= {"person": random.choice(words["names"]), "other": random.choice(words["names"])}
            slots |= {"place": random.choice(words["places"]), "month": random.choice(words["months"])}
            slots |= {"day": random.choice(words["days"]), "few": str(random.randint(3, 12))}
            slots |= {"many": str(random.randint(104, 9_986)), "percent": str(random.randint(6, 48))}
            slots["year"] = str(random.randint(1900, 2026))
            paragraph = " ".join(random.sample(sentences, 3)).format_map(slots)
            paragraphs.append(paragraph)
            size += len(paragraph) + 8
            if size >= page_bytes:
                break
        yield model.with_paragraphs(paragraphs, f"{random.choice(subjects)}, {random.randint(1, 10**9)}")
