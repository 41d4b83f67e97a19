"""The settings of the schemes of Theobald et al. 2008, which use term statistics.

spotsigs and spotsigs-lsh compare the spots of pages by Jaccard; imatch and imatch-s compare one digest of the terms in
an IDF range.
"""

import math
from typing import ClassVar, Literal

from spotsieve.stream.base.settings.schemes.fields import (
    ANTECEDENTS,
    CHAIN_LENGTH,
    MODEL_DIGEST,
    SPOT_DISTANCE,
    SPOT_MODEL,
    SPOT_STOP_WORDS,
    fewest,
    highest_idf,
    lowest_idf,
    model_file,
    scheme_name,
    word_list,
)
from spotsieve.stream.base.settings.section import Section, Threshold, independent, judging_setting, setting

LEAST_SCALED_TAU = 0.5
"""Above this tau, rare spots separate pages: unrelated pages rarely share one."""
COUNTED = 3
"""The number of rarest spots that one in 100,000 unrelated synthetic pages shares (docs/measured/papers.md)."""
ROUNDING = 1e-9
_SWEPT = independent(0.2, 0.3, 0.44, 0.5, 0.6, 0.7, 0.8, 0.9, 1)


class SpotsigsSettings(Section):
    """Spots in an IDF range -> length partitions, inverted index -> exact Jaccard (SpotSigs, Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("tau", _SWEPT)
    name: Literal["spotsigs"] = scheme_name("spotsigs")
    idf_model: str = SPOT_MODEL
    idf_digest: str = MODEL_DIGEST
    idf_min: float = lowest_idf(0.2, "spots")
    idf_max: float = highest_idf(0.85, "spots")
    tau: float = judging_setting(0.44, "pages with at least this Jaccard similarity are copies", ge=0.01, le=1)
    min_spots: int = fewest(5, "spots in the range", unit="spots")
    c: int = judging_setting(
        0,
        "pages that share at least this many of their rarest spots are compared; 0: 1 for tau > 0.5, otherwise 3, or "
        "fewer if short copies can share fewer only",
        ge=0,
        le=64,
    )
    distance: int = SPOT_DISTANCE
    chain_length: int = CHAIN_LENGTH
    antecedents: tuple[str, ...] = ANTECEDENTS
    stop_words: tuple[str, ...] = SPOT_STOP_WORDS

    @property
    def most_shared(self) -> int:
        """The lowest number of spots that two copies with min_spots spots share: the upper bound of c."""
        return max(math.ceil(self.tau / (1 + self.tau) * 2 * self.min_spots - ROUNDING), 1)

    @property
    def least_shared(self) -> int:
        """The number of rarest spots that two pages must share to be compared: c, or its replacement for c = 0."""
        return self.c or (1 if self.tau > LEAST_SCALED_TAU else min(COUNTED, self.most_shared))

    def caution(self) -> str | None:
        """With a low tau a page is indexed under most of its spots, so common spots fill their buckets."""
        if self.tau > LEAST_SCALED_TAU:
            return None
        if self.least_shared < COUNTED:
            return (
                f"scheme.tau is {self.tau:g}, and pages are compared that share {self.least_shared} of their rarest "
                "spots: beyond about 50,000 pages, unrelated pages use up index.candidate_limit, and spotsigs misses "
                "copies; raise scheme.min_spots, which allows scheme.c = 3, or the limit"
            )
        return (
            f"scheme.tau is {self.tau:g}: beyond about 500,000 pages, at the default index.bucket_cap, full buckets "
            "hide copies from spotsigs; for more pages raise scheme.tau above 0.5, or index.bucket_cap (slower)"
        )


class SpotsigsLshSettings(Section):
    """Spots in an IDF range -> bands of minwise hashes -> Jaccard (LSH-S, Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("tau", _SWEPT)
    name: Literal["spotsigs-lsh"] = scheme_name("spotsigs-lsh")
    idf_model: str = SPOT_MODEL
    idf_digest: str = MODEL_DIGEST
    idf_min: float = lowest_idf(0.2, "spots")
    idf_max: float = highest_idf(0.85, "spots")
    tau: float = judging_setting(0.44, "pages with at least this Jaccard similarity are copies", gt=0, le=1)
    k: int = setting(6, "minwise hashes in a band; pages that share a band are compared", verdicts=True, ge=1, le=64)
    l: int = setting(32, "bands", verdicts=True, ge=1, le=255)  # noqa: E741 - the paper's name
    min_spots: int = fewest(5, "spots in the range", unit="spots")
    distance: int = SPOT_DISTANCE
    chain_length: int = CHAIN_LENGTH
    antecedents: tuple[str, ...] = ANTECEDENTS
    stop_words: tuple[str, ...] = SPOT_STOP_WORDS


_SWEPT_IMATCH = independent(0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


class ImatchSettings(Section):
    """Tokens in an IDF range -> one SHA-1 (I-Match, as in Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("idf_min", _SWEPT_IMATCH)
    name: Literal["imatch"] = scheme_name("imatch")
    idf_model: str = model_file("term statistics")
    idf_digest: str = MODEL_DIGEST
    idf_min: float = lowest_idf(0.4, "terms")
    idf_max: float = highest_idf(0.75, "terms")
    min_terms: int = fewest(5, "distinct terms in the range", unit="terms")
    stop_words: tuple[str, ...] = word_list("that are not terms")


class ImatchSSettings(Section):
    """Spots in an IDF range -> one SHA-1 (I-Match-S, Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("idf_min", _SWEPT_IMATCH)
    name: Literal["imatch-s"] = scheme_name("imatch-s")
    idf_model: str = SPOT_MODEL
    idf_digest: str = MODEL_DIGEST
    idf_min: float = lowest_idf(0.4, "spots")
    idf_max: float = highest_idf(0.75, "spots")
    min_terms: int = fewest(5, "distinct spots in the range", unit="spots")
    distance: int = SPOT_DISTANCE
    chain_length: int = CHAIN_LENGTH
    antecedents: tuple[str, ...] = ANTECEDENTS
    stop_words: tuple[str, ...] = SPOT_STOP_WORDS
