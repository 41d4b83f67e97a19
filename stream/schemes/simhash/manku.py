"""The scheme `manku`: weighted features, simhash and permuted tables (Manku, Jain, Das Sarma, WWW 2007).

    words and phrases without stop-words, weighted by their number -> simhash 64 -> permuted tables -> distance <= k

Section 2 takes "features computed using standard IR techniques like tokenization, case folding, stop-word removal,
stemming and phrase detection", each with a weight, and does not say which. Here they are the tokens in lower case that
are no stop-words, and the phrases of 2..phrase_words such tokens in a row; the weight of a feature is how often the
page has it. Words are not stemmed: the rules for that hold for one language. Pages with fewer features than
min_features are not judged; the paper has no such bound.

Section 3: k = 3 with 4, 10, 16 or 20 tables, chosen by scheme.tables, of which each finds all fingerprints within k.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.features.page_shingles import shingle_pages
from spotsieve.stream.features.spots import DEFAULT_STOP_WORDS, check_words
from spotsieve.stream.fingerprints.tables import design_tables
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes.simhash.fingerprinted import FingerprintSearch, fold_signatures
from spotsieve.stream.settings.schemes import MankuSettings
from spotsieve.stream.signature import Signatures
from spotsieve.stream.text.hashing import hash_token
from spotsieve.stream.text.tokens import extract_tokens


class MankuScheme(FingerprintSearch):
    """Weighted words and phrases -> simhash -> permuted tables -> Hamming distance <= k."""

    name = "manku"

    def __init__(self, settings: MankuSettings) -> None:
        """Raises SettingError where no table design has the wished number of tables for k, or a word is no token."""
        check_words("scheme.stop_words", settings.stop_words)
        super().__init__(design_tables(settings.k, settings.tables, "scheme.k"))
        self.settings = settings
        self.stop_words = _hashes_of(settings.stop_words or DEFAULT_STOP_WORDS)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; fold the features of those that have enough. Equal features are folded one by one."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_)).without(self.stop_words)
        features, bounds = shingle_pages(tokens, 1, self.settings.phrase_words)
        return fold_signatures(pages, features, bounds, sizes_of(bounds), self.settings.min_features)


def _hashes_of(words: Sequence[str]) -> NDArray[np.uint64]:
    """uint64[s], ascending."""
    return np.unique(np.array([hash_token(word.encode()) for word in words], np.uint64))
