"""The pages of the demo, in orders in which its partitions may arrive."""

import random
import zlib

import orjson
import pytest

from spotsieve import CrawledPage, Deduplicator
from spotsieve.stream.demo.crawl import CrawlMessage, build_crawl
from spotsieve.stream.demo.session import PARTITIONS


def in_some_order(seed: int) -> list[CrawlMessage]:
    """The pages of the crawl: each partition in order, and their runs interleaved at random."""
    chance = random.Random(seed)
    partitions: list[list[CrawlMessage]] = [[] for _ in range(PARTITIONS)]
    for sent in build_crawl():
        if sent.article is not None:
            partitions[zlib.crc32(sent.key) % PARTITIONS].append(sent)
    order = list[CrawlMessage]()
    while left := [partition for partition in partitions if partition]:
        chosen, count = chance.choice(left), chance.choice([1, 5, 20, 60])
        order += chosen[:count]
        del chosen[:count]
    return order


@pytest.mark.parametrize("seed", [4, 19, 21, 44, 53, 54, 56])
def test_no_article_is_lost_in_any_order_of_the_partitions(seed: int) -> None:
    # Articles that many sites republish under other headlines become common text. The rest of a page, such as a
    # line below the text, was then compared alone, and five words decided about 254.
    order = in_some_order(seed)
    pages = [
        CrawledPage(id=str(number), url=sent.url, body=orjson.loads(sent.value or b"")["body"])
        for number, sent in enumerate(order)
    ]
    with Deduplicator() as seen:
        verdicts = list(seen.add_many(pages))
    pairs = [(sent, order[int(one.original.id)]) for sent, one in zip(order, verdicts, strict=True) if one.original]
    assert len(pairs) > 120
    assert [(page.url, original.url) for page, original in pairs if page.article != original.article] == []
