"""The settings of the default scheme, `spotsieve`, and of the other schemes that compare shingles by MinHash values."""

import math
from typing import ClassVar, Literal

from spotsieve.stream.base.settings.schemes.fields import DEFAULT_BUCKET_CAP, fewest, scheme_name, shingle_length
from spotsieve.stream.base.settings.section import Section, Threshold, independent, judging_setting, setting

LEAST_FOUND_R = 0.8
"""From this r on, groups separate pages: at the default limits onebit finds all that it finds without limits."""
MOST_GROUPS = 256
STRANGERS_SHARE = 0.001
"""For c = 0: the largest share of unrelated pages that become candidates of a page."""


class MinhashSettings(Section):
    """Shingles -> 84 minwise hashes -> share of equal hashes (Williams, Giles 2013)."""

    threshold: ClassVar = Threshold("resemblance", independent(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1))
    name: Literal["minhash"] = scheme_name("minhash")
    w: int = shingle_length(5, "; the paper tried 5, 8 and 10")
    h: int = setting(84, "hash functions; the minimum of each is stored", verdicts=True, ge=1, le=255)
    resemblance: float = judging_setting(
        0.5, "R: pages with at least this share of equal minwise hashes are copies", gt=0, le=1
    )
    min_tokens: int = fewest(15, "tokens, or none of w in a row,", unit="tokens")


class OnebitSettings(Section):
    """Shingles -> 1-bit minwise fingerprints -> fingerprint group merging (Yuan et al. 2012)."""

    threshold: ClassVar = Threshold("r", independent(0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1))
    name: Literal["onebit"] = scheme_name("onebit")
    k: int = setting(
        400, "length of the fingerprint: one bit of each minwise hash", unit="bits", verdicts=True, ge=64, le=1000
    )
    r: float = judging_setting(0.9, "pages with at least this estimated resemblance are copies", ge=0.5, le=1)
    w: int = shingle_length(3)
    min_shingles: int = fewest(8, "shingles", unit="shingles")
    c: int = judging_setting(
        0,
        "pages that share at least this many groups of bits are compared; 0: 1 for r >= 0.8, otherwise the number that "
        "one of a thousand unrelated pages shares by chance",
        ge=0,
        le=64,
    )

    @property
    def r_h(self) -> int:
        """The largest number of bits in which copies differ (Eq. 10)."""
        # 0.0005 compensates rounding: 400 * (1 - 0.9) / 2 would be 19.
        return int(self.k * (1 - self.r) / 2 + 0.0005)

    @property
    def least_shared(self) -> int:
        """The number of groups that two pages must share to be compared: c, or its replacement for c = 0."""
        if self.c or self.r >= LEAST_FOUND_R:
            return max(self.c, 1)
        most = min(self.k, MOST_GROUPS) - self.r_h
        return next((c for c in range(1, most) if _strangers(self.k, self.r_h + c, c) <= STRANGERS_SHARE), most)

    def caution(self) -> str | None:
        """Below r = 0.8, groups are so short that unrelated pages fill their buckets after some thousand pages."""
        if self.r >= LEAST_FOUND_R:
            return None
        pages = DEFAULT_BUCKET_CAP * 2 ** (self.k / (self.r_h + self.least_shared))
        return (
            f"scheme.r is {self.r:g}: beyond about {round(pages, -3):,.0f} pages, at the default index.bucket_cap, "
            "full buckets hide copies from onebit; for more pages raise scheme.r, or index.bucket_cap, which costs time"
        )


def _strangers(k: int, groups: int, c: int) -> float:
    """The share of unrelated pages that agree on at least c of the groups of k bits by chance (Poisson)."""
    mean = groups / 2 ** (k / groups)
    return 1 - sum(math.exp(-mean) * mean**shared / math.factorial(shared) for shared in range(c))


class AdaptiveShinglesSettings(Section):
    """Text digest -> shingles sampled at a ratio by the page's size -> resemblance (Ye, Wen, Ma)."""

    threshold: ClassVar = Threshold("resemblance", independent(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1))
    name: Literal["adaptive-shingles"] = scheme_name("adaptive-shingles")
    w: int = shingle_length(5)
    resemblance: float = judging_setting(
        0.6, "t: pages whose sampled shingles have at least this resemblance are copies", gt=0, le=1
    )
    sizes: tuple[int, ...] = setting(
        (500,),
        "first size of each further class of pages, ascending; `spotsieve calibrate` prints sizes and ratios",
        unit="words",
        verdicts=True,
    )
    ratios: tuple[int, ...] = setting(
        (8, 16),
        "sampling ratio of each class, smaller pages first: one shingle in N, a power of two; one more than sizes",
        verdicts=True,
    )
    min_shingles: int = fewest(4, "sampled shingles", unit="shingles")
    most_shingles: int = setting(
        1024,
        "for a page with more sampled shingles, the ratio is halved until it has at most this many",
        unit="shingles",
        verdicts=True,
        ge=16,
        le=65_535,
    )


class SpotsieveSettings(Section):
    """Blocks and sampled shingles -> containment of the distinctive text in an earlier page (ours)."""

    threshold: ClassVar = Threshold("min_containment", independent(0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9))
    name: Literal["spotsieve"] = scheme_name("spotsieve")
    min_containment: float = judging_setting(
        0.6,
        "a page is a duplicate only if one earlier page contains at least this share of its distinctive text; a higher "
        "value drops fewer pages",
        gt=0,
        le=1,
    )
    max_fresh_words: int = judging_setting(
        0,
        "a page with this many words that its original lacks, in runs of ten and more, is never a duplicate; "
        "0: no limit",
        unit="words",
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
    minima_cap: int = judging_setting(
        16,
        "most pages indexed under one MinHash value; more common values do not separate pages",
        unit="pages",
        ge=1,
        le=65_536,
    )
    template_share: float = judging_setting(
        0.08,
        "blocks on at least this share of a host's pages, and on at least 3, are template text; on 10 or more, always",
        ge=0,
        le=1,
    )
