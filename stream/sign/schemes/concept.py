"""The scheme `concept`: shingles with TF-IDF weights, rotated fingerprints, and LSI (Roul, Mittal, Joshi).

    tokens without stop-words -> 3-shingles -> SHA-1 -> TF-IDF weighted simhash 64 ("textual fingerprint")
                              -> TF-IDF -> LSI vector of a frozen decomposition ("conceptual fingerprint")

Two fingerprints that agree in one of 64 rotations are compared (fig. 1, step 5). Their textual similarity is the number
of equal bits:

    textual > th3                     exact duplicates
    textual > th2                     textual duplicates
    textual > th1 and cosine > th4    conceptual duplicates

Where the paper leaves a choice or needs all pages at once:

- Weight of a shingle. Fig. 1 adds "Tfidf[i][j]", where j is the bit; the text says the weight "of the token under
  consideration". The shingle is hashed, so its TF-IDF is added: a page's sum over its different shingles of frequency
  times IDF, which is the sum of the IDF over all occurrences. Dividing by the page's length changes no sign. A shingle
  that occurs on at most one page of the model's sample has the IDF of one page, log N.
- Neighbours in a sorted list need all pages at once. In the stream, the candidates of a page are the earlier pages that
  agree with it on leading_bits bits of some rotation, 64 keys in all; bench/papers/rotations.py compares the two.
- A textual similarity of exactly th2 is neither case of fig. 1 and falls to its "exact". Here it must be exceeded, as
  the text says.
- The paper keeps the longest page of a set of duplicates. That is policy.keep = "longest", for any scheme.

The paper's th2 = 46 lets 17 of 64 bits differ, as 1.1 in 10,000 pairs of unrelated pages do. Unrelated pages stay apart
because they must also agree in a rotation. docs/measured/papers.md has the cost; a higher th2 or more leading_bits cost
recall.
"""

import enum
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import ConceptSettings
from spotsieve.stream.base.signature import CandidateColumns, Signatures
from spotsieve.stream.sign.fingerprints.lsi import cosines, directory_of, project_pages
from spotsieve.stream.sign.fingerprints.permuted_tables import KEY_BITS
from spotsieve.stream.sign.fingerprints.simhash import BITS, rotation_keys, weighted_simhash64
from spotsieve.stream.sign.schemes import Confirmations, Criterion, Probes, ThresholdTest
from spotsieve.stream.sign.schemes.identity import make_signatures, status_of
from spotsieve.stream.sign.schemes.probes import CandidateSearch, candidate_probes
from spotsieve.stream.sign.schemes.terms import ConceptModel, ConceptTerms, load_model
from spotsieve.stream.sign.text.tokens import PageTokens

_OURS = ConceptSettings()


class Likeness(enum.IntEnum):
    """Kind of a pair: fig. 1 has one graph per kind, and the pair is an edge of one. It is not stored."""

    NONE = 0
    CONCEPTUAL = 1
    TEXTUAL = 2
    EXACT = 3


class ConceptScheme(CandidateSearch):
    """Weighted fingerprint and LSI vector, rotations, Hamming distance and cosine (Roul et al., fig. 1)."""

    name = "concept"

    def __init__(self, settings: ConceptSettings) -> None:
        """Raises SettingError if the thresholds do not ascend, or the model is missing or has another digest."""
        for lower, upper in (("th1", "th2"), ("th2", "th3")):
            most = getattr(settings, upper)
            if getattr(settings, lower) > most:
                raise SettingError(
                    f"scheme.{lower}",
                    f"must be at most {upper}, {most}",
                    getattr(settings, lower),
                    f"the paper's th2 is 46; ours are th1 = {_OURS.th1}, th2 = {_OURS.th2}, th3 = {_OURS.th3}",
                )
        self.settings = settings
        self.terms = ConceptTerms(settings)
        model = load_model(settings.idf_model, settings.idf_digest, self.terms.about, self.name)
        assert isinstance(model, ConceptModel), "load_model checks the terms, which only a concept model has"
        self.weights, self.directory, self.rows = model.shingle_weights(), directory_of(model.terms), model.rows

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Fold the weighted shingles (step 3) and project the tokens (step 4) of pages with enough shingles."""
        tokens = PageTokens(*self.terms.of(pages))
        fingerprints, counts = weighted_simhash64(*self.terms.shingles(tokens), self.weights)
        vectors = project_pages(tokens, self.directory, self.rows)
        status = status_of(pages, counts >= self.settings.min_shingles)
        return make_signatures(pages, status=status, feature_count=counts, sketch=pack_sketch(fingerprints, vectors))

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest, and 64 rotations (step 5). Candidates have more than th1 equal bits."""
        fingerprints, rotation = signatures.sketch[:, 0], np.arange(BITS).astype(np.uint64)
        keys = rotation << np.uint64(KEY_BITS) | rotation_keys(fingerprints, self.settings.leading_bits)
        return candidate_probes(signatures, keys, fingerprints, BITS - 1 - self.settings.th1)

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Accept pairs by equal bits and cosine (step 5).

        The score is 1 for exact duplicates, the share of equal bits for textual and the cosine for conceptual ones.
        """
        textual, conceptual = similarities(pages.sketch, others.sketch)
        likeness = compare(textual, conceptual, self.settings)
        score = np.where(likeness == Likeness.TEXTUAL, textual / BITS, np.maximum(conceptual, 0.0))
        return Confirmations(likeness > Likeness.NONE, np.where(likeness == Likeness.EXACT, 1.0, score))

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Criteria of the three cases of fig. 1, step 5."""
        return criteria(*similarities(pages.sketch, others.sketch), self.settings)


def compare(
    textual: NDArray[np.int64], conceptual: NDArray[np.float64], settings: ConceptSettings
) -> NDArray[np.uint8]:
    """Likeness of c pairs: uint8[c] (fig. 1, step 5). textual: equal bits  conceptual: cosines"""
    likeness = np.full(len(textual), Likeness.NONE, np.uint8)
    kinds = (Likeness.EXACT, Likeness.TEXTUAL, Likeness.CONCEPTUAL)
    for kind, way in reversed([*zip(kinds, criteria(textual, conceptual, settings), strict=True)]):
        likeness[way.reached] = kind
    return likeness


def criteria(
    textual: NDArray[np.int64], conceptual: NDArray[np.float64], settings: ConceptSettings
) -> tuple[Criterion, Criterion, Criterion]:
    """Criteria of exact, textual and conceptual duplicates. textual: equal bits of c pairs  conceptual: cosines"""

    def bits(needed: int) -> ThresholdTest:
        return ThresholdTest(f"bits of {BITS} that agree", textual.astype(np.float64), needed, "bits", beyond=True)

    cosine = ThresholdTest("cosine of the concepts", conceptual, settings.th4, beyond=True)
    return (
        Criterion("exact duplicates (th3)", (bits(settings.th3),)),
        Criterion("textual duplicates (th2)", (bits(settings.th2),)),
        Criterion("conceptual duplicates (th1 and th4)", (bits(settings.th1), cosine)),
    )


def similarities(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Equal bits, int64[c], and cosines of the vectors, float64[c], of c pairs of sketches: uint64[c, w] each."""
    textual = BITS - np.bitwise_count(one[:, 0] ^ other[:, 0]).astype(np.int64)
    return textual, cosines(_vectors(one), _vectors(other))


def pack_sketch(fingerprints: NDArray[np.uint64], vectors: NDArray[np.int8]) -> NDArray[np.uint64]:
    """Sketches of fingerprints, uint64[n], and vectors, int8[n, d]: uint64[n, 1 + d / 8].

    The first word is the fingerprint; the others hold eight coordinates each, the first in the low byte.
    """
    padded = np.zeros((len(vectors), -(-vectors.shape[1] // 8) * 8), np.int8)
    padded[:, : vectors.shape[1]] = vectors
    return np.concatenate([fingerprints[:, None], padded.view("<u8").astype(np.uint64)], axis=1)


def _vectors(sketch: NDArray[np.uint64]) -> NDArray[np.int8]:
    """Vectors of sketches: uint64[n, w] -> int8[n, 8 * (w - 1)], zero padded."""
    return np.ascontiguousarray(sketch[:, 1:]).astype("<u8").view(np.int8)
