"""The scheme `concept`: what is hashed and what it weighs, vectors, thresholds, rotations; and impossible settings."""

import hashlib
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.papers.rotations import batch_pairs, neighbour_pairs
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.schemes import ConceptSettings
from spotsieve.stream.base.signature import CandidateColumns, SignatureStatus, no_features
from spotsieve.stream.sign.features.spots import DEFAULT_STOP_WORDS
from spotsieve.stream.sign.fingerprints.digests import sha1_shingles
from spotsieve.stream.sign.fingerprints.lsi import cosines, quantise
from spotsieve.stream.sign.fingerprints.simhash import rotation_keys, rotations
from spotsieve.stream.sign.schemes.concept import ConceptScheme, Likeness, pack_sketch, similarities
from spotsieve.stream.sign.schemes.terms import ConceptModel, ConceptTerms, decode_concepts, digest_of
from spotsieve.stream.sign.text.tokens import PageTokens
from tests.fixtures.pages.scheme_settings import model_bytes, settings_named
from tests.fixtures.pages.spotsieve_pages import PATHS, STORIES, newspaper, page
from tests.reference.rotations import pairs_of_neighbours, pairs_that_meet
from tests.reference.shingles import words_of
from tests.reference.spots import token_hash

TEXTS = [STORIES[name, number] for name in PATHS for number in (1, 2, 1)]
STORY_PAGES = [page(number, "", newspaper(text)) for number, text in enumerate(TEXTS)]


def with_model(folder: Path, **given: object) -> ConceptScheme:
    """The scheme over a model of the stories."""
    settings = ConceptSettings.model_validate(given)
    path, content = folder / "model.idf", model_bytes(ConceptTerms(settings), [STORY_PAGES])
    path.write_bytes(content)
    return ConceptScheme(settings.model_copy(update={"idf_model": str(path), "idf_digest": digest_of(content)}))


def obvious_shingles(body: bytes, size: int) -> list[int]:
    """64 bits of the SHA-1 of each run of words that are no stop-words."""
    tokens = [token_hash(word) for word in words_of(body, True) if word not in DEFAULT_STOP_WORDS]
    runs = [tokens[first : first + size] for first in range(len(tokens) - size + 1)]
    return [sha1_64(run) for run in runs]


def sha1_64(tokens: list[int]) -> int:
    return int.from_bytes(hashlib.sha1(b"".join(token.to_bytes(8, "big") for token in tokens)).digest()[:8], "big")


@pytest.mark.parametrize("width", [1, 2, 3, 6, 7, 8, 14, 15, 16])
def test_a_shingle_is_hashed_as_hashlib_does_across_the_ends_of_sha_1_s_blocks(width: int) -> None:
    tokens = np.random.default_rng(width).integers(0, 2**64, 90, np.uint64)
    bounds = np.array([0, 0, width - 1, 30, 30 + width, 90])
    hashes, ends = sha1_shingles(PageTokens(tokens, bounds), width)
    expected = []
    for page_number, (first, last) in enumerate(pairwise(bounds)):
        here = tokens[first:last].tolist()
        expected += [sha1_64(here[place : place + width]) for place in range(len(here) - width + 1)]
        assert ends[page_number + 1] == len(expected)
    assert hashes.tolist() == expected


def test_a_shingle_has_at_least_one_word() -> None:
    with pytest.raises(ValueError, match="at least 1 token, got 0"):
        sha1_shingles(PageTokens(np.zeros(3, np.uint64), np.array([0, 3])), 0)


@pytest.mark.parametrize("size", [1, 3])
def test_a_fingerprint_is_the_sign_of_tf_idf_weighted_bits(size: int, tmp_path: Path) -> None:
    scheme = with_model(tmp_path, shingle_size=size)
    shingles = [obvious_shingles(one.body, size) for one in STORY_PAGES]
    df = Counter(shingle for one in shingles for shingle in set(one))
    new = page(99, "", newspaper([*STORIES["English", 1][:2], "nobody ever wrote quite these eleven words before"]))
    signed = scheme.sign([*STORY_PAGES, new])
    for row, one in enumerate([*shingles, obvious_shingles(new.body, size)]):
        sums = np.zeros(64, np.int64)
        counted = 0
        for shingle in one:
            weight = round(math.log(len(STORY_PAGES) / df.get(shingle, 1)) * 2048)
            counted += weight > 0
            sums += [weight if shingle >> bit & 1 else -weight for bit in range(64)]
        assert signed.feature_count[row] == counted
        assert signed.sketch[row, 0] == sum(1 << bit for bit in range(64) if sums[bit] > 0)
    assert (signed.status == SignatureStatus.FINGERPRINTED).all()


def test_a_vector_is_the_sum_of_the_rows_of_a_page_s_terms_whatever_their_order(tmp_path: Path) -> None:
    scheme = with_model(tmp_path, dimensions=10)
    model = decode_concepts((tmp_path / "model.idf").read_bytes(), "model.idf")
    rows = dict(zip(model.terms.tolist(), model.rows.astype(np.int64), strict=True))
    text = "The council voted on the budget and the budget passed. Nobody knows the word xyzzyx."
    bodies = [f"<p>{text} {' '.join(STORIES['English', 1])}</p>", f"<p>{' '.join(STORIES['English', 1])} {text}</p>"]
    signed = scheme.sign([page(number, "", body) for number, body in enumerate(bodies)])
    tokens = [token_hash(word) for word in words_of(bodies[0].encode(), True) if word not in DEFAULT_STOP_WORDS]
    whole = sum((rows[token] for token in tokens if token in rows), np.zeros(10, np.int64))
    expected = [round(value * 127 / abs(whole).max()) for value in whole]
    assert signed.sketch[:, 1:].copy().view(np.int8)[:, :10].tolist() == [expected, expected]
    assert max(map(abs, expected)) == 127


def test_the_concepts_are_those_of_the_whole_decomposition(tmp_path: Path) -> None:
    with_model(tmp_path, dimensions=5)
    model = decode_concepts((tmp_path / "model.idf").read_bytes(), "model.idf")
    matrix, idf = np.zeros((len(model.terms), len(STORY_PAGES))), np.zeros(len(model.terms))
    place = {term: number for number, term in enumerate(model.terms.tolist())}
    pages = [[token_hash(w) for w in words_of(one.body, True) if w not in DEFAULT_STOP_WORDS] for one in STORY_PAGES]
    df = Counter(term for one in pages for term in set(one))
    assert set(place) == {term for term, count in df.items() if count > 1}
    for column, one in enumerate(pages):
        for term, times in Counter(one).items():
            if term in place:
                idf[place[term]] = math.log(len(pages) / df[term])
                matrix[place[term], column] = times / len(one) * idf[place[term]]
    u = np.linalg.svd(matrix)[0][:, :5] * idf[:, None]
    for concept in range(5):
        ours = model.rows[:, concept].astype(float)
        cosine = ours @ u[:, concept] / np.linalg.norm(ours) / np.linalg.norm(u[:, concept])
        assert abs(cosine) > 0.99  # the randomised method; these pages have concepts of nearly equal weight
    scale = np.abs(model.rows).astype(float).max(axis=0) / np.abs(u).max(axis=0)
    assert scale == pytest.approx(scale[0], rel=0.05)


def test_the_same_pages_give_the_same_bytes_whatever_the_batches() -> None:
    settings = ConceptSettings()
    whole = model_bytes(ConceptTerms(settings), [STORY_PAGES])
    assert whole == model_bytes(ConceptTerms(settings), [STORY_PAGES[:5], STORY_PAGES[5:]])


def test_only_what_is_on_two_pages_is_stored_and_no_more_than_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def model() -> ConceptModel:
        return decode_concepts(model_bytes(ConceptTerms(ConceptSettings()), [STORY_PAGES]), "m")

    shingles = Counter(shingle for one in STORY_PAGES for shingle in set(obvious_shingles(one.body, 3)))
    assert set(model().shingles.tolist()) == {shingle for shingle, df in shingles.items() if df > 1}
    monkeypatch.setattr("spotsieve.stream.research.models.concepts.MOST_SHINGLES", 50)
    monkeypatch.setattr("spotsieve.stream.research.models.concepts.MOST_TERMS", 7)
    monkeypatch.setattr("spotsieve.stream.research.models.concepts.MOST_DECOMPOSED", 10)
    small = model()
    assert (len(small.shingles), small.rows.shape, small.pages) == (50, (7, 200), len(STORY_PAGES))
    most = sorted(shingles.values(), reverse=True)[49]
    assert min(shingles[shingle] for shingle in small.shingles.tolist()) == most
    assert not small.rows[:, 7:].any(), "there are no more concepts than terms"


def test_coordinates_are_to_the_nearest_and_the_greatest_is_127() -> None:
    sums = np.array([[0, 0, 0], [1, -2, 4], [2**53, -(2**52), 2**45], [-1, 0, 0], [254, 1, -3]], np.int64)
    assert quantise(sums).tolist() == [[0, 0, 0], [32, -64, 127], [127, -64, 0], [-127, 0, 0], [127, 1, -2]]


@given(st.integers(0, 2**32 - 1))
def test_a_cosine_of_scaled_vectors_is_near_that_of_the_exact_ones(seed: int) -> None:
    exact = (np.random.default_rng(seed).laplace(0, 10**6, (20, 200))).astype(np.int64)
    found = cosines(quantise(exact[:10]), quantise(exact[10:]))
    sizes = np.linalg.norm(exact.astype(float), axis=1)
    expected = (exact[:10] * exact[10:].astype(float)).sum(axis=1) / sizes[:10] / sizes[10:]
    assert found == pytest.approx(expected, abs=0.01)
    assert cosines(quantise(exact), quantise(3 * exact)).tolist() == [1.0] * 20
    assert cosines(quantise(exact), np.zeros((20, 200), np.int8)).tolist() == [0.0] * 20


def compared(distances: list[int], cosine_of: list[tuple[int, int]]) -> tuple[CandidateColumns, CandidateColumns]:
    """Pairs with this number of differing bits and vectors (1, 0) and (a, b)."""
    fingerprint = np.array([(1 << bits) - 1 for bits in distances], np.uint64)
    vectors = np.zeros((len(distances), 8), np.int8)
    vectors[:, :2] = cosine_of
    first = np.zeros_like(vectors)
    first[:, 0] = 100
    nothing = np.zeros(len(distances), np.uint32)
    return tuple(  # type: ignore[return-value]
        CandidateColumns(nothing.astype(np.uint64), nothing, pack_sketch(*one), *no_features(len(nothing)))
        for one in ((np.zeros_like(fingerprint), first), (fingerprint, vectors))
    )


def test_pairs_are_exact_textual_conceptual_or_none_by_exceeding_each_threshold() -> None:
    scheme = ConceptScheme(settings_named("concept").model_copy(update={"th3": 61, "th4": 0.6}))  # type: ignore[arg-type]
    alike, apart, at_th4, above_th4 = (100, 0), (0, 100), (60, 80), (61, 79)
    pairs = [
        (0, apart, 1.0),
        (2, apart, 1.0),
        (3, apart, 61 / 64),
        (17, apart, 47 / 64),
        (17, alike, 47 / 64),
        (18, apart, None),
        (18, at_th4, None),
        (18, above_th4, 61 / math.hypot(61, 79)),
        (18, alike, 1.0),
        (23, alike, 1.0),
        (24, alike, None),
        (64, alike, None),
        (20, (-100, 0), None),
        (20, (0, 0), None),
    ]
    found = scheme.confirm(*compared([bits for bits, _, _ in pairs], [cosine for _, cosine, _ in pairs]))
    assert found.accepted.tolist() == [score is not None for _, _, score in pairs]
    for score, (_, _, wanted) in zip(found.score.tolist(), pairs, strict=True):
        assert wanted is None or score == pytest.approx(wanted, abs=1e-12)
    assert (found.score >= 0).all()


def test_thresholds_that_do_not_ascend_are_refused_with_values_that_do() -> None:
    for given_, message in (
        ({"th1": 50}, r"scheme\.th1 must be at most th2, 46, got 50; .*th1 = 40, th2 = 46, th3 = 63"),
        ({"th2": 60, "th3": 50}, r"scheme\.th2 must be at most th3, 50, got 60; "),
    ):
        with pytest.raises(SettingError, match=message):
            ConceptScheme(ConceptSettings.model_validate(given_))
    for name, value in (("th2", 64), ("th4", 1.5), ("leading_bits", 0), ("dimensions", 0), ("shingle_size", 17)):
        with pytest.raises(ValueError, match=name):
            ConceptSettings.model_validate({name: value})


def test_a_model_of_other_shingles_or_terms_is_refused_with_the_way_to_build_one(tmp_path: Path) -> None:
    with_model(tmp_path, shingle_size=2)
    path = str(tmp_path / "model.idf")
    with pytest.raises(SettingError, match=r"in .* shingle_size is 2 and not 3; build it with these settings: spotsi"):
        ConceptScheme(ConceptSettings(idf_model=path))
    digest = digest_of(Path(path).read_bytes())
    with pytest.raises(SettingError, match=f"scheme.idf_digest must be the digest of {path}, {digest}, got 'none'; "):
        ConceptScheme(ConceptSettings(idf_model=path, shingle_size=2))
    with pytest.raises(SettingError, match="must name a model of term statistics for the scheme concept; build one"):
        ConceptScheme(ConceptSettings())


def test_rotation_r_turns_left_by_r_bits_and_keys_are_its_leading_bits() -> None:
    fingerprints = np.random.default_rng(3).integers(0, 2**64, 5, np.uint64)
    for row, one in enumerate(fingerprints.tolist()):
        text = f"{one:064b}"
        expected = [int(text[turn:] + text[:turn], 2) for turn in range(64)]
        assert rotations(fingerprints)[row].tolist() == expected
        for bits in (1, 12, 64):
            assert rotation_keys(fingerprints, bits)[row].tolist() == [turned >> 64 - bits for turned in expected]


def clustered(random: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Fingerprints of which many are a few bits from another, and some are equal."""
    found = random.integers(0, 2**64, count, np.uint64)
    for row in np.flatnonzero(random.random(count) < 0.7)[1:]:
        changed = random.choice(64, random.integers(0, 20), replace=False).astype(np.uint64)
        found[row] = found[random.integers(0, row)] ^ np.bitwise_or.reduce(
            np.uint64(1) << changed, initial=np.uint64(0)
        )
    return found


@pytest.mark.parametrize(("window", "leading_bits"), [(1, 0), (3, 0), (1, 8), (40, 12), (2, 64)])
def test_neighbours_are_those_of_the_paper_s_loop(window: int, leading_bits: int) -> None:
    for count in (0, 1, 2, 40):
        fingerprints = clustered(np.random.default_rng(count), count)
        found = [tuple(pair) for pair in neighbour_pairs(fingerprints, window, leading_bits).tolist()]
        assert found == sorted(pairs_of_neighbours(fingerprints.tolist(), window, leading_bits))


@given(st.integers(0, 2**32 - 1), st.integers(8, 20))
def test_with_a_window_as_long_as_the_list_neighbours_are_the_pairs_met_in_the_index(seed: int, b: int) -> None:
    fingerprints = clustered(np.random.default_rng(seed), 30)
    found = {tuple(pair) for pair in neighbour_pairs(fingerprints, 30, b).tolist()}
    assert found == pairs_that_meet(fingerprints.tolist(), b)
    assert {tuple(pair) for pair in neighbour_pairs(fingerprints, 1, b).tolist()} <= found
    keys = rotation_keys(fingerprints, b)
    shared = (keys[:, None] == keys[None]).any(axis=2)
    assert found == {(one, other) for one, other in np.argwhere(shared).tolist() if one < other}


def test_the_batch_form_is_the_paper_s_loop_over_neighbours() -> None:
    random, settings = np.random.default_rng(6), ConceptSettings(th1=38, th2=50, th3=60, th4=0.5)
    fingerprints, vectors = clustered(random, 60), random.integers(-127, 128, (60, 8), np.int8)
    vectors[::2] = vectors[0]
    sketch = pack_sketch(fingerprints, vectors)
    expected = []
    for one, other in sorted(pairs_of_neighbours(fingerprints.tolist(), 2, 0)):
        textual = 64 - int(fingerprints[one] ^ fingerprints[other]).bit_count()
        left, right = vectors[[one, other]].astype(float)
        if textual > 38:
            if textual > 60:
                expected.append((one, other, Likeness.EXACT))
            elif textual > 50:
                expected.append((one, other, Likeness.TEXTUAL))
            elif left @ right / np.linalg.norm(left) / np.linalg.norm(right) > 0.5:
                expected.append((one, other, Likeness.CONCEPTUAL))
    pairs, likeness = batch_pairs(sketch, settings, window=2)
    assert [(*pair, Likeness(kind)) for pair, kind in zip(pairs.tolist(), likeness, strict=True)] == expected
    assert {kind for *_, kind in expected} == {Likeness.EXACT, Likeness.TEXTUAL, Likeness.CONCEPTUAL}


def test_similarities_are_bits_that_agree_and_the_cosine_of_the_vectors() -> None:
    random = np.random.default_rng(4)
    fingerprints, vectors = random.integers(0, 2**64, 6, np.uint64), random.integers(-127, 128, (6, 13), np.int8)
    sketch = pack_sketch(fingerprints, vectors)
    assert sketch.shape == (6, 3)
    textual, conceptual = similarities(sketch[:3], sketch[3:])
    for row in range(3):
        one, other = fingerprints.tolist()[row], fingerprints.tolist()[row + 3]
        assert textual[row] == 64 - (one ^ other).bit_count()
        left, right = vectors[row].astype(float), vectors[row + 3].astype(float)
        assert conceptual[row] == pytest.approx(left @ right / np.linalg.norm(left) / np.linalg.norm(right))
