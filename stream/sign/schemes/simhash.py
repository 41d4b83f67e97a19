"""Holds what the schemes share whose page is one 64-bit fingerprint: tables, and a Hamming distance that decides.

Pages with too few features have no fingerprint: with a handful of features, fingerprints of different pages meet.
These pages, and those that are not text, are compared by their digest alone, of which 120 of 128 bits decide.

The scheme `chain`: spots (Theobald et al. 2008), simhash 64 and permuted tables (Manku et al. 2007).

The scheme `manku`: weighted features, simhash and permuted tables (Manku, Jain, Das Sarma, WWW 2007).

    words and phrases without stop-words, weighted by their number -> simhash 64 -> permuted tables -> distance <= k

Section 2 takes "features computed using standard IR techniques like tokenization, case folding, stop-word removal,
stemming and phrase detection", each with a weight, and does not say which. Here they are the tokens in lower case that
are no stop-words, and the phrases of 2..phrase_words such tokens in a row; the weight of a feature is how often the
page has it. Words are not stemmed: the rules for that hold for one language. Pages with fewer features than
min_features are not judged; the paper has no such bound.

Section 3: k = 3 with 4, 10, 16 or 20 tables, chosen by scheme.tables, of which each finds all fingerprints within k.

The scheme `subhash`: token simhash and sub-hash tables (Williams, Giles, DocEng 2013, sec. 3.1).

    all tokens, each of equal weight -> simhash 64 -> k + 1 sub-hashes, a table each -> Hamming distance <= k

Two fingerprints that differ in at most k bits agree on at least one of their k + 1 sub-hashes, so every copy is met.
Defaults are the best of figure 1 (k = 3: precision .94, recall .88) and the 15 tokens of section 4.

What the paper leaves open: its "standard information retrieval processing" of the text is here the splitting into
tokens in lower case, without stemming and with stop-words. Its two passes, file all and then query all, are one: a page
queries what was filed before it. A sub-hash has 64 / (k + 1) bits, so with k = 10 there are 64 buckets in a table:
what a bucket takes no more (index.bucket_cap) is not found through it, and raising the cap is paid by longer scans.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.settings.schemes import ChainSettings, MankuSettings, SubhashSettings
from spotsieve.stream.base.signature import FINGERPRINTED, Signatures, has_keys
from spotsieve.stream.sign.features.shingles import shingle_pages
from spotsieve.stream.sign.features.spots import (
    DEFAULT_ANTECEDENTS,
    DEFAULT_STOP_WORDS,
    SpotModel,
    SpotSettings,
    check_words,
    extract_spots,
)
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    DIGEST_TAG,
    FINGERPRINT_BITS,
    TableDesign,
    design_tables,
    sub_hash_tables,
)
from spotsieve.stream.sign.fingerprints.simhash import simhash64
from spotsieve.stream.sign.schemes import Probes
from spotsieve.stream.sign.schemes.identity import make_signatures, status_of
from spotsieve.stream.sign.schemes.probes import DecisiveSearch, build_probes, digest_keys, table_keys
from spotsieve.stream.sign.text.hashing import hash_token
from spotsieve.stream.sign.text.tokens import extract_tokens


def fold_signatures(
    pages: Sequence[Page],
    features: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    counts: NDArray[np.int64],
    fewest: int,
) -> Signatures:
    """Sign pages: fold the features of those that have at least `fewest` into a simhash.

    features, bounds: as of spotsieve.stream.sign.fingerprints.simhash.simhash64  counts: int64[n], what `fewest` counts
    """
    fingerprints, present = simhash64(features, bounds)
    status = status_of(pages, present & (counts >= fewest))
    return make_signatures(
        pages,
        fingerprint=np.where(status == FINGERPRINTED, fingerprints, np.uint64(0)),
        status=status,
        feature_count=counts,
    )


class FingerprintSearch(DecisiveSearch):
    """Pages whose fingerprints differ in at most k bits are copies; the tables find all of them. Holds the design."""

    def __init__(self, design: TableDesign) -> None:
        self.design = design

    def probe(self, signatures: Signatures) -> Probes:
        """T tagged keys for a fingerprinted page, the digest key for one without, none for an empty one."""
        status = signatures.status
        judged = status == FINGERPRINTED
        without = ~judged & has_keys(status)
        return build_probes(
            digest_keys(DIGEST_TAG, signatures.digest, without),
            table_keys(self.design, signatures.fingerprint, judged)._replace(decisive=True),
        )

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The share of fingerprint bits that agree."""
        return 1.0 - distance / FINGERPRINT_BITS


class ChainScheme(FingerprintSearch):
    """Spots -> simhash -> permuted tables -> Hamming distance <= k."""

    name = "chain"

    def __init__(self, settings: ChainSettings) -> None:
        """Raises SettingError where no table design has the wished number of tables for k."""
        super().__init__(design_tables(settings.max_distance_bits, settings.tables))
        self.min_features = settings.min_features
        self.model = SpotModel(
            SpotSettings(
                settings.antecedents or DEFAULT_ANTECEDENTS,
                settings.stop_words or DEFAULT_STOP_WORDS,
                settings.distance,
                settings.chain_length,
            )
        )

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; extract the spots of those that can be judged, and fold them where there are enough."""
        batch = lay_out(pages)
        found = extract_spots(batch.buffer, batch.bounds, batch.markup.view(np.bool_), self.model)
        return fold_signatures(pages, found.spots, found.spot_bounds, sizes_of(found.spot_bounds), self.min_features)


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


class SubhashScheme(FingerprintSearch):
    """Tokens -> simhash -> k + 1 sub-hash tables -> Hamming distance <= k."""

    name = "subhash"

    def __init__(self, settings: SubhashSettings) -> None:
        super().__init__(sub_hash_tables(settings.k))
        self.min_tokens = settings.min_tokens

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; fold the tokens of pages that have at least min_tokens."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_))
        return fold_signatures(pages, *shingle_pages(tokens, 1, 1), tokens.counts, self.min_tokens)
