"""Fields that several schemes share, as functions or values for the models of the schemes."""

from typing import Any

from spotsieve.stream.base.settings.section import judging_setting, setting

DEFAULT_BUCKET_CAP = 256
"""The default of index.bucket_cap. The cautions of schemes say how many pages it suffices for."""
MOST_FEATURES = 10_000
"""Upper bound of the settings min_*: pages with fewer features are unchecked."""


def scheme_name(name: str) -> Any:
    """The name of the scheme, the discriminator of [scheme]."""
    return setting(name, "the scheme that judges pages", verdicts=True)


def fewest(default: int, what: str, unit: str) -> Any:
    """The lowest number of features that a page needs to be judged.  what: the features, for the description"""
    about = f"pages with fewer {what} are unchecked: only their digest is compared"
    return setting(default, about, unit=unit, verdicts=True, ge=1, le=MOST_FEATURES)


def shingle_length(default: int, tried: str = "") -> Any:
    """The length of a shingle.  tried: an addition to the description"""
    return setting(default, f"words of a shingle{tried}", unit="words", verdicts=True, ge=1, le=16)


def word_list(effect: str) -> Any:
    """A list of words; empty for the built-in English list.  effect: a clause about these words"""
    return setting((), f"words {effect}; empty: the built-in English list", verdicts=True)


def permuted_tables(default: int) -> Any:
    """The number of permuted tables (Manku et al. 2007, sec. 3)."""
    return judging_setting(default, "permuted tables; for k = 3: 4, 10, 16, 20 and more", ge=1, le=255)


def model_file(content: str) -> Any:
    """The path of a model of the crawl's terms. The path changes no verdict, but the digest of the file does."""
    return setting("", f"file of {content} that `spotsieve model build` wrote for this scheme")


def lowest_idf(default: float, terms: str) -> Any:
    """The lower end of the IDF range of features."""
    return setting(default, f"{terms} with a lower IDF, the common ones, are ignored", verdicts=True, ge=0, le=1)


def highest_idf(default: float, terms: str) -> Any:
    """The upper end of the IDF range of features."""
    return setting(default, f"{terms} with a higher IDF, the rare ones, are ignored", verdicts=True, ge=0, le=1)


MODEL_DIGEST: Any = setting("", "digest of the model file, as `spotsieve model build` prints it", verdicts=True)

# Spots (Theobald et al. 2008, sec. 3).
SPOT_DISTANCE: Any = setting(
    2, "spot distance d: every d-th word after the antecedent", unit="words", verdicts=True, ge=1, le=16
)
CHAIN_LENGTH: Any = setting(3, "chain length c: words in a chain", unit="words", verdicts=True, ge=1, le=8)
ANTECEDENTS: Any = setting(
    (),
    'words that start a chain, such as "the", or "the:3" with a spot distance of its own; empty: the built-in English '
    "list",
    verdicts=True,
)
SPOT_STOP_WORDS: Any = word_list("a chain steps over")
SPOT_MODEL: Any = model_file("spot statistics")
