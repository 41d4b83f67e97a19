"""The settings of the schemes that compare the spots of pages by Jaccard: spotsigs and spotsigs-lsh."""

from typing import ClassVar, Literal

from spotsieve.stream.settings.schemes.fields import (
    ANTECEDENTS,
    CHAIN_LENGTH,
    MODEL_DIGEST,
    SPOT_DISTANCE,
    SPOT_MODEL,
    SPOT_STOP_WORDS,
    fewest,
    highest_idf,
    lowest_idf,
    scheme_name,
)
from spotsieve.stream.settings.section import Section, Threshold, alone, setting

LEAST_SCALED_TAU = 0.5
_SWEPT = alone(0.2, 0.3, 0.44, 0.5, 0.6, 0.7, 0.8, 0.9, 1)


class SpotsigsSettings(Section):
    """Spots in an IDF range -> length partitions, inverted index -> exact Jaccard (SpotSigs, Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("tau", _SWEPT, signs=False)
    name: Literal["spotsigs"] = scheme_name("spotsigs")
    idf_model: str = SPOT_MODEL
    idf_digest: str = MODEL_DIGEST
    idf_min: float = lowest_idf(0.2, "spots")
    idf_max: float = highest_idf(0.85, "spots")
    tau: float = setting(
        0.44, "pages of at least this Jaccard similarity are copies", verdicts=True, signs=False, ge=0.01, le=1
    )
    min_spots: int = fewest(5, "spots in the range", unit="spots")
    distance: int = SPOT_DISTANCE
    chain_length: int = CHAIN_LENGTH
    antecedents: tuple[str, ...] = ANTECEDENTS
    stop_words: tuple[str, ...] = SPOT_STOP_WORDS

    def caution(self) -> str | None:
        """A low tau has a page filed under most of its spots, and common ones fill their buckets."""
        if self.tau > LEAST_SCALED_TAU:
            return None
        return (
            f"scheme.tau is {self.tau:g}: beyond some 100,000 pages spotsigs meets full buckets and candidate limits, "
            "and misses copies (spotsieve_capped_filings_total counts postings left out); raise index.bucket_cap and "
            "index.candidate_limit for more pages"
        )


class SpotsigsLshSettings(Section):
    """Spots in an IDF range -> bands of minwise hashes -> Jaccard (LSH-S, Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("tau", _SWEPT, signs=False)
    name: Literal["spotsigs-lsh"] = scheme_name("spotsigs-lsh")
    idf_model: str = SPOT_MODEL
    idf_digest: str = MODEL_DIGEST
    idf_min: float = lowest_idf(0.2, "spots")
    idf_max: float = highest_idf(0.85, "spots")
    tau: float = setting(
        0.44, "pages of at least this Jaccard similarity are copies", verdicts=True, signs=False, gt=0, le=1
    )
    k: int = setting(6, "minwise hashes of a band: pages that share a band are compared", verdicts=True, ge=1, le=64)
    l: int = setting(32, "bands", verdicts=True, ge=1, le=255)  # noqa: E741 - the paper's name
    min_spots: int = fewest(5, "spots in the range", unit="spots")
    distance: int = SPOT_DISTANCE
    chain_length: int = CHAIN_LENGTH
    antecedents: tuple[str, ...] = ANTECEDENTS
    stop_words: tuple[str, ...] = SPOT_STOP_WORDS
