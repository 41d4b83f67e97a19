"""The settings of the schemes that compare simhash fingerprints: chain, subhash, manku and concept."""

from typing import ClassVar, Literal

from spotsieve.stream.base.settings.schemes.fields import (
    ANTECEDENTS,
    CHAIN_LENGTH,
    MODEL_DIGEST,
    SPOT_DISTANCE,
    SPOT_STOP_WORDS,
    fewest,
    model_file,
    permuted_tables,
    scheme_name,
    shingle_length,
    word_list,
)
from spotsieve.stream.base.settings.section import Section, Threshold, independent, judging_setting, setting


class ChainSettings(Section):
    """Spots (Theobald et al. 2008) -> simhash 64 -> permuted tables (Manku et al. 2007)."""

    threshold: ClassVar = Threshold(
        "max_distance_bits", {k: {"tables": tables} for k, tables in enumerate((1, 10, 10, 10, 15, 21, 28, 36))}
    )
    name: Literal["chain"] = scheme_name("chain")
    max_distance_bits: int = judging_setting(
        3, "k: pages whose fingerprints differ in at most this many bits are copies", unit="bits", ge=0, le=7
    )
    tables: int = permuted_tables(10)
    min_features: int = fewest(8, "spots", unit="spots")
    distance: int = SPOT_DISTANCE
    chain_length: int = CHAIN_LENGTH
    antecedents: tuple[str, ...] = ANTECEDENTS
    stop_words: tuple[str, ...] = SPOT_STOP_WORDS


class SubhashSettings(Section):
    """Token simhash 64 -> k + 1 sub-hash tables (Williams, Giles 2013)."""

    threshold: ClassVar = Threshold("k", independent(*range(11)))
    name: Literal["subhash"] = scheme_name("subhash")
    k: int = judging_setting(
        3, "pages whose fingerprints differ in at most this many bits are copies", unit="bits", ge=0, le=10
    )
    min_tokens: int = fewest(15, "tokens", unit="tokens")


class MankuSettings(Section):
    """Weighted words and phrases -> simhash 64 -> permuted tables (Manku et al. 2007)."""

    threshold: ClassVar = Threshold(
        "k", {k: {"tables": tables} for k, tables in enumerate((1, 20, 21, 20, 25, 21, 28, 36))}
    )
    name: Literal["manku"] = scheme_name("manku")
    k: int = judging_setting(
        3, "pages whose fingerprints differ in at most this many bits are copies", unit="bits", ge=0, le=7
    )
    tables: int = permuted_tables(20)
    phrase_words: int = setting(
        2,
        "longest phrase that is a feature, next to single words; 1: words only",
        unit="words",
        verdicts=True,
        ge=1,
        le=16,
    )
    min_features: int = fewest(8, "words and phrases", unit="features")
    stop_words: tuple[str, ...] = word_list("that are not features")


class ConceptSettings(Section):
    """TF-IDF weighted shingles -> simhash 64, rotated -> LSI vectors (Roul, Mittal, Joshi)."""

    threshold: ClassVar = Threshold("th2", independent(*range(40, 63, 2)))
    name: Literal["concept"] = scheme_name("concept")
    idf_model: str = model_file("shingle weights and concepts")
    idf_digest: str = MODEL_DIGEST
    shingle_size: int = shingle_length(3)
    dimensions: int = setting(
        200, "concepts of an LSI vector; each takes a byte in a page's entry", verdicts=True, ge=1, le=1024
    )
    th1: int = judging_setting(
        40, "pages that agree in more bits than this can be conceptual duplicates", unit="bits", ge=0, le=63
    )
    th2: int = judging_setting(
        46, "pages that agree in more bits than this are textual duplicates", unit="bits", ge=0, le=63
    )
    th3: int = judging_setting(
        63, "pages that agree in more bits than this are exact duplicates (score 1)", unit="bits", ge=0, le=63
    )
    th4: float = judging_setting(
        0.98, "pages whose vectors have a higher cosine than this are conceptual duplicates", ge=0, le=1
    )
    leading_bits: int = judging_setting(
        12, "pages that agree on this many leading bits, in any rotation, are compared", unit="bits", ge=8, le=56
    )
    min_shingles: int = fewest(8, "shingles with a weight above 0", unit="shingles")
    stop_words: tuple[str, ...] = word_list("that are not terms")
