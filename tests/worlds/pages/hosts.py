"""Synthetic signatures of a few hosts for the default scheme: block fingerprints, titles and sketches of any kind.

A host has template fingerprints, which most of its pages have, and pages that copy an earlier page with changes of any
size.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xxhash

from spotsieve.stream.base.signature import Signatures, SignatureStatus
from tests.worlds.pages.ranks import made_ranks

FINGERPRINTED = int(SignatureStatus.FINGERPRINTED)
MOST_HOSTS = 3
WORDS = 2
"""Bits of a sketch: few, so that the Jaccard takes few values and each of them often."""
BITS = 64 * WORDS
KEPT, NUMBER = 1 << 4, 1 << 5
MINIMA = range(1, 1000)
LENGTHS = (8, 20, 30, 59, 60, 80, 149, 150, 299, 300, 1000)


class Made(NamedTuple):
    """A synthetic page. prints: as stored, with distinct identities  body: equal for equal bytes"""

    body: int
    host: int
    site: int
    length: int
    sketch: tuple[int, ...]
    minima: tuple[int, ...]
    prints: tuple[int, ...]
    titles: tuple[int, ...]
    status: int = FINGERPRINTED
    time_ms: int = 0


Submitted = tuple[Made, int]
"""A page and its id."""


class Temper(NamedTuple):
    """Parameters of generated pages.

    hosts: their number, 0 among them  stories: texts of pages  vocabulary: block fingerprints that pages choose from
    template: block fingerprints that most pages of a host have  longest: title, in words  classes: of fingerprints
    """

    hosts: int
    stories: int
    vocabulary: int
    template: int
    longest: int
    classes: tuple[int, ...]
    lengths: tuple[int, ...]
    change: float
    unjudged: float


def any_temper(dice: random.Random) -> Temper:
    """Parameters of one kind or another."""
    return Temper(
        hosts=dice.choice([1, 1, 2, MOST_HOSTS]),
        stories=dice.choice([1, 3, 10]),
        vocabulary=dice.choice([6, 20, 100]),
        template=dice.choice([0, 2, 6, 12]),
        longest=dice.choice([0, 1, 3, 10]),
        classes=dice.choice([tuple(range(16)), (0, 1, 2, 3), (5, 9, 12)]),
        lengths=dice.choice([LENGTHS, LENGTHS[:5], LENGTHS[5:]]),
        change=dice.choice([0.02, 0.1, 0.3, 0.5, 0.7]),
        unjudged=dice.choice([0.0, 0.0, 0.1]),
    )


def made_pages(dice: random.Random, count: int, temper: Temper) -> list[Made]:
    """`count` pages in the order of their making; about two in three derive from an earlier one."""
    vocabularies = [[any_print(dice, temper) for _ in range(temper.vocabulary)] for _ in range(temper.hosts)]
    templates = [[any_print(dice, temper) for _ in range(temper.template)] for _ in range(temper.hosts)]
    pages: list[Made] = []
    for _ in range(count):
        if pages and dice.random() < 0.66:
            pages.append(changed(dice, dice.choice(pages[-12:]), temper, vocabularies))
            continue
        host = dice.randrange(temper.hosts)
        chosen = dice.sample(vocabularies[host], dice.randrange(min(temper.vocabulary, 30)))
        chosen += [one for one in templates[host] if dice.random() < 0.9]
        story = random.Random(dice.randrange(temper.stories))
        pages.append(
            Made(
                body=dice.getrandbits(64),
                host=host,
                site=0 if host == 0 else dice.choice([7, 7, host]),
                length=dice.choice(temper.lengths),
                sketch=tuple(story.getrandbits(64) for _ in range(WORDS)),
                minima=tuple(sorted(story.sample(MINIMA, 8))),
                prints=different(chosen),
                titles=any_title(dice, temper),
                time_ms=len(pages) * 1000,
            )
        )
    return [page._replace(time_ms=1000 * place) for place, page in enumerate(pages)]


def changed(dice: random.Random, page: Made, temper: Temper, vocabularies: Sequence[Sequence[int]]) -> Made:
    """A page derived from another: the same bytes, or a small or large change in everything."""
    if dice.random() < 0.08:
        return page
    share, moved = (temper.change * dice.choice([0, 0.3, 1]) for _ in range(2))
    host = dice.randrange(temper.hosts) if dice.random() < 0.2 else page.host
    prints = [one for one in page.prints if dice.random() >= share]
    if dice.random() < 0.3:
        # A part of the page, or the page and more
        prints = list(page.prints[:: dice.choice([1, 2])])
    prints += dice.sample(vocabularies[host], dice.randrange(1 + round(share * min(temper.vocabulary, 20))))
    # The same block in another place: main text here, boilerplate there
    prints = [one ^ KEPT if dice.random() < share / 5 else one for one in prints]
    sketch = list(page.sketch)
    for bit in dice.sample(range(BITS), dice.randrange(1 + round(moved * BITS * 0.7))):
        sketch[bit // 64] ^= 1 << bit % 64
    return Made(
        body=dice.getrandbits(64),
        host=host,
        site=page.site if host else 0,
        length=max(1, round(page.length * dice.choice([1, 1, 1, 0.9, 1.1, 1.6, 3]))),
        sketch=tuple(sketch),
        minima=tuple(sorted({minimum if dice.random() >= moved else dice.choice(MINIMA) for minimum in page.minima})),
        prints=different(prints),
        titles=page.titles if dice.random() < 0.5 else nearby_title(dice, page.titles, temper),
        status=dice.choice([1, 2, 3]) if dice.random() < temper.unjudged else FINGERPRINTED,
    )


def any_print(dice: random.Random, temper: Temper) -> int:
    """Any fingerprint of any kind; many are main text of some weight."""
    kind = dice.choice([KEPT, KEPT, KEPT, 0, NUMBER, NUMBER | KEPT])
    return dice.getrandbits(26) << 6 | kind | dice.choice(temper.classes)


def different(prints: Sequence[int]) -> tuple[int, ...]:
    """Ascending, the first of each identity, and at most the number that a page stores."""
    return tuple(sorted({one >> 5: one for one in reversed(prints)}.values()))[:44]


def any_title(dice: random.Random, temper: Temper) -> tuple[int, ...]:
    """Up to `most` words from a small vocabulary."""
    return tuple(sorted(dice.sample(range(1, 30), dice.randrange(temper.longest + 1))))


def nearby_title(dice: random.Random, title: Sequence[int], temper: Temper) -> tuple[int, ...]:
    """The same words with a few changes."""
    words = {word for word in title if dice.random() < 0.8} | set(any_title(dice, temper)[:2])
    return tuple(sorted(words))[:10]


def with_ids(pages: Sequence[Made]) -> list[Submitted]:
    """Give every page a unique id."""
    return [(page, page_id) for page_id, page in enumerate(pages)]


def signatures_of(pages: Sequence[Submitted]) -> Signatures:
    """Pages of two sources; the id is spread over source, partition and offset."""
    made, ids = [page for page, _ in pages], [page_id for _, page_id in pages]
    # A page that is not judged has nothing to compare it by.
    whole = [page if page.status == FINGERPRINTED else page._replace(minima=(), prints=(), titles=()) for page in made]
    count = len(pages)
    return Signatures(
        ("one", "two"),
        np.array([i % 2 for i in ids], np.uint16),
        np.array([i % 3 for i in ids], np.int32),
        np.array(ids, np.int64),
        np.array([page.time_ms for page in made], np.int64),
        np.array([words_of((page.body, page.status)) for page in made], np.uint64).reshape(-1, 2),
        np.zeros(count, np.uint64),
        np.array([page.status for page in made], np.uint8),
        np.array([page.length for page in made], np.uint32),
        tuple(b"http://host-%d/%d" % (page.host, i % 4) if i % 7 else b"" for page, i in pages),
        (b"",) * count,
        np.zeros((count, 2), np.uint64),
        np.array([host_hash(page.host) for page in made], np.uint64),
        np.zeros(count, np.uint8),
        np.array([minimum for page in whole for minimum in page.minima], np.uint64),
        bounds_of([len(page.minima) for page in whole]),
        np.array([page.sketch for page in made], np.uint64).reshape(-1, WORDS),
        np.array([page.site for page in made], np.uint16),
        np.array([one for page in whole for one in page.prints], np.uint32),
        bounds_of([len(page.prints) for page in whole]),
        np.array([word for page in whole for word in page.titles], np.uint16),
        bounds_of([len(page.titles) for page in whole]),
        made_ranks(ids),
    )


def host_hash(host: int) -> int:
    """The hash of a host; 0 for none."""
    return xxhash.xxh3_64_intdigest(b"host-%d" % host) if host else 0


def words_of(content: object) -> tuple[int, int]:
    """A digest of content: low word, high word."""
    digest = xxhash.xxh3_128_intdigest(repr(content).encode())
    return digest % 2**64, digest >> 64


def bounds_of(sizes: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bounds of rows of these sizes: int64[n + 1]."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds
