"""The settings of the schemes that compare simhash fingerprints: chain, subhash and manku."""

from typing import ClassVar, Literal

from spotsieve.stream.settings.schemes.fields import (
    ANTECEDENTS,
    CHAIN_LENGTH,
    SPOT_DISTANCE,
    SPOT_STOP_WORDS,
    fewest,
    permuted_tables,
    scheme_name,
    word_list,
)
from spotsieve.stream.settings.section import Section, Threshold, alone, setting


class ChainSettings(Section):
    """Spots (Theobald et al. 2008) -> simhash 64 -> permuted tables (Manku et al. 2007)."""

    threshold: ClassVar = Threshold(
        "max_distance_bits",
        {k: {"tables": tables} for k, tables in enumerate((1, 10, 10, 10, 15, 21, 28, 36))},
        signs=False,
    )
    name: Literal["chain"] = scheme_name("chain")
    max_distance_bits: int = setting(
        3, "k: pages whose fingerprints are this near are copies", unit="bits", verdicts=True, signs=False, ge=0, le=7
    )
    tables: int = permuted_tables(10)
    min_features: int = fewest(8, "spots", unit="spots")
    distance: int = SPOT_DISTANCE
    chain_length: int = CHAIN_LENGTH
    antecedents: tuple[str, ...] = ANTECEDENTS
    stop_words: tuple[str, ...] = SPOT_STOP_WORDS


class SubhashSettings(Section):
    """Token simhash 64 -> k + 1 sub-hash tables (Williams, Giles 2013)."""

    threshold: ClassVar = Threshold("k", alone(*range(11)), signs=False)
    name: Literal["subhash"] = scheme_name("subhash")
    k: int = setting(
        3, "pages whose fingerprints are this near are copies", unit="bits", verdicts=True, signs=False, ge=0, le=10
    )
    min_tokens: int = fewest(15, "tokens", unit="tokens")


class MankuSettings(Section):
    """Weighted words and phrases -> simhash 64 -> permuted tables (Manku et al. 2007)."""

    threshold: ClassVar = Threshold(
        "k", {k: {"tables": tables} for k, tables in enumerate((1, 20, 21, 20, 25, 21, 28, 36))}, signs=False
    )
    name: Literal["manku"] = scheme_name("manku")
    k: int = setting(
        3, "pages whose fingerprints are this near are copies", unit="bits", verdicts=True, signs=False, ge=0, le=7
    )
    tables: int = permuted_tables(20)
    phrase_words: int = setting(
        2,
        "words of the longest phrase that is a feature beside the words; 1: words only",
        unit="words",
        verdicts=True,
        ge=1,
        le=16,
    )
    min_features: int = fewest(8, "words and phrases", unit="features")
    stop_words: tuple[str, ...] = word_list("that are no features")
