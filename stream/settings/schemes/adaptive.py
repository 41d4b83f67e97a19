"""The settings of `adaptive-shingles`, whose samples depend on the size of a page."""

from typing import ClassVar, Literal

from spotsieve.stream.settings.schemes.fields import fewest, scheme_name, shingle_length
from spotsieve.stream.settings.section import Section, Threshold, alone, setting


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
