"""The settings of the schemes that compare minimum hashes of shingles: minhash and onebit.

The settings of `adaptive-shingles`, whose samples depend on the size of a page.
"""

import math
from typing import ClassVar, Literal

from spotsieve.stream.base.settings.schemes.fields import DEFAULT_BUCKET_CAP, fewest, scheme_name, shingle_length
from spotsieve.stream.base.settings.section import Section, Threshold, alone, setting

LEAST_FOUND_R = 0.8
"""From here on groups tell pages apart: onebit finds at the default limits what it finds without any."""
MOST_GROUPS = 256
STRANGERS_SHARE = 0.001
"""Of all strangers, so many at most are compared with a page where `c` is chosen by itself."""


class MinhashSettings(Section):
    """Shingles -> 84 minimum hashes -> equal ones of two pages (Williams, Giles 2013)."""

    threshold: ClassVar = Threshold("resemblance", alone(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1), signs=False)
    name: Literal["minhash"] = scheme_name("minhash")
    w: int = shingle_length(5, "; the paper tried 5, 8 and 10")
    h: int = setting(84, "hash functions, of each of which the minimum is kept", verdicts=True, ge=1, le=255)
    resemblance: float = setting(
        0.5, "R: pages with at least this share of equal minima are copies", verdicts=True, signs=False, gt=0, le=1
    )
    min_tokens: int = fewest(15, "tokens, or none of w in a row,", unit="tokens")


class OnebitSettings(Section):
    """Shingles -> 1-bit minwise fingerprints -> fingerprint group merging (Yuan et al. 2012)."""

    threshold: ClassVar = Threshold("r", alone(0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1), signs=False)
    name: Literal["onebit"] = scheme_name("onebit")
    k: int = setting(400, "fingerprint, one bit of each minimum", unit="bits", verdicts=True, ge=64, le=1000)
    r: float = setting(
        0.9, "pages of at least this estimated resemblance are copies", verdicts=True, signs=False, ge=0.5, le=1
    )
    w: int = shingle_length(3)
    min_shingles: int = fewest(8, "shingles", unit="shingles")
    c: int = setting(
        0,
        "pages that share so many groups of bits are compared; 0: 1 where r is .8 or more, below it as many as one in "
        "a thousand strangers shares by chance",
        verdicts=True,
        signs=False,
        ge=0,
        le=64,
    )

    @property
    def r_h(self) -> int:
        """The most bits in which copies differ (Eq. 10)."""
        # the half of a thousandth keeps 400 * (1 - .9) / 2 from being 19
        return int(self.k * (1 - self.r) / 2 + 0.0005)

    @property
    def least_shared(self) -> int:
        """How many of the r_h + c groups two pages must share: c, or what stands for 0."""
        if self.c or self.r >= LEAST_FOUND_R:
            return max(self.c, 1)
        most = min(self.k, MOST_GROUPS) - self.r_h
        return next((c for c in range(1, most) if _strangers(self.k, self.r_h + c, c) <= STRANGERS_SHARE), most)

    def caution(self) -> str | None:
        """Below r = .8 groups are so short that strangers fill their buckets after some thousand pages."""
        if self.r >= LEAST_FOUND_R:
            return None
        pages = DEFAULT_BUCKET_CAP * 2 ** (self.k / (self.r_h + self.least_shared))
        return (
            f"scheme.r is {self.r:g}: beyond some {round(pages, -3):,.0f} pages, at the default index.bucket_cap, full "
            "buckets hide copies from onebit; for more pages raise scheme.r, or index.bucket_cap, which costs time"
        )


def _strangers(k: int, groups: int, c: int) -> float:
    """The share of strangers that agree on at least c of so many groups of k bits, each bit by chance (Poisson)."""
    mean = groups / 2 ** (k / groups)
    return 1 - sum(math.exp(-mean) * mean**shared / math.factorial(shared) for shared in range(c))


class AdaptiveShinglesSettings(Section):
    """Text digest -> shingles sampled at a ratio by the page's size -> resemblance (Ye, Wen, Ma)."""

    threshold: ClassVar = Threshold("resemblance", alone(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1), signs=False)
    name: Literal["adaptive-shingles"] = scheme_name("adaptive-shingles")
    w: int = shingle_length(5)
    resemblance: float = setting(
        0.6,
        "t: pages whose sampled shingles have at least this resemblance are copies",
        verdicts=True,
        signs=False,
        gt=0,
        le=1,
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
    min_shingles: int = fewest(4, "sampled shingles", unit="shingles")
    most_shingles: int = setting(
        1024,
        "of a page with more sampled shingles the ratio is halved until it has no more",
        unit="shingles",
        verdicts=True,
        ge=16,
        le=65_535,
    )
