"""The scheme `manku`: which features a page has, what they weigh, and the tables of the paper."""

import numpy as np
import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.schemes import MankuSettings
from spotsieve.stream.base.signature import Signatures, SignatureStatus
from spotsieve.stream.judge import judge
from spotsieve.stream.sign.features.spots import DEFAULT_STOP_WORDS
from spotsieve.stream.sign.schemes.simhash import MankuScheme
from tests.fixtures.pages.spotsieve_pages import PATHS, STORIES, newspaper, page
from tests.reference.acceptance import fingerprints, originals_of, within
from tests.reference.shingles import shingles_of, words_of
from tests.reference.simhash import fingerprint_of

BODIES = [newspaper(STORIES[name, 1]) for name in PATHS]


def signed(settings: MankuSettings, *bodies: str) -> Signatures:
    return MankuScheme(settings).sign([page(number, "", body) for number, body in enumerate(bodies)])


@pytest.mark.parametrize("phrase_words", [1, 2, 4])
def test_features_are_words_and_phrases_without_stop_words_counted_as_they_occur(phrase_words: int) -> None:
    found = signed(MankuSettings(phrase_words=phrase_words), *BODIES)
    words = [[word for word in words_of(body.encode(), True) if word not in DEFAULT_STOP_WORDS] for body in BODIES]
    features = [shingles_of(one, 1, phrase_words) for one in words]
    assert found.fingerprint.tolist() == [fingerprint_of(one) for one in features]
    assert found.feature_count.tolist() == [len(one) for one in features]


def test_a_feature_weighs_as_often_as_it_occurs() -> None:
    few = "fox " * 3 + "alpha beta gamma delta epsilon"
    once, often = (signed(MankuSettings(phrase_words=1), text).fingerprint[0] for text in (few, few + " fox" * 99))
    (fox,) = shingles_of(["fox"], 1, 1)
    assert often == np.uint64(fox) != once


def test_the_stop_words_are_a_setting() -> None:
    text = "the quick fox ran of the hill and away from the old mill in the dark"
    default, own = signed(MankuSettings(), text), signed(MankuSettings(stop_words=("quick", "hill")), text)
    assert own.feature_count[0] > default.feature_count[0]
    without = " ".join(word for word in text.split() if word not in {"quick", "hill"})
    assert own.fingerprint == signed(MankuSettings(stop_words=("none",)), without).fingerprint


@pytest.mark.parametrize(
    ("words", "status"), [(4, SignatureStatus.TOO_FEW_FEATURES), (5, SignatureStatus.FINGERPRINTED)]
)
def test_a_page_of_fewer_features_than_the_least_is_not_judged(words: int, status: SignatureStatus) -> None:
    # 4 words and 3 phrases; 5 words and 4 phrases
    assert signed(MankuSettings(), " ".join(["fox", "hill", "mill", "wolf", "deer"][:words])).status[0] == status


@pytest.mark.parametrize(("k", "tables"), [(3, 4), (3, 10), (3, 16), (3, 20), (0, 1), (7, 8), (7, 36)])
def test_exactly_the_pages_within_k_bits_are_copies_whatever_the_tables(k: int, tables: int) -> None:
    some = fingerprints(k + 2)(2_000, k)
    scheme = MankuScheme(MankuSettings(k=k, tables=tables))
    assert len(scheme.design) == tables
    verdicts, _ = judge(some, scheme, memory_state(), 65_536, 64)
    found = [original.offset if original else -1 for original in verdicts.originals]
    assert found == originals_of(some, within(k)).tolist()


def test_impossible_parameters_are_refused_with_the_rule_and_valid_values() -> None:
    with pytest.raises(SettingError, match=r"scheme\.tables must be one of 4, 10, 16, 20, .* for k = 3, got 7"):
        MankuScheme(MankuSettings(tables=7))
    with pytest.raises(SettingError, match=r"scheme\.stop_words must be single tokens in lower case.*got 'The'"):
        MankuScheme(MankuSettings(stop_words=("The",)))
    with pytest.raises(ValueError, match="less than or equal to 7"):
        MankuSettings(k=8)
