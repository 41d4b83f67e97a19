"""Owns what schemes with term statistics count on pages: tokens without stop-words, or spots."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream.config_schemes import ImatchSettings, ModelledSettings
from stream.features.spots import DEFAULT_ANTECEDENTS, DEFAULT_STOP_WORDS, SpotModel, SpotSettings, check_words
from stream.page import Page, lay_out
from stream.schemes.idf import Terms
from stream.text.extract import extract_spots
from stream.text.hashing import hash_token
from stream.text.tokens import extract_tokens


class TokenTerms:
    """All tokens that are no stop-words."""

    def __init__(self, stop_words: tuple[str, ...]) -> None:
        """Raises SettingError where a stop-word is no token."""
        check_words("scheme.stop_words", stop_words)
        self.about = json.dumps({"term": "token", "stop_words": sorted(set(stop_words))}, sort_keys=True)
        self._left_out = np.unique(np.array([hash_token(word.encode()) for word in stop_words], np.uint64))

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """As of stream.schemes.idf.Terms."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_)).without(self._left_out)
        return tokens.hashes, tokens.bounds


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
        """As of stream.schemes.idf.Terms."""
        batch = lay_out(pages)
        found = extract_spots(batch.buffer, batch.bounds, batch.markup.view(np.bool_), self._model)
        return found.spots, found.spot_bounds


def terms_of(settings: ModelledSettings) -> Terms:
    """What the scheme counts. Raises SettingError where a word of a list is no token."""
    stop_words = settings.stop_words or DEFAULT_STOP_WORDS
    if isinstance(settings, ImatchSettings):
        return TokenTerms(stop_words)
    antecedents = settings.antecedents or DEFAULT_ANTECEDENTS
    return SpotTerms(SpotSettings(antecedents, stop_words, settings.distance, settings.chain_length))
