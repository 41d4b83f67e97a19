"""The settings of the default scheme, `spotsieve`."""

from typing import ClassVar, Literal

from spotsieve.stream.base.settings.schemes.fields import fewest, scheme_name, shingle_length
from spotsieve.stream.base.settings.section import Section, Threshold, setting


class SpotsieveSettings(Section):
    """Distinctive text -> block fingerprints, MinHash values of phrases -> sketch, blocks and title (ours)."""

    threshold: ClassVar = Threshold(
        "min_alike",
        {
            value: {"no_title_min_alike": round(min(value + 0.1, 1.0), 2), "min_jaccard": round(value * 0.64, 2)}
            for value in (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8)
        },
        signs=False,
    )
    name: Literal["spotsieve"] = scheme_name("spotsieve")
    min_features: int = fewest(8, "features", unit="shingles")
    shingle_words: int = shingle_length(3)
    minima: int = setting(
        8,
        "MinHash values of phrases (2 * shingle_words - 1 words) under which a page is indexed",
        verdicts=True,
        ge=1,
        le=255,
    )
    minima_cap: int = setting(
        16,
        "most pages indexed under one MinHash value; more common values do not separate pages",
        unit="pages",
        verdicts=True,
        signs=False,
        ge=1,
        le=65_536,
    )
    sketch_bits: int = setting(
        512,
        "length of the 1-bit minwise sketch, a multiple of 64",
        unit="bits",
        verdicts=True,
        ge=64,
        le=2048,
        multiple_of=64,
    )
    min_jaccard: float = setting(
        0.32,
        "pages of different hosts with at least this resemblance are copies",
        verdicts=True,
        signs=False,
        gt=0,
        le=1,
    )
    thin_min_jaccard: float = setting(
        0.7, "the same if one of the pages has fewer than 60 features", verdicts=True, signs=False, gt=0, le=1
    )
    min_alike: float = setting(
        0.5,
        "pages of one host with equal titles are copies if they share at least this much of their distinctive text",
        verdicts=True,
        signs=False,
        gt=0,
        le=1,
    )
    no_title_min_alike: float = setting(
        0.6, "the same for short texts without titles that separate them", verdicts=True, signs=False, gt=0, le=1
    )
    other_title_min_alike: float = setting(
        0.8, "the same if their titles differ", verdicts=True, signs=False, gt=0, le=1
    )
    template_share: float = setting(
        0.04,
        "blocks on more than this share of a host's pages, and on more than 2, are template text; on more than 10, "
        "always",
        verdicts=True,
        signs=False,
        ge=0,
        le=1,
    )
