"""The scheme `minhash`: sketches by the letter of the paper, which functions are looked up, and where R lies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.settings.schemes import MinhashSettings
from spotsieve.stream.base.signature import CandidateColumns, Signatures, SignatureStatus, no_features
from spotsieve.stream.sign.fingerprints.minhash import P, linear_hashes, minimum_hashes
from spotsieve.stream.sign.fingerprints.permuted_tables import KEY_BITS, MINIMA_TAG
from spotsieve.stream.sign.schemes.minwise import MinhashScheme, pack_minima, unpack_minima
from tests.fixtures.pages.spotsieve_pages import PATHS, STORIES, newspaper, page
from tests.reference.minhash import functions, minima_of
from tests.reference.shingles import shingles_of, words_of

BODIES = [newspaper(STORIES[name, 1]) for name in PATHS]
EDGES = [0, 1, P - 1, P, P + 1, 2**32, 2**63, 2**64 - 1, (P << 32) | P]


def signed(settings: MinhashSettings, *bodies: str) -> Signatures:
    return MinhashScheme(settings).sign([page(number, "", body) for number, body in enumerate(bodies)])


def compared(sketch: np.ndarray[tuple[int, int], np.dtype[np.uint64]]) -> CandidateColumns:
    nothing = np.zeros(len(sketch), np.uint32)
    return CandidateColumns(nothing.astype(np.uint64), nothing, sketch, *no_features(len(nothing)))


def test_the_functions_are_those_of_the_reference_with_a_and_b_in_1_to_p() -> None:
    found = linear_hashes(255)
    assert list(zip(found.A.tolist(), found.B.tolist(), strict=True)) == functions(255)
    assert P == 2**32 - 1
    for drawn in (found.A, found.B):
        assert 1 <= drawn.min() <= drawn.max() <= P


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.one_of(st.sampled_from(EDGES), st.integers(0, 2**64 - 1)), max_size=30), max_size=4),
    st.integers(1, 40),
)
def test_minima_are_those_of_the_reference(pages: list[list[int]], h: int) -> None:
    bounds = np.cumsum([0, *map(len, pages)])
    shingles = np.array([shingle for shingles in pages for shingle in shingles], np.uint64)
    assert minimum_hashes(shingles, bounds, linear_hashes(h)).tolist() == [minima_of(one, h) for one in pages]


@pytest.mark.parametrize(("w", "h"), [(5, 84), (8, 84), (10, 7)])
def test_a_sketch_is_the_least_value_of_each_function_over_the_page_s_shingles(w: int, h: int) -> None:
    found = signed(MinhashSettings(w=w, h=h), *BODIES)
    shingles = [shingles_of(words_of(body.encode(), True), w, w) for body in BODIES]
    assert unpack_minima(found.sketch)[:, :h].tolist() == [minima_of(one, h) for one in shingles]
    assert found.feature_count.tolist() == [len(one) for one in shingles]


@pytest.mark.parametrize("h", [1, 2, 7, 84])
def test_two_minima_share_a_word_and_come_out_as_they_went_in(h: int) -> None:
    minima = np.random.default_rng(h).integers(0, 2**32, (5, h), np.uint32)
    packed = pack_minima(minima)
    assert packed.shape == (5, (h + 1) // 2)
    assert unpack_minima(packed)[:, :h].tolist() == minima.tolist()
    assert not unpack_minima(packed)[:, h:].any()


@pytest.mark.parametrize(
    ("h", "resemblance", "least"),
    [(84, 0.5, 42), (84, 0.51, 43), (84, 1.0, 84), (100, 0.29, 29), (10, 0.7, 7), (84, 0.001, 1), (1, 0.2, 1)],
)
def test_a_pair_is_a_copy_at_the_resemblance_and_not_one_minimum_below(h: int, resemblance: float, least: int) -> None:
    scheme = MinhashScheme(MinhashSettings(h=h, resemblance=resemblance))
    minima = np.random.default_rng(h).integers(0, 2**32, (1, h), np.uint32)
    others = np.repeat(minima, 2, axis=0)
    others[0, least:] += np.uint32(1)
    others[1, least - 1 :] += np.uint32(1)
    found = scheme.confirm(compared(pack_minima(np.repeat(minima, 2, axis=0))), compared(pack_minima(others)))
    assert found.accepted.tolist() == [True, False]
    assert found.score.tolist() == pytest.approx([least / h, (least - 1) / h])


def test_a_page_is_looked_up_under_as_many_functions_as_copies_cannot_all_differ_in() -> None:
    probes = MinhashScheme(MinhashSettings()).probe(signed(MinhashSettings(), BODIES[0]))
    assert np.count_nonzero(probes.keys >> np.uint64(KEY_BITS) == MINIMA_TAG) == 84 - 42 + 1
    minima = unpack_minima(signed(MinhashSettings(), BODIES[0]).sketch)[0, :43].tolist()
    assert probes.keys[1:].tolist() == [MINIMA_TAG << 56 | slot << 48 | least for slot, least in enumerate(minima)]


def test_equal_minima_estimate_the_jaccard_of_the_shingles() -> None:
    words = [f"w{number}" for number in range(300)]
    bodies = [" ".join(words), " ".join(words[:200])]
    found = signed(MinhashSettings(h=255), *bodies)
    one, other = (set(shingles_of(body.split(), 5, 5)) for body in bodies)
    jaccard = len(one & other) / len(one | other)
    score = MinhashScheme(MinhashSettings(h=255)).confirm(compared(found.sketch[:1]), compared(found.sketch[1:])).score
    # three standard errors: sqrt(J (1 - J) / h)
    assert score[0] == pytest.approx(jaccard, abs=3 * (jaccard * (1 - jaccard) / 255) ** 0.5)


@pytest.mark.parametrize(
    ("tokens", "w", "status"),
    [
        (14, 5, SignatureStatus.TOO_FEW_FEATURES),
        (15, 5, SignatureStatus.FINGERPRINTED),
        (15, 16, SignatureStatus.TOO_FEW_FEATURES),
        (16, 16, SignatureStatus.FINGERPRINTED),
    ],
)
def test_a_page_of_fewer_than_15_tokens_or_w_is_not_judged(tokens: int, w: int, status: SignatureStatus) -> None:
    body = " ".join(f"word{number}" for number in range(tokens))
    assert signed(MinhashSettings(w=w), body).status[0] == status


def test_impossible_parameters_are_refused() -> None:
    for name, value in (("resemblance", 0), ("resemblance", 1.1), ("h", 0), ("h", 256), ("w", 0)):
        with pytest.raises(ValueError, match=name):
            MinhashSettings.model_validate({name: value})
