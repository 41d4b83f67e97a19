"""Explains why a page was dropped: it compares kept text, shingles and sketches by the filter's own functions."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

import numpy as np

from spotsieve.stream.demo.crawl import RECRAWL, Sent
from spotsieve.stream.demo.edits import Edit
from spotsieve.stream.demo.outcome import difference
from spotsieve.stream.features.sieve import ReadBlock, blocks_of
from spotsieve.stream.intake import Decoder, Message
from spotsieve.stream.page import Page
from spotsieve.stream.schemes.registry import scheme_of
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.schemes import SpotsieveSettings

EXAMPLES = 3
SHOWN_BLOCKS = 3
SHOWN_SHINGLES = 3
SOURCE_WORDS = 4
SOURCE_BEFORE = 36
SOURCE_LENGTH = 85


@dataclass(frozen=True, slots=True)
class Explanation:
    """One dropped page beside its original; pairs are (of the page, of the original).

    words, kept_words: all tokens, and those of kept blocks  left_out: the longest blocks of the page that are left out
    shingles: of the page, of the original, of both, with repeats  same_host: whether the bars for one host apply
    differing_bits: of the two sketches  shared_minima: smallest hashes of both pages
    run: the longest run of kept words in both pages  sources: the bytes where that run begins
    """

    report: dict[str, Any]
    difference: str
    words: tuple[int, int]
    kept_words: tuple[int, int]
    left_out: tuple[str, ...]
    shingles: tuple[int, int, int]
    shared_shingles: tuple[str, ...]
    same_host: bool
    differing_bits: int
    shared_minima: int
    run: tuple[str, ...]
    sources: tuple[str, str]

    @property
    def jaccard(self) -> float:
        """The exact Jaccard of the two multisets of shingles, which the verdict's score estimates."""
        own, other, shared = self.shingles
        return shared / max(own + other - shared, 1)


def choose_examples(crawl: list[Sent], reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Up to EXAMPLES reports of different kinds: the most edited kinds, and of each kind the least similar copy."""
    truth = {sent.url: sent for sent in crawl}
    kinds = [RECRAWL, *(edit.value for edit in Edit)]

    def kind(report: dict[str, Any]) -> int:
        return kinds.index(difference(truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]))

    by_kind: dict[int, dict[str, Any]] = {}
    for report in sorted(reports, key=lambda report: (-report["score"], report["page"]["url"])):
        by_kind[kind(report)] = report
    return [by_kind[number] for number in sorted(by_kind)[-EXAMPLES:]]


def explain(crawl: list[Sent], report: dict[str, Any], settings: Settings) -> Explanation:
    """Sign both pages again, and find out what they share."""
    truth = {sent.url: sent for sent in crawl}
    sent, first = truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]
    decoder = Decoder(settings.input)
    page, original = _decode(decoder, sent), _decode(decoder, first)
    scheme = default_scheme(settings)
    signatures = scheme_of(scheme).sign([page, original])
    blocks, original_blocks = blocks_of(page.body, page.markup), blocks_of(original.body, original.markup)
    kept, original_kept = _kept(blocks), _kept(original_blocks)
    shingles = Counter(shingles_in_words(kept, scheme.shingle_words))
    original_shingles = Counter(shingles_in_words(original_kept, scheme.shingle_words))
    shared = shingles & original_shingles
    match = SequenceMatcher(None, kept, original_kept, autojunk=False).find_longest_match()
    run = tuple(kept[match.a : match.a + match.size])
    own_minima, other_minima = np.split(signatures.features, signatures.features_bounds[1:-1])
    return Explanation(
        report,
        difference(sent, first),
        (sum(len(block.tokens) for block in blocks), sum(len(block.tokens) for block in original_blocks)),
        (len(kept), len(original_kept)),
        _longest_left_out(blocks),
        (shingles.total(), original_shingles.total(), shared.total()),
        tuple(" ".join(shingle) for shingle in list(shared)[:SHOWN_SHINGLES]),
        bool(signatures.host[0] == signatures.host[1]),
        int(np.bitwise_count(signatures.sketch[0] ^ signatures.sketch[1]).sum()),
        len(np.intersect1d(own_minima, other_minima)),
        run,
        _sources(page.body, original.body, run),
    )


def default_scheme(settings: Settings) -> SpotsieveSettings:
    """The settings of the scheme that the demo runs and explains."""
    if not isinstance(settings.scheme, SpotsieveSettings):
        raise TypeError(f"the demo explains the default scheme, not {settings.scheme.name}")
    return settings.scheme


def shingles_in_words(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    """The shingles of kept text as words: what the kernel hashes (stream/features/shingles.py)."""
    length = min(length, len(words))
    return [tuple(words[place : place + length]) for place in range(len(words) - length + 1)] if words else []


def _kept(blocks: Sequence[ReadBlock]) -> list[str]:
    return [*chain.from_iterable(block.tokens for block in blocks if block.kept)]


def _longest_left_out(blocks: Sequence[ReadBlock]) -> tuple[str, ...]:
    """The words of the longest blocks that are left out, the longest first."""
    left_out = sorted((block.tokens for block in blocks if not block.kept), key=len, reverse=True)
    return tuple(" ".join(tokens) for tokens in left_out[:SHOWN_BLOCKS])


def _decode(decoder: Decoder, sent: Sent) -> Page:
    return decoder.decode(Message(sent.key, sent.value, (), "demo", 0, 0, 0))


def _sources(page: bytes, original: bytes, run: tuple[str, ...]) -> tuple[str, str]:
    """The bytes of both pages around the first words of the run that stand together in both, on one line each.

    The very first words may not stand together: kept words are in a row even if a block between them is left out.
    """
    texts = page.decode("utf-8", "replace"), original.decode("utf-8", "replace")
    between = r"(?:<[^>]*>|&\w+;|[^\w<&])+"
    starts = [0, 0]
    for place in range(len(run)):
        words = between.join(re.escape(word) for word in run[place : place + SOURCE_WORDS])
        found = [re.search(rf"\b{words}\b", text, re.IGNORECASE) for text in texts]
        if all(found):
            starts = [match.start() for match in found if match]
            break
    return _line(texts[0], starts[0]), _line(texts[1], starts[1])


def _line(text: str, place: int) -> str:
    start = max(0, place - SOURCE_BEFORE)
    return " ".join(text[start : start + 2 * SOURCE_LENGTH].split())[:SOURCE_LENGTH]
