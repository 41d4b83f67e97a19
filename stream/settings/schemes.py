"""Owns the settings of the schemes: one frozen model for each published system, of which [scheme] holds one.

Each names its threshold, the setting that makes it stricter or looser, with the values that `score --sweep` tries
(spotsieve.stream.settings.section.Threshold): the curves of precision and recall are drawn of them.
"""

from typing import Any, ClassVar, Literal, get_args

from spotsieve.stream.settings.section import Section, Threshold, alone, setting

# What makes a spot, for every scheme that has spots.
_SPOT_DISTANCE: Any = setting(
    2, "spot distance d: every d-th word after the antecedent", unit="words", verdicts=True, ge=1, le=16
)
_CHAIN_LENGTH: Any = setting(3, "chain length c: words in a chain", unit="words", verdicts=True, ge=1, le=8)
_ANTECEDENTS: Any = setting(
    (),
    'words that start a chain, such as "the", or "the:3" with a spot distance of its own; empty: the built-in English '
    "list",
    verdicts=True,
)
_SPOT_STOP_WORDS: Any = setting((), "words a chain steps over; empty: the built-in English list", verdicts=True)
# What a model is, and which of its spots are taken, for every scheme that has one.
_SPOT_MODEL: Any = setting("", "file of spot statistics that `spotsieve model build` wrote for this scheme")
_MODEL_DIGEST: Any = setting("", "digest of that file, as model build prints it", verdicts=True)
_SPOT_IDF_MIN: Any = setting(0.2, "spots with a lower IDF, the common ones, are left out", verdicts=True, ge=0, le=1)
_SPOT_IDF_MAX: Any = setting(0.85, "spots with a higher IDF, the rare ones, are left out", verdicts=True, ge=0, le=1)
_MIN_SPOTS: Any = setting(
    5,
    "pages with fewer spots in the range are unchecked: only their digest is compared",
    unit="spots",
    verdicts=True,
    ge=1,
    le=10_000,
)


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
    name: Literal["spotsieve"] = setting("spotsieve", "which published system judges pages", verdicts=True)
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
    min_features: int = setting(
        8,
        "pages with fewer features are unchecked: only their digest is compared",
        unit="shingles",
        verdicts=True,
        ge=1,
        le=10_000,
    )
    shingle_words: int = setting(3, "words of a shingle", unit="words", verdicts=True, ge=1, le=16)
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


class ChainSettings(Section):
    """Spots (Theobald et al. 2008) -> simhash 64 -> permuted tables (Manku et al. 2007)."""

    threshold: ClassVar = Threshold(
        "max_distance_bits",
        {k: {"tables": tables} for k, tables in enumerate((1, 10, 10, 10, 15, 21, 28, 36))},
        signs=False,
    )
    name: Literal["chain"] = setting("chain", "which published system judges pages", verdicts=True)
    max_distance_bits: int = setting(
        3, "k: pages whose fingerprints are this near are copies", unit="bits", verdicts=True, ge=0, le=7
    )
    tables: int = setting(10, "permuted tables; for k = 3: 4, 10, 16, 20 and more", verdicts=True, ge=1, le=255)
    min_features: int = setting(
        8,
        "pages with fewer spots are unchecked: only their digest is compared",
        unit="spots",
        verdicts=True,
        ge=1,
        le=10_000,
    )
    distance: int = _SPOT_DISTANCE
    chain_length: int = _CHAIN_LENGTH
    antecedents: tuple[str, ...] = _ANTECEDENTS
    stop_words: tuple[str, ...] = _SPOT_STOP_WORDS


class SubhashSettings(Section):
    """Token simhash 64 -> k + 1 sub-hash tables (Williams, Giles 2013)."""

    threshold: ClassVar = Threshold("k", alone(*range(11)), signs=False)
    name: Literal["subhash"] = setting("subhash", "which published system judges pages", verdicts=True)
    k: int = setting(3, "pages whose fingerprints are this near are copies", unit="bits", verdicts=True, ge=0, le=10)
    min_tokens: int = setting(
        15,
        "pages with fewer tokens are unchecked: only their digest is compared",
        unit="tokens",
        verdicts=True,
        ge=1,
        le=10_000,
    )


class MankuSettings(Section):
    """Weighted words and phrases -> simhash 64 -> permuted tables (Manku et al. 2007)."""

    threshold: ClassVar = Threshold(
        "k", {k: {"tables": tables} for k, tables in enumerate((1, 20, 21, 20, 25, 21, 28, 36))}, signs=False
    )
    name: Literal["manku"] = setting("manku", "which published system judges pages", verdicts=True)
    k: int = setting(3, "pages whose fingerprints are this near are copies", unit="bits", verdicts=True, ge=0, le=7)
    tables: int = setting(20, "permuted tables; for k = 3: 4, 10, 16, 20 and more", verdicts=True, ge=1, le=255)
    phrase_words: int = setting(
        2,
        "words of the longest phrase that is a feature beside the words; 1: words only",
        unit="words",
        verdicts=True,
        ge=1,
        le=16,
    )
    min_features: int = setting(
        8,
        "pages with fewer words and phrases are unchecked: only their digest is compared",
        unit="features",
        verdicts=True,
        ge=1,
        le=10_000,
    )
    stop_words: tuple[str, ...] = setting(
        (), "words that are no features; empty: the built-in English list", verdicts=True
    )


class MinhashSettings(Section):
    """Shingles -> 84 minimum hashes -> equal ones of two pages (Williams, Giles 2013)."""

    threshold: ClassVar = Threshold("resemblance", alone(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1), signs=False)
    name: Literal["minhash"] = setting("minhash", "which published system judges pages", verdicts=True)
    w: int = setting(5, "words of a shingle; the paper tried 5, 8 and 10", unit="words", verdicts=True, ge=1, le=16)
    h: int = setting(84, "hash functions, of each of which the minimum is kept", verdicts=True, ge=1, le=255)
    resemblance: float = setting(
        0.5, "R: pages with at least this share of equal minima are copies", verdicts=True, gt=0, le=1
    )
    min_tokens: int = setting(
        15,
        "pages with fewer tokens, or none of w in a row, are unchecked: only their digest is compared",
        unit="tokens",
        verdicts=True,
        ge=1,
        le=10_000,
    )


class OnebitSettings(Section):
    """Shingles -> 1-bit minwise fingerprints -> fingerprint group merging (Yuan et al. 2012)."""

    threshold: ClassVar = Threshold("r", alone(0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1), signs=False)
    name: Literal["onebit"] = setting("onebit", "which published system judges pages", verdicts=True)
    k: int = setting(400, "fingerprint, one bit of each minimum", unit="bits", verdicts=True, ge=64, le=1000)
    r: float = setting(0.9, "pages of at least this estimated resemblance are copies", verdicts=True, ge=0.5, le=1)
    w: int = setting(3, "words of a shingle", unit="words", verdicts=True, ge=1, le=16)
    min_shingles: int = setting(
        8,
        "pages with fewer shingles are unchecked: only their digest is compared",
        unit="shingles",
        verdicts=True,
        ge=1,
        le=10_000,
    )


class AdaptiveShinglesSettings(Section):
    """Text digest -> shingles sampled at a ratio by the page's size -> resemblance (Ye, Wen, Ma)."""

    threshold: ClassVar = Threshold("resemblance", alone(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1), signs=False)
    name: Literal["adaptive-shingles"] = setting(
        "adaptive-shingles", "which published system judges pages", verdicts=True
    )
    w: int = setting(5, "words of a shingle", unit="words", verdicts=True, ge=1, le=16)
    resemblance: float = setting(
        0.6, "t: pages whose sampled shingles have at least this resemblance are copies", verdicts=True, gt=0, le=1
    )
    sizes: tuple[int, ...] = setting(
        (500,),
        "where the next class of pages begins, ascending; `spotsieve calibrate` prints sizes and ratios",
        unit="words",
        verdicts=True,
    )
    ratios: tuple[int, ...] = setting(
        (8, 16),
        "of each class, smaller pages first, one shingle in how many is sampled: powers of two, one more than sizes",
        verdicts=True,
    )
    min_shingles: int = setting(
        4,
        "pages with fewer sampled shingles are unchecked: only their digest is compared",
        unit="shingles",
        verdicts=True,
        ge=1,
        le=10_000,
    )
    most_shingles: int = setting(
        1024,
        "of a page with more sampled shingles the ratio is halved until it has no more",
        unit="shingles",
        verdicts=True,
        ge=16,
        le=65_535,
    )


class ImatchSettings(Section):
    """Tokens in an IDF range -> one SHA-1 (I-Match, as Theobald et al. 2008 ran it)."""

    threshold: ClassVar = Threshold("idf_min", alone(0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7))
    name: Literal["imatch"] = setting("imatch", "which published system judges pages", verdicts=True)
    idf_model: str = setting("", "file of term statistics that `spotsieve model build` wrote for this scheme")
    idf_digest: str = _MODEL_DIGEST
    idf_min: float = setting(0.4, "terms with a lower IDF, the common ones, are left out", verdicts=True, ge=0, le=1)
    idf_max: float = setting(0.75, "terms with a higher IDF, the rare ones, are left out", verdicts=True, ge=0, le=1)
    min_terms: int = setting(
        5,
        "pages with fewer different terms in the range are unchecked: only their digest is compared",
        unit="terms",
        verdicts=True,
        ge=1,
        le=10_000,
    )
    stop_words: tuple[str, ...] = setting(
        (), "words that are no terms; empty: the built-in English list", verdicts=True
    )


class ImatchSSettings(Section):
    """Spots in an IDF range -> one SHA-1 (I-Match-S, Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("idf_min", alone(0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7))
    name: Literal["imatch-s"] = setting("imatch-s", "which published system judges pages", verdicts=True)
    idf_model: str = _SPOT_MODEL
    idf_digest: str = _MODEL_DIGEST
    idf_min: float = setting(0.4, "spots with a lower IDF, the common ones, are left out", verdicts=True, ge=0, le=1)
    idf_max: float = setting(0.75, "spots with a higher IDF, the rare ones, are left out", verdicts=True, ge=0, le=1)
    min_terms: int = setting(
        5,
        "pages with fewer different spots in the range are unchecked: only their digest is compared",
        unit="spots",
        verdicts=True,
        ge=1,
        le=10_000,
    )
    distance: int = _SPOT_DISTANCE
    chain_length: int = _CHAIN_LENGTH
    antecedents: tuple[str, ...] = _ANTECEDENTS
    stop_words: tuple[str, ...] = _SPOT_STOP_WORDS


class SpotsigsSettings(Section):
    """Spots in an IDF range -> length partitions, inverted index -> exact Jaccard (SpotSigs, Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("tau", alone(0.2, 0.3, 0.44, 0.5, 0.6, 0.7, 0.8, 0.9, 1), signs=False)
    name: Literal["spotsigs"] = setting("spotsigs", "which published system judges pages", verdicts=True)
    idf_model: str = _SPOT_MODEL
    idf_digest: str = _MODEL_DIGEST
    idf_min: float = _SPOT_IDF_MIN
    idf_max: float = _SPOT_IDF_MAX
    tau: float = setting(0.44, "pages of at least this Jaccard similarity are copies", verdicts=True, ge=0.01, le=1)
    min_spots: int = _MIN_SPOTS
    distance: int = _SPOT_DISTANCE
    chain_length: int = _CHAIN_LENGTH
    antecedents: tuple[str, ...] = _ANTECEDENTS
    stop_words: tuple[str, ...] = _SPOT_STOP_WORDS


class SpotsigsLshSettings(Section):
    """Spots in an IDF range -> bands of minwise hashes -> Jaccard (LSH-S, Theobald et al. 2008)."""

    threshold: ClassVar = Threshold("tau", alone(0.2, 0.3, 0.44, 0.5, 0.6, 0.7, 0.8, 0.9, 1), signs=False)
    name: Literal["spotsigs-lsh"] = setting("spotsigs-lsh", "which published system judges pages", verdicts=True)
    idf_model: str = _SPOT_MODEL
    idf_digest: str = _MODEL_DIGEST
    idf_min: float = _SPOT_IDF_MIN
    idf_max: float = _SPOT_IDF_MAX
    tau: float = setting(0.44, "pages of at least this Jaccard similarity are copies", verdicts=True, gt=0, le=1)
    k: int = setting(6, "minwise hashes of a band: pages that share a band are compared", verdicts=True, ge=1, le=64)
    l: int = setting(32, "bands", verdicts=True, ge=1, le=255)  # noqa: E741 - the paper's name
    min_spots: int = _MIN_SPOTS
    distance: int = _SPOT_DISTANCE
    chain_length: int = _CHAIN_LENGTH
    antecedents: tuple[str, ...] = _ANTECEDENTS
    stop_words: tuple[str, ...] = _SPOT_STOP_WORDS


class ConceptSettings(Section):
    """TF-IDF weighted shingles -> simhash 64, rotated -> LSI vectors (Roul, Mittal, Joshi)."""

    threshold: ClassVar = Threshold("th2", alone(*range(40, 63, 2)), signs=False)
    name: Literal["concept"] = setting("concept", "which published system judges pages", verdicts=True)
    idf_model: str = setting(
        "", "file of shingle weights and concepts that `spotsieve model build` wrote for this scheme"
    )
    idf_digest: str = _MODEL_DIGEST
    shingle_size: int = setting(3, "words of a shingle", unit="words", verdicts=True, ge=1, le=16)
    dimensions: int = setting(
        200, "concepts of an LSI vector, a byte each in a page's entry", verdicts=True, ge=1, le=1024
    )
    th1: int = setting(
        40,
        "pages that agree in more bits than this may be conceptual duplicates",
        unit="bits",
        verdicts=True,
        ge=0,
        le=63,
    )
    th2: int = setting(
        46, "pages that agree in more bits than this are textual duplicates", unit="bits", verdicts=True, ge=0, le=63
    )
    th3: int = setting(
        63,
        "pages that agree in more bits than this are exact duplicates: score 1",
        unit="bits",
        verdicts=True,
        ge=0,
        le=63,
    )
    th4: float = setting(
        0.98, "pages whose vectors have a greater cosine than this are conceptual duplicates", verdicts=True, ge=0, le=1
    )
    leading_bits: int = setting(
        12,
        "pages that agree on so many bits in a row, in some rotation, are compared",
        unit="bits",
        verdicts=True,
        ge=8,
        le=56,
    )
    min_shingles: int = setting(
        8,
        "pages with fewer shingles that weigh anything are unchecked: only their digest is compared",
        unit="shingles",
        verdicts=True,
        ge=1,
        le=10_000,
    )
    stop_words: tuple[str, ...] = setting(
        (), "words that are no terms; empty: the built-in English list", verdicts=True
    )


ModelledSettings = ImatchSettings | ImatchSSettings | SpotsigsSettings | SpotsigsLshSettings
"""Of the schemes that need a model of term statistics."""
SchemeSettings = (
    SpotsieveSettings
    | ChainSettings
    | MankuSettings
    | SubhashSettings
    | MinhashSettings
    | OnebitSettings
    | AdaptiveShinglesSettings
    | ImatchSettings
    | ImatchSSettings
    | SpotsigsSettings
    | SpotsigsLshSettings
    | ConceptSettings
)
"""What [scheme] may hold, told apart by `name`. A scheme is added here and in stream/schemes/registry.py."""
SCHEME_SETTINGS: dict[str, type[SchemeSettings]] = {
    model.model_fields["name"].default: model for model in get_args(SchemeSettings)
}
"""Name -> settings, in the order in which names are listed."""
DEFAULT_SCHEME = "spotsieve"
