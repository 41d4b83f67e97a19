"""Finds what the schemes with term statistics count on pages: tokens without stop-words, their shingles, or spots."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.features.extract import extract_spots
from spotsieve.stream.features.spots import (
    DEFAULT_ANTECEDENTS,
    DEFAULT_STOP_WORDS,
    SpotModel,
    SpotSettings,
    check_words,
)
from spotsieve.stream.fingerprints.sha1 import sha1_shingles
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes.by_terms.idf import Terms
from spotsieve.stream.settings.schemes import ConceptSettings, ImatchSettings, ModelledSettings
from spotsieve.stream.text.hashing import hash_token
from spotsieve.stream.text.tokens import PageTokens, extract_tokens


class TokenTerms:
    """All tokens that are no stop-words."""

    def __init__(self, stop_words: tuple[str, ...]) -> None:
        """Raises SettingError where a stop-word is no token."""
        check_words("scheme.stop_words", stop_words)
        self.about = json.dumps({"term": "token", "stop_words": sorted(set(stop_words))}, sort_keys=True)
        self._left_out = np.unique(np.array([hash_token(word.encode()) for word in stop_words], np.uint64))

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """As of spotsieve.stream.schemes.by_terms.idf.Terms."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_)).without(self._left_out)
        return tokens.hashes, tokens.bounds


class ConceptTerms:
    """What `concept` counts on pages: tokens that are no stop-words, and shingles of them."""

    def __init__(self, settings: ConceptSettings) -> None:
        """Raises SettingError where a stop-word is no token."""
        self.stop_words = settings.stop_words or DEFAULT_STOP_WORDS
        self.shingle_size, self.dimensions = settings.shingle_size, settings.dimensions
        self._tokens = TokenTerms(self.stop_words)
        described = {
            "term": "concept",
            "stop_words": sorted(set(self.stop_words)),
            "shingle_size": self.shingle_size,
            "dimensions": self.dimensions,
        }
        self.about = json.dumps(described, sort_keys=True)

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """As of spotsieve.stream.schemes.by_terms.idf.Terms: the tokens."""
        return self._tokens.of(pages)

    def shingles(self, tokens: PageTokens) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Hashes: uint64[m], bounds: int64[n + 1], repeats kept."""
        return sha1_shingles(tokens, self.shingle_size)


class SpotTerms:
    """All spots."""

    def __init__(self, settings: SpotSettings) -> None:
        self._model = SpotModel(settings)
        described = {
            "term": "spot",
            "antecedents": sorted(set(settings.antecedents)),
            "stop_words": sorted(set(settings.stop_words)),
            "distance": settings.distance,
            "chain_length": settings.chain_length,
        }
        self.about = json.dumps(described, sort_keys=True)

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """As of spotsieve.stream.schemes.by_terms.idf.Terms."""
        batch = lay_out(pages)
        found = extract_spots(batch.buffer, batch.bounds, batch.markup.view(np.bool_), self._model)
        return found.spots, found.spot_bounds


def order_repeats(
    terms: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The terms of pages, ascending within each, and how many equal ones of the page are before each: both uint64[m].

    bounds: int64[n + 1], page i's are terms[bounds[i]:bounds[i + 1]]
    """
    page = np.repeat(np.arange(len(bounds) - 1), sizes_of(bounds))
    ordered = terms[np.lexsort((terms, page))]
    new = np.ones(len(ordered), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]) | (page[1:] != page[:-1])
    place = np.arange(len(ordered))
    return ordered, (place - np.maximum.accumulate(np.where(new, place, 0))).astype(np.uint64)


def terms_of(settings: ModelledSettings) -> Terms:
    """What the scheme counts. Raises SettingError where a word of a list is no token."""
    stop_words = settings.stop_words or DEFAULT_STOP_WORDS
    if isinstance(settings, ImatchSettings):
        return TokenTerms(stop_words)
    antecedents = settings.antecedents or DEFAULT_ANTECEDENTS
    return SpotTerms(SpotSettings(antecedents, stop_words, settings.distance, settings.chain_length))
