"""The settings of `concept`, which compares rotated fingerprints and LSI vectors."""

from typing import ClassVar, Literal

from spotsieve.stream.settings.schemes.fields import (
    MODEL_DIGEST,
    fewest,
    model_file,
    scheme_name,
    shingle_length,
    word_list,
)
from spotsieve.stream.settings.section import Section, Threshold, alone, setting


class ConceptSettings(Section):
    """TF-IDF weighted shingles -> simhash 64, rotated -> LSI vectors (Roul, Mittal, Joshi)."""

    threshold: ClassVar = Threshold("th2", alone(*range(40, 63, 2)), signs=False)
    name: Literal["concept"] = scheme_name("concept")
    idf_model: str = model_file("shingle weights and concepts")
    idf_digest: str = MODEL_DIGEST
    shingle_size: int = shingle_length(3)
    dimensions: int = setting(
        200, "concepts of an LSI vector, a byte each in a page's entry", verdicts=True, ge=1, le=1024
    )
    th1: int = setting(
        40,
        "pages that agree in more bits than this may be conceptual duplicates",
        unit="bits",
        verdicts=True,
        signs=False,
        ge=0,
        le=63,
    )
    th2: int = setting(
        46,
        "pages that agree in more bits than this are textual duplicates",
        unit="bits",
        verdicts=True,
        signs=False,
        ge=0,
        le=63,
    )
    th3: int = setting(
        63,
        "pages that agree in more bits than this are exact duplicates: score 1",
        unit="bits",
        verdicts=True,
        signs=False,
        ge=0,
        le=63,
    )
    th4: float = setting(
        0.98,
        "pages whose vectors have a greater cosine than this are conceptual duplicates",
        verdicts=True,
        signs=False,
        ge=0,
        le=1,
    )
    leading_bits: int = setting(
        12,
        "pages that agree on so many bits in a row, in some rotation, are compared",
        unit="bits",
        verdicts=True,
        signs=False,
        ge=8,
        le=56,
    )
    min_shingles: int = fewest(8, "shingles that weigh anything", unit="shingles")
    stop_words: tuple[str, ...] = word_list("that are no terms")
