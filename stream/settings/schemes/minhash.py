"""The settings of the schemes that compare minimum hashes of shingles: minhash and onebit."""

from typing import ClassVar, Literal

from spotsieve.stream.settings.schemes.fields import fewest, scheme_name, shingle_length
from spotsieve.stream.settings.section import Section, Threshold, alone, setting

LEAST_FOUND_R = 0.8
"""From here on onebit finds at the default index.bucket_cap what its groups find without one (docs/schemes.md)."""


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

    def caution(self) -> str | None:
        """Below r = .8 the groups of bits that name candidates are so short that strangers fill their buckets."""
        if self.r >= LEAST_FOUND_R:
            return None
        return (
            f"scheme.r is {self.r:g}: below {LEAST_FOUND_R:g} full buckets hide most copies from onebit (at .7 it "
            "found one in ten on newsgroups); raise scheme.r, or index.bucket_cap, which costs time"
        )
