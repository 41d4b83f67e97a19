"""The settings of the default scheme, `spotsieve`."""

from typing import ClassVar, Literal

from spotsieve.stream.base.settings.schemes.fields import fewest, scheme_name, shingle_length
from spotsieve.stream.base.settings.section import Section, Threshold, independent, setting


class SpotsieveSettings(Section):
    """Blocks and sampled shingles -> containment of the distinctive text in an earlier page (ours)."""

    threshold: ClassVar = Threshold(
        "min_containment", independent(0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9), signs=False
    )
    name: Literal["spotsieve"] = scheme_name("spotsieve")
    min_containment: float = setting(
        0.6,
        "a page is a duplicate only if one earlier page contains at least this share of its distinctive text; a higher "
        "value drops fewer pages",
        verdicts=True,
        signs=False,
        gt=0,
        le=1,
    )
    max_fresh_words: int = setting(
        0,
        "a page with this many words that its original lacks, in runs of ten and more, is never a duplicate; "
        "0: no limit",
        unit="words",
        verdicts=True,
        signs=False,
        ge=0,
        le=65_535,
    )
    min_features: int = fewest(8, "features", unit="shingles")
    shingle_words: int = shingle_length(3, " of phrases; containment is measured by shingles of 3 words")
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
    template_share: float = setting(
        0.08,
        "blocks on at least this share of a host's pages, and on at least 3, are template text; on 10 or more, always",
        verdicts=True,
        signs=False,
        ge=0,
        le=1,
    )
