"""The scheme `subhash`: fingerprints by the letter of the paper, k + 1 sub-hashes, and pages too short to be judged."""

from itertools import pairwise

import numpy as np
import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.schemes import SubhashSettings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.judge import judge
from spotsieve.stream.sign.fingerprints.permuted_tables import sub_hash_tables
from spotsieve.stream.sign.schemes.simhash import SubhashScheme
from tests.fixtures.pages.spotsieve_pages import PATHS, STORIES, newspaper, page
from tests.reference.acceptance import fingerprints, originals_of, within
from tests.reference.shingles import shingles_of, words_of
from tests.reference.simhash import fingerprint_of

BODIES = [newspaper(STORIES[name, 1]) for name in PATHS]


def test_a_fingerprint_is_the_simhash_of_all_tokens_each_of_equal_weight() -> None:
    signed = SubhashScheme(SubhashSettings()).sign([page(n, "", body) for n, body in enumerate(BODIES)])
    words = [words_of(body.encode(), True) for body in BODIES]
    assert signed.fingerprint.tolist() == [fingerprint_of(shingles_of(one, 1, 1)) for one in words]
    assert signed.feature_count.tolist() == [len(one) for one in words]


@pytest.mark.parametrize(
    ("tokens", "status"), [(14, SignatureStatus.TOO_FEW_FEATURES), (15, SignatureStatus.FINGERPRINTED)]
)
def test_a_page_of_fewer_than_15_tokens_is_not_judged(tokens: int, status: SignatureStatus) -> None:
    body = "<p>" + " ".join(f"word{number}" for number in range(tokens))
    signed = SubhashScheme(SubhashSettings()).sign([page(0, "", body)])
    assert signed.status[0] == status
    assert (signed.fingerprint[0] != 0) == (status is SignatureStatus.FINGERPRINTED)


@pytest.mark.parametrize("k", range(11))
def test_sub_hashes_are_k_and_1_blocks_whose_lengths_differ_by_one_bit_at_most(k: int) -> None:
    masks = sub_hash_tables(k).masks
    assert len(masks) == k + 1
    assert sum(masks) == 2**64 - 1, "each bit in one block"
    widths = [mask.bit_count() for mask in masks]
    assert max(widths) - min(widths) <= 1
    for mask, width in zip(masks, widths, strict=True):
        assert mask % ((1 << width) - 1) == 0, "bits in a row"
    assert all(one < other for one, other in pairwise(masks))


@pytest.mark.parametrize("k", [0, 1, 5, 10])
def test_exactly_the_pages_within_k_bits_are_copies(k: int) -> None:
    signed = fingerprints(k + 2)(3_000, k)
    verdicts, _ = judge(signed, SubhashScheme(SubhashSettings(k=k)), memory_state(), 65_536, 64)
    found = [original.offset if original else -1 for original in verdicts.originals]
    assert found == originals_of(signed, within(k)).tolist()
    near = verdicts.score[np.array(found) >= 0]
    assert near.min() == pytest.approx(1 - k / 64)


@pytest.mark.parametrize("k", [-1, 11])
def test_a_k_beyond_the_paper_s_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="k"):
        SubhashSettings(k=k)
    with pytest.raises(SettingError, match=rf"scheme\.k must be 0\.\.10, got {k}; the paper found 3 to be best"):
        sub_hash_tables(k)
