"""The schemes `imatch` and `imatch-s`: one SHA-1 of a page's telling terms (Theobald et al. 2008, sec. 5.2).

    tokens without stop-words (imatch) or spots (imatch-s) -> those in the IDF range -> SHA-1 -> equal digests

I-Match (Chowdhury, Frieder, Grossman 2002, the paper's [22]) as Theobald et al. ran it against SpotSigs, and with spots
in place of tokens. A term's IDF is log(N / df) / log(N) over a sample of N pages that is frozen in a model; the range
[.4, .75] is the best of table 1, where I-Match had precision 1.00 and recall .03, I-Match-S .96 and .23.

The paper hashes "a concatenation of tokens"; here, as in [22], each term counts once and in a fixed order, so that
moved or repeated text changes nothing. 120 of the 160 bits decide. Terms that the sample has not are in no range. Pages
with fewer than 5 terms in it are not judged: the paper's bound for spots (sec. 5.4), without which all pages with no
term at all would be one.
"""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.fingerprints.tables import DIGEST_TAG, TEXT_TAG
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Probes
from spotsieve.stream.schemes.by_terms.idf import keep_lexicon_terms, lexicon_of
from spotsieve.stream.schemes.by_terms.terms import terms_of
from spotsieve.stream.schemes.decisive import DecisiveSearch
from spotsieve.stream.schemes.identity import make_signatures, status_of
from spotsieve.stream.schemes.probes import build_probes, digest_keys
from spotsieve.stream.settings.schemes import ImatchSettings, ImatchSSettings
from spotsieve.stream.signature import FINGERPRINTED, Signatures, has_keys


class ImatchScheme(DecisiveSearch):
    """Terms in the IDF range -> SHA-1 -> equal digests; both schemes, told apart by their settings."""

    def __init__(self, settings: ImatchSettings | ImatchSSettings) -> None:
        """Raises SettingError where the model is missing or another, the range is none, or a word is no token."""
        self.name: str = settings.name
        self.min_terms = settings.min_terms
        self.terms = terms_of(settings)
        self.lexicon = lexicon_of(settings, self.terms.about)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body, and the terms of those that have enough of them in the range."""
        hashes, bounds = keep_lexicon_terms(*self.terms.of(pages), self.lexicon)
        distinct = [np.unique(hashes[first:last]) for first, last in pairwise(bounds.tolist())]
        counts = np.array([len(terms) for terms in distinct], np.int64)
        raw = b"".join([hashlib.sha1(terms.astype("<u8").tobytes()).digest()[:16] for terms in distinct])
        digests = np.frombuffer(raw, "<u8").astype(np.uint64).reshape(-1, 2)
        status = status_of(pages, counts >= self.min_terms)
        judged = (status == FINGERPRINTED)[:, None]
        return make_signatures(
            pages, status=status, feature_count=counts, text_digest=np.where(judged, digests, np.uint64(0))
        )

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest, and that of the terms of a page that was judged; none of an empty one."""
        status = signatures.status
        return build_probes(
            digest_keys(DIGEST_TAG, signatures.digest, has_keys(status)),
            digest_keys(TEXT_TAG, signatures.text_digest, status == FINGERPRINTED),
        )

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Only digests decide, and equal ones do."""
        return np.ones(len(distance))
