"""Owns why a page was dropped: fingerprints, spots and words of it and its original, by the functions of the filter."""

import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

from stream.config import Settings
from stream.demo.crawl import RECRAWL, Sent
from stream.demo.edits import Edit
from stream.demo.outcome import difference
from stream.features.spots import SpotSettings
from stream.intake import Decoder, Message
from stream.page import Page
from stream.schemes.registry import scheme_of
from stream.text.extract import tokens_of

EXAMPLES = 3
SHOWN_SPOTS = 3
SOURCE_BEFORE = 36
SOURCE_LENGTH = 85


@dataclass(frozen=True, slots=True)
class Explanation:
    """One dropped page beside its original.

    fingerprints: of the page, of the original  spots: of the page, of the original, of both (repeats counted)
    run: the longest run of words that both have in a row  words: all of the page, of the original
    sources: the page's own bytes where that run begins, and the original's
    """

    report: dict[str, Any]
    difference: str
    fingerprints: tuple[int, int]
    spots: tuple[int, int, int]
    shared_spots: tuple[str, ...]
    run: tuple[str, ...]
    words: tuple[int, int]
    sources: tuple[str, str]

    @property
    def distance_bits(self) -> int:
        """Bits in which the two fingerprints differ."""
        return (self.fingerprints[0] ^ self.fingerprints[1]).bit_count()


def choose_examples(crawl: list[Sent], reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Up to EXAMPLES reports that differ in kind: the most edited copies, and of each kind the farthest off."""
    truth = {sent.url: sent for sent in crawl}
    kinds = [RECRAWL, *(edit.value for edit in Edit)]

    def kind(report: dict[str, Any]) -> int:
        return kinds.index(difference(truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]))

    by_kind: dict[int, dict[str, Any]] = {}
    for report in sorted(reports, key=lambda report: (-report["score"], report["page"]["url"])):
        by_kind[kind(report)] = report
    return [by_kind[number] for number in sorted(by_kind)[-EXAMPLES:]]


def explain(crawl: list[Sent], report: dict[str, Any], settings: Settings) -> Explanation:
    """Sign both pages again, and show what they share."""
    truth = {sent.url: sent for sent in crawl}
    sent, first = truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]
    decoder = Decoder(settings.input)
    page, original = _decode(decoder, sent), _decode(decoder, first)
    signatures = scheme_of(settings.scheme, settings.spots).sign([page, original])
    spot_settings = spots_of_settings(settings)
    blocks, original_blocks = tokens_of(page.body, page.markup), tokens_of(original.body, original.markup)
    spots = Counter(spots_in_words(blocks, spot_settings))
    original_spots = Counter(spots_in_words(original_blocks, spot_settings))
    words, original_words = [*chain(*blocks)], [*chain(*original_blocks)]
    match = SequenceMatcher(None, words, original_words, autojunk=False).find_longest_match()
    run = tuple(words[match.a : match.a + match.size])
    return Explanation(
        report,
        difference(sent, first),
        (int(signatures.fingerprint[0]), int(signatures.fingerprint[1])),
        (spots.total(), original_spots.total(), (spots & original_spots).total()),
        tuple(" ".join(spot) for spot in list(spots & original_spots)[:SHOWN_SPOTS]),
        run,
        (len(words), len(original_words)),
        (_source(page.body, run), _source(original.body, run)),
    )


def spots_in_words(blocks: list[list[str]], settings: SpotSettings) -> list[tuple[str, ...]]:
    """The spots of a page as words, antecedent first: what the kernel hashes (stream/features/spots.py)."""
    antecedents, stop_words = frozenset(settings.antecedents), frozenset(settings.stop_words)
    spots = []
    for block in blocks:
        for start in (place for place, word in enumerate(block) if word in antecedents):
            spot = [block[start]]
            place = start + settings.distance
            while len(spot) <= settings.chain_length and place < len(block):
                if block[place] in stop_words:
                    place += 1
                else:
                    spot.append(block[place])
                    place += settings.distance
            if len(spot) > 1:
                spots.append(tuple(spot))
    return spots


def spots_of_settings(settings: Settings) -> SpotSettings:
    """The words and distances that the scheme uses."""
    section, default = settings.spots, SpotSettings()
    return SpotSettings(
        section.antecedents or default.antecedents, section.stop_words or default.stop_words,
        section.distance, section.chain_length,
    )  # fmt: skip


def _decode(decoder: Decoder, sent: Sent) -> Page:
    return decoder.decode(Message(sent.key, sent.value, (), "demo", 0, 0, 0))


def _source(body: bytes, run: tuple[str, ...]) -> str:
    """The page's bytes around the place where the run begins, on one line."""
    text = body.decode("utf-8", "replace")
    between = r"(?:<[^>]*>|&\w+;|[^\w<&])+"
    found = re.search(between.join(re.escape(word) for word in run[:4]), text, re.IGNORECASE)
    start = max(0, (found.start() if found else 0) - SOURCE_BEFORE)
    return " ".join(text[start : start + 2 * SOURCE_LENGTH].split())[:SOURCE_LENGTH]
