"""The scheme `spotsigs-lsh`: numbered spots, their minima, the bands, and where tau lies."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.schemes import SpotsigsLshSettings
from spotsieve.stream.base.signature import CandidateColumns, Signatures, SignatureStatus, no_features
from spotsieve.stream.research.models.term_counter import TermCounter
from spotsieve.stream.sign.features.spots import SpotSettings
from spotsieve.stream.sign.schemes.minwise import pack_minima, unpack_minima
from spotsieve.stream.sign.schemes.spotsigs import SpotsigsLshScheme, number_equal
from spotsieve.stream.sign.schemes.terms import IdfModel, digest_of, encode_model, terms_of
from tests.fixtures.pages.spotsieve_pages import PATHS, STORIES, newspaper, page, portal
from tests.reference.imatch import idf_of
from tests.reference.minhash import MASK, minima_of
from tests.reference.spots import chains_of, spot_hash
from tests.reference.text import blocks_of

BODIES = [newspaper(STORIES["English", 1] * 2), portal(STORIES["English", 1]), newspaper(STORIES["English", 2])]
SAMPLE = [page(n, "", body) for n, body in enumerate([*BODIES, *(newspaper(STORIES[name, 2]) for name in PATHS)] * 2)]
GOLDEN = 0x9E3779B97F4A7C15


def scheme_of(folder: Path, **given: object) -> SpotsigsLshScheme:
    """Over a model of the sample, all spots of which are in the range."""
    wished = SpotsigsLshSettings.model_validate({"idf_min": 0, "idf_max": 1} | given)
    terms, counter = terms_of(wished), TermCounter()
    counter.add(*terms.of(SAMPLE))
    path = folder / "spots.idf"
    path.write_bytes(encode_model(IdfModel(terms.about, counter.pages, *counter.counted())))
    model = {"idf_model": str(path), "idf_digest": digest_of(path.read_bytes())}
    return SpotsigsLshScheme(wished.model_copy(update=model))


def spots_of(body: str) -> list[int]:
    return [spot_hash(chain) for chain in chains_of(blocks_of(body.encode(), True), SpotSettings())]


def obvious_numbers(spots: list[int]) -> list[int]:
    """Each spot with how many equal ones were before it, mixed."""
    seen: Counter[int] = Counter()
    numbered = []
    for spot in spots:
        mixed = (spot + seen[spot] * GOLDEN + GOLDEN) & MASK
        mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & MASK
        numbered.append(mixed ^ mixed >> 31)
        seen[spot] += 1
    return numbered


def compared(minima: np.ndarray[tuple[int, int], np.dtype[np.uint32]]) -> CandidateColumns:
    nothing = np.zeros(len(minima), np.uint32)
    return CandidateColumns(nothing.astype(np.uint64), nothing, pack_minima(minima), *no_features(len(nothing)))


def signed(scheme: SpotsigsLshScheme, *bodies: str) -> Signatures:
    return scheme.sign([page(number, "", body) for number, body in enumerate(bodies)])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from([0, 1, 5, 2**64 - 1]), max_size=12), max_size=5))
def test_equal_spots_of_a_page_are_numbered(pages: list[list[int]]) -> None:
    bounds = np.cumsum([0, *map(len, pages)])
    found = number_equal(np.array([spot for one in pages for spot in one], np.uint64), bounds)
    assert len(found) == bounds[-1]
    for place, one in enumerate(pages):
        assert sorted(found[bounds[place] : bounds[place + 1]].tolist()) == sorted(obvious_numbers(one))


def test_a_sketch_holds_the_minima_over_the_numbered_spots_in_the_range(tmp_path: Path) -> None:
    scheme = scheme_of(tmp_path, idf_min=0.2, idf_max=0.85, k=3, l=5)
    idf = idf_of([spots_of(one.body.decode()) for one in SAMPLE])
    found = signed(scheme, *BODIES)
    for row, body in enumerate(BODIES):
        kept = [spot for spot in spots_of(body) if 0.2 <= round(idf[spot], 9) <= 0.85]
        assert found.feature_count[row] == len(kept) > 5
        assert unpack_minima(found.sketch)[row, :15].tolist() == minima_of(obvious_numbers(kept), 15)


def test_equal_minima_estimate_the_jaccard_of_the_multisets(tmp_path: Path) -> None:
    scheme = scheme_of(tmp_path, k=6, l=85)
    found = signed(scheme, *BODIES[:2])
    one, other = (Counter(spots_of(body)) for body in BODIES[:2])
    jaccard = (one & other).total() / (one | other).total()
    assert 0.3 < jaccard < 0.7, "each spot of the story twice and once"
    minima = unpack_minima(found.sketch)
    score = scheme.confirm(compared(minima[:1]), compared(minima[1:])).score[0]
    assert score == pytest.approx(jaccard, abs=3 * (jaccard * (1 - jaccard) / 510) ** 0.5)


@pytest.mark.parametrize(("tau", "least"), [(0.44, 85), (0.5, 96), (1.0, 192)])
def test_a_pair_is_a_copy_at_tau_and_not_one_minimum_below(tau: float, least: int, tmp_path: Path) -> None:
    scheme = scheme_of(tmp_path, tau=tau)
    minima = np.random.default_rng(least).integers(0, 2**32, (1, 192), np.uint32)
    others = np.repeat(minima, 2, axis=0)
    others[0, least:] += np.uint32(1)
    others[1, least - 1 :] += np.uint32(1)
    found = scheme.confirm(compared(np.repeat(minima, 2, axis=0)), compared(others))
    assert found.accepted.tolist() == [True, False]
    assert found.score.tolist() == pytest.approx([least / 192, (least - 1) / 192])


def test_pages_meet_under_a_band_that_is_whole_and_under_no_other(tmp_path: Path) -> None:
    scheme = scheme_of(tmp_path)
    one = signed(scheme, BODIES[0])
    minima = unpack_minima(one.sketch)
    keys = scheme.probe(one).keys.tolist()
    assert len(keys) == 1 + 32
    for band in (0, 17, 31):
        changed = minima + np.uint32(1)
        changed[0, 6 * band : 6 * band + 6] = minima[0, 6 * band : 6 * band + 6]
        for missing, shared in ((False, 1), (True, 0)):
            changed[0, 6 * band + 5] += np.uint32(missing)
            some = scheme.probe(replace(one, sketch=pack_minima(changed))).keys.tolist()
            assert len(set(keys[1:]) & set(some[1:])) == shared


def test_a_page_with_fewer_spots_in_the_range_than_the_least_is_not_judged(tmp_path: Path) -> None:
    count = int(signed(scheme_of(tmp_path), BODIES[0]).feature_count[0])
    for least, status in ((count, SignatureStatus.FINGERPRINTED), (count + 1, SignatureStatus.TOO_FEW_FEATURES)):
        assert signed(scheme_of(tmp_path, min_spots=least), BODIES[0]).status[0] == status


def test_impossible_parameters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"must be at most 510, got 512; the paper took 6 \* 32"):
        scheme_of(tmp_path, k=16, l=32)
    with pytest.raises(SettingError, match=r"must be at most idf_max, 0\.1, got 0\.2; .* is 0\.2 to 0\.85"):
        scheme_of(tmp_path, idf_min=0.2, idf_max=0.1)
    with pytest.raises(SettingError, match=r"build one: spotsieve model build --scheme spotsigs-lsh FILES"):
        SpotsigsLshScheme(SpotsigsLshSettings())
    for name, value in (("tau", 0), ("tau", 1.1), ("k", 0), ("l", 256)):
        with pytest.raises(ValueError, match=name):
            SpotsigsLshSettings.model_validate({name: value})
