"""The settings of the schemes that make one digest of the terms in an IDF range: imatch and imatch-s."""

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
    model_file,
    scheme_name,
    word_list,
)
from spotsieve.stream.settings.section import Section, Threshold, alone

_SWEPT = alone(0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


class ImatchSettings(Section):
    """Tokens in an IDF range -> one SHA-1 (I-Match, as Theobald et al. 2008 ran it)."""

    threshold: ClassVar = Threshold("idf_min", _SWEPT)
    name: Literal["imatch"] = scheme_name("imatch")
    idf_model: str = model_file("term statistics")
    idf_digest: str = MODEL_DIGEST
    idf_min: float = lowest_idf(0.4, "terms")
    idf_max: float = highest_idf(0.75, "terms")
    min_terms: int = fewest(5, "different terms in the range", unit="terms")
    stop_words: tuple[str, ...] = word_list("that are no terms")


class ImatchSSettings(Section):
    """Spots in an IDF range -> one SHA-1 (I-Match-S, Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("idf_min", _SWEPT)
    name: Literal["imatch-s"] = scheme_name("imatch-s")
    idf_model: str = SPOT_MODEL
    idf_digest: str = MODEL_DIGEST
    idf_min: float = lowest_idf(0.4, "spots")
    idf_max: float = highest_idf(0.75, "spots")
    min_terms: int = fewest(5, "different spots in the range", unit="spots")
    distance: int = SPOT_DISTANCE
    chain_length: int = CHAIN_LENGTH
    antecedents: tuple[str, ...] = ANTECEDENTS
    stop_words: tuple[str, ...] = SPOT_STOP_WORDS
