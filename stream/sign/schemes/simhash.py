"""The schemes with one 64-bit simhash per page: `chain`, `manku` and `subhash`. Tables find pages within k bits.

A page with too few features has no fingerprint, because fingerprints of a handful of features coincide for different
pages. Such pages, and pages that are not text, are compared by their digest only, of which 120 of 128 bits decide.

`chain`: spots (Theobald et al., SIGIR 2008), simhash 64 and permuted tables (Manku et al., WWW 2007).

`manku`: weighted features, simhash and permuted tables (Manku, Jain, Das Sarma, WWW 2007).

    words and phrases without stop-words, weighted by their number -> simhash 64 -> permuted tables -> distance <= k

Section 2 takes "features computed using standard IR techniques like tokenization, case folding, stop-word removal,
stemming and phrase detection", each with a weight, and does not specify them. Here they are the tokens in lower case
without stop-words, and the phrases of 2..phrase_words consecutive such tokens; the weight of a feature is the number of
its occurrences. Words are not stemmed, because stemming rules hold for one language. Pages with fewer than min_features
features are not judged; the paper has no such bound. Section 3: k = 3 with 4, 10, 16 or 20 tables, chosen by
scheme.tables; each design finds all fingerprints within k.

`subhash`: token simhash and sub-hash tables (Williams, Giles, DocEng 2013, sec. 3.1).

    all tokens, each of equal weight -> simhash 64 -> k + 1 sub-hashes, one table each -> Hamming distance <= k

Two fingerprints that differ in at most k bits agree on at least one of their k + 1 sub-hashes, so every copy is found.
Defaults are the best of figure 1 (k = 3: precision 0.94, recall 0.88) and the 15 tokens of section 4. The paper leaves
two points open. Its "standard information retrieval processing" is here the splitting into tokens in lower case,
without stemming and with stop-words. Its two passes, index all pages and then query all, are one: a page queries the
pages indexed before it. A sub-hash has 64 / (k + 1) bits, so with k = 10 a table has 64 buckets: pages beyond a
bucket's limit (index.bucket_cap) are not found through it, and a higher limit costs longer scans.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.settings.schemes import ChainSettings, MankuSettings, SubhashSettings
from spotsieve.stream.base.signature import FINGERPRINTED, Signatures, has_keys, is_judged
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
    """Signatures of n pages, with the simhash of those whose count is at least `fewest`.

    features: uint64[m], page i has features[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    counts: int64[n], number of features that `fewest` limits, which is stored as the feature count
    """
    fingerprints, present = simhash64(features, bounds)
    status = status_of(pages, present & (counts >= fewest))
    return make_signatures(
        pages,
        fingerprint=np.where(is_judged(status), fingerprints, np.uint64(0)),
        status=status,
        feature_count=counts,
    )


class FingerprintSearch(DecisiveSearch):
    """Base of schemes whose fingerprints decide: pages within k bits are copies, and the tables find all of them."""

    def __init__(self, design: TableDesign) -> None:
        self.design = design

    def probe(self, signatures: Signatures) -> Probes:
        """Table keys for a page with a fingerprint, no keys for an empty page, the digest key for others.

        A partial page has both.
        """
        status = signatures.status
        without = (status != FINGERPRINTED) & has_keys(status)
        return build_probes(
            digest_keys(DIGEST_TAG, signatures.digest, without),
            table_keys(self.design, signatures.fingerprint, is_judged(status))._replace(decisive=True),
        )

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The share of fingerprint bits that agree."""
        return 1.0 - distance / FINGERPRINT_BITS


class ChainScheme(FingerprintSearch):
    """Spots, simhash, permuted tables, Hamming distance <= k (Theobald et al. 2008; Manku et al. 2007)."""

    name = "chain"

    def __init__(self, settings: ChainSettings) -> None:
        """Raises SettingError if no table design has this number of tables for k."""
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
        """Fold the spots of pages with at least min_features of them."""
        batch = lay_out(pages)
        found = extract_spots(batch.buffer, batch.bounds, batch.markup, self.model)
        return fold_signatures(pages, found.spots, found.spot_bounds, sizes_of(found.spot_bounds), self.min_features)


class MankuScheme(FingerprintSearch):
    """Weighted words and phrases, simhash, permuted tables, Hamming distance <= k (Manku et al. 2007)."""

    name = "manku"

    def __init__(self, settings: MankuSettings) -> None:
        """Raises SettingError if no table design has this number of tables for k, or a stop-word is no token."""
        check_words("scheme.stop_words", settings.stop_words)
        super().__init__(design_tables(settings.k, settings.tables, "scheme.k"))
        self.settings = settings
        self.stop_words = _hashes_of(settings.stop_words or DEFAULT_STOP_WORDS)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Fold the words and phrases of pages with at least min_features of them, each once per occurrence."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup).without(self.stop_words)
        features, bounds = shingle_pages(tokens, 1, self.settings.phrase_words)
        return fold_signatures(pages, features, bounds, sizes_of(bounds), self.settings.min_features)


def _hashes_of(words: Sequence[str]) -> NDArray[np.uint64]:
    """Token hashes of words: uint64[s], ascending."""
    return np.unique(np.array([hash_token(word.encode()) for word in words], np.uint64))


class SubhashScheme(FingerprintSearch):
    """Tokens, simhash, k + 1 sub-hash tables, Hamming distance <= k (Williams, Giles 2013, sec. 3.1)."""

    name = "subhash"

    def __init__(self, settings: SubhashSettings) -> None:
        super().__init__(sub_hash_tables(settings.k))
        self.min_tokens = settings.min_tokens

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Fold the tokens of pages with at least min_tokens of them."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup)
        return fold_signatures(pages, *shingle_pages(tokens, 1, 1), tokens.counts, self.min_tokens)
