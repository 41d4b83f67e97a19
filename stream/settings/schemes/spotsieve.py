"""The settings of the default scheme, `spotsieve`."""

from typing import ClassVar, Literal

from spotsieve.stream.settings.schemes.fields import fewest, scheme_name, shingle_length
from spotsieve.stream.settings.section import Section, Threshold, setting


class SpotsieveSettings(Section):
    """Kept text -> 3-shingles -> digests, tables and smallest hashes -> sketch against sketch (ours)."""

    threshold: ClassVar = Threshold(
        "min_jaccard",
        {
            bar: {"same_host_min_jaccard": round(bar + 0.14, 2)}
            for bar in (0.1, 0.2, 0.26, 0.32, 0.4, 0.5, 0.6, 0.7, 0.8)
        },
        signs=False,
    )
    name: Literal["spotsieve"] = scheme_name("spotsieve")
    max_distance_bits: int = setting(
        1, "k: fingerprints this near are candidates", unit="bits", verdicts=True, ge=0, le=7
    )
    tables: int = setting(
        2,
        "permuted tables; for k = 1: 2 to 64; for k = 3: 4, 10, 16, 20 and more",
        verdicts=True,
        ge=1,
        le=255,
    )
    min_features: int = fewest(8, "features", unit="shingles")
    shingle_words: int = shingle_length(3)
    minima: int = setting(
        8,
        "smallest hashes of phrases (2 * shingle_words - 1 words) under which a page is filed",
        verdicts=True,
        ge=1,
        le=255,
    )
    minima_cap: int = setting(
        16,
        "a smallest hash, or a table's bucket, takes no more pages than this; what more novel pages have tells none "
        "apart",
        unit="pages",
        verdicts=True,
        ge=1,
        le=65_536,
    )
    sketch_bits: int = setting(
        512,
        "1-bit minwise sketch, a multiple of 64",
        unit="bits",
        verdicts=True,
        ge=64,
        le=2048,
        multiple_of=64,
    )
    min_jaccard: float = setting(
        0.32, "pages of different hosts at least this alike are copies", verdicts=True, gt=0, le=1
    )
    same_host_min_jaccard: float = setting(
        0.46, "on one host, copies are at least this alike", verdicts=True, gt=0, le=1
    )
    same_host_min_own: float = setting(
        0.3,
        "on one host, copies share this much of what neither owes to the host's template",
        verdicts=True,
        ge=0,
        lt=1,
    )
    presumed_template: float = setting(
        0.48,
        "share of a host's first page that is taken for template, as there is no other page to tell",
        verdicts=True,
        ge=0,
        le=0.9,
    )
