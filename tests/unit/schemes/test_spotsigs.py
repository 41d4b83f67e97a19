"""The scheme `spotsigs`: partitions, the order of spots, indexed and probed keys; exact against brute force."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.settings.schemes import SpotsigsSettings
from spotsieve.stream.base.signature import (
    MAX_FEATURES,
    CandidateColumns,
    Signatures,
    SignatureStatus,
    candidate_columns,
)
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.judge import judge
from spotsieve.stream.research.evaluation.trial import read_pages
from spotsieve.stream.research.models.term_counter import TermCounter
from spotsieve.stream.sign.features.spots import SpotSettings
from spotsieve.stream.sign.fingerprints.permuted_tables import KEY_BITS, MINIMA_TAG
from spotsieve.stream.sign.schemes import NOT_INDEXED, UNCAPPED, Confirmations
from spotsieve.stream.sign.schemes.spotsigs import SpotsigsScheme, partition_boundaries
from spotsieve.stream.sign.schemes.terms import IdfModel, digest_of, encode_model, terms_of
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.spotsieve_pages import PATHS, STORIES, newspaper, page, portal
from tests.reference.acceptance import multiset_jaccard, originals_of
from tests.reference.imatch import idf_of
from tests.reference.signatures import make_signatures
from tests.reference.spots import chains_of, spot_hash
from tests.reference.text import blocks_of

LIMITS = IndexSettings()
BODIES = [newspaper(STORIES["English", 1] * 2), portal(STORIES["English", 1]), newspaper(STORIES["English", 2])]
SAMPLE = [page(n, "", body) for n, body in enumerate([*BODIES, *(newspaper(STORIES[name, 2]) for name in PATHS)] * 2)]
TAUS = (0.1, 0.3, 0.44, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 1.0)


def scheme_of(folder: Path, sample: list[Page] = SAMPLE, **given: object) -> SpotsigsScheme:
    """Over a model of the sample, all spots of which are in the range."""
    wished = SpotsigsSettings.model_validate({"idf_min": 0, "idf_max": 1} | given)
    terms, counter = terms_of(wished), TermCounter()
    counter.add(*terms.of(sample))
    path = folder / "spots.idf"
    path.write_bytes(encode_model(IdfModel(terms.about, counter.pages, *counter.counted())))
    model = {"idf_model": str(path), "idf_digest": digest_of(path.read_bytes())}
    return SpotsigsScheme(wished.model_copy(update=model))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("model")


def with_spots(*multisets: dict[int, int]) -> Signatures:
    """Pages with these spots, by rank: how many of each."""
    features = [[rank << 16 | turn for rank in sorted(one) for turn in range(one[rank])] for one in multisets]
    signed = make_signatures(len(multisets), seed=1)
    return replace(
        signed,
        digest=np.arange(2 * len(multisets), dtype=np.uint64).reshape(-1, 2),
        status=np.zeros(len(multisets), np.uint8),
        feature_count=np.array(list(map(len, features)), np.uint32),
        features=np.array([feature for one in features for feature in one], np.uint64),
        features_bounds=np.cumsum([0, *map(len, features)]),
    )


def originals(
    scheme: SpotsigsScheme, signed: Signatures, batch: int = 10_000, limits: IndexSettings = LIMITS
) -> list[int]:
    """The place of each page's original, -1 of novel ones."""
    state, found = memory_state(), list[int]()
    for first in range(0, len(signed), batch):
        part = signed.part(first, min(first + batch, len(signed)))
        verdicts, index_update = judge(part, scheme, state, limits.bucket_cap, limits.candidate_limit)
        state.file(index_update, state.position + 1, 0)
        found += [original.offset if original else -1 for original in verdicts.originals]
    return found


def brute_force(scheme: SpotsigsScheme, signed: Signatures) -> list[int]:
    found: list[int] = originals_of(signed, multiset_jaccard(scheme.settings.tau)).tolist()
    return found


class Counting:
    """Counts the pairs whose spots a scheme compares."""

    def __init__(self, scheme: SpotsigsScheme, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pairs, self._confirm = 0, scheme.confirm
        monkeypatch.setattr(scheme, "confirm", self.counted)

    def counted(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        self.pairs += len(pages)
        return self._confirm(pages, others)


# ---- partitions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", TAUS)
def test_partitions_are_those_of_the_papers_recurrence(tau: float) -> None:
    exact, found = Fraction(str(tau)), [1]
    while found[-1] <= 1_000:
        following = found[-1] + 1
        while not following - found[-1] > (1 - exact) * following:
            following += 1
        found.append(following)
    assert partition_boundaries(tau, 1_000).tolist() == found


@pytest.mark.parametrize("tau", TAUS)
def test_lengths_within_tau_lie_in_one_or_two_adjacent_partitions_and_no_others_do(tau: float) -> None:
    exact, bounds = Fraction(str(tau)), partition_boundaries(tau, 400)
    for shorter in range(1, 200):
        for longer in range(shorter, 400):
            apart = np.searchsorted(bounds, longer, "right") - np.searchsorted(bounds, shorter, "right")
            assert apart <= 1 or Fraction(shorter, longer) < exact, "(A): no false negatives"
            assert apart > 0 or Fraction(shorter, longer) >= exact, "(B): no false positives"


def test_every_length_that_a_record_can_hold_has_a_partition() -> None:
    for tau in (0.01, *TAUS):
        bounds = partition_boundaries(tau, MAX_FEATURES)
        assert bounds[0] == 1
        assert bounds[-2] <= MAX_FEATURES < bounds[-1]
        assert (np.diff(bounds) > 0).all()


# ---- signatures -----------------------------------------------------------------------------------------------------


def spots_of(body: str) -> list[int]:
    return [spot_hash(chain) for chain in chains_of(blocks_of(body.encode(), True), SpotSettings())]


def test_features_are_the_numbered_spots_in_the_range_the_rarest_of_the_sample_first(tmp_path: Path) -> None:
    scheme = scheme_of(tmp_path, idf_min=0.2, idf_max=0.85)
    sample = [spots_of(one.body.decode()) for one in SAMPLE]
    idf = idf_of(sample)
    pages_with = Counter(spot for one in sample for spot in set(one))
    rank = {spot: place for place, spot in enumerate(sorted(idf, key=lambda spot: (pages_with[spot], spot)))}
    found = scheme.sign([page(number, "", body) for number, body in enumerate(BODIES)])
    for row, body in enumerate(BODIES):
        kept = Counter(spot for spot in spots_of(body) if 0.2 <= round(idf[spot], 9) <= 0.85)
        expected = sorted(rank[spot] << 16 | turn for spot, count in kept.items() for turn in range(count))
        first, last = found.features_bounds[row : row + 2]
        assert found.features[first:last].tolist() == expected
        assert found.feature_count[row] == len(expected) > 5
        assert max(kept.values()) > 1 or row


def test_a_page_with_fewer_spots_in_the_range_than_the_least_is_not_judged(tmp_path: Path) -> None:
    count = int(scheme_of(tmp_path).sign([SAMPLE[0]]).feature_count[0])
    for least, status in ((count, SignatureStatus.FINGERPRINTED), (count + 1, SignatureStatus.TOO_FEW_FEATURES)):
        found = scheme_of(tmp_path, min_spots=least).sign([SAMPLE[0]])
        assert (found.status[0], len(found.features)) == (
            status,
            count if status == SignatureStatus.FINGERPRINTED else 0,
        )


def test_a_page_with_more_spots_than_a_record_holds_is_compared_by_its_digest(tmp_path: Path) -> None:
    long = page(0, "", "<p>" + "was early seen late in rain " * 70_000)
    scheme = scheme_of(tmp_path, [long, SAMPLE[0]])
    signed = scheme.sign([long, long._replace(offset=1), SAMPLE[0]._replace(offset=2)])
    assert signed.feature_count[0] > MAX_FEATURES
    verdicts, index_update = judge(signed, scheme, memory_state(), LIMITS.bucket_cap, LIMITS.candidate_limit)
    assert verdicts.kind.tolist() == [Kind.UNCHECKED, Kind.DUPLICATE, Kind.NOVEL]
    assert verdicts.reason[:2].tolist() == [Reason.TOO_MANY_FEATURES, Reason.EXACT]
    assert index_update.pages.tolist() == [0, 2]


# ---- Jaccard, keys --------------------------------------------------------------------------------------------------


def test_the_papers_example_is_compared_as_there(folder: Path) -> None:
    # Sec. 4.3.2: d1 and d3 are exactly .8 alike; s3 is the rarest
    scheme = scheme_of(folder, tau=0.8, min_spots=1)
    one, two, three = {3: 4, 5: 5, 7: 4}, {5: 8, 7: 4}, {3: 5, 5: 4, 7: 5}
    signed = with_spots(one, two, three)
    rows = candidate_columns(signed, with_features=True)
    found = scheme.confirm(rows.take(np.array([0, 0])), rows.take(np.array([1, 2])))
    assert found.accepted.tolist() == [False, True]
    assert found.score[1] == 0.8
    assert originals(scheme, signed) == [-1, -1, 0]


@pytest.mark.parametrize(
    ("tau", "shared", "most"), [(0.44, 11, 25), (0.5, 5, 10), (0.7, 7, 10), (0.9, 9, 10), (1.0, 9, 9), (0.1, 1, 10)]
)
def test_a_pair_is_a_copy_at_tau_and_not_one_spot_below(tau: float, shared: int, most: int, folder: Path) -> None:
    scheme = scheme_of(folder, tau=tau)
    whole = dict.fromkeys(range(most), 1)
    alike, less = (dict.fromkeys(range(most - count, most), 1) for count in (shared, shared - 1))
    for pair in ((whole, alike), (alike, whole)):
        assert originals(scheme, with_spots(*pair)) == [-1, 0]
    for pair in ((whole, less), (less, whole)) if less else ():
        assert originals(scheme, with_spots(*pair)) == [-1, -1]


def test_a_page_is_filed_in_its_partition_and_looks_into_adjacent_ones_within_tau(
    folder: Path,
) -> None:
    tau, scheme = 0.8, scheme_of(folder, tau=0.8)
    bounds = scheme.boundaries.tolist()
    for length in (8, 40, 100):
        own = next(place for place, (low, high) in enumerate(pairwise(bounds)) if low <= length < high)
        lengths = [other for other in range(1, 200) if min(length, other) >= tau * max(length, other)]
        within = {next(place for place, high in enumerate(bounds[1:]) if other < high) for other in lengths}
        probes = scheme.probe(with_spots(dict.fromkeys(range(length), 1)))
        spots = probes.keys >> np.uint64(KEY_BITS) == MINIMA_TAG
        assert (~spots).tolist() == [True] + [False] * (len(spots) - 1)
        least = -(-length * 4 // 5)
        assert int((spots & (probes.cap == UNCAPPED)).sum()) == length - least + 1, "no spot more than tau needs"
        assert set(probes.cap[spots].tolist()) == {UNCAPPED, *([NOT_INDEXED] if within - {own} else [])}
        assert own in within
        assert max(within) - min(within) <= 2


# ---- exactness ------------------------------------------------------------------------------------------------------

MULTISETS = st.lists(
    st.dictionaries(st.integers(0, 12), st.integers(1, 3), min_size=1, max_size=12), min_size=2, max_size=30
)


@settings(max_examples=200, deadline=None)
@given(MULTISETS, st.sampled_from(TAUS), st.integers(1, 30), st.integers(0, 6))
def test_whatever_the_pages_and_batches_the_earliest_within_tau_is_found(
    folder: Path, pages: list[dict[int, int]], tau: float, batch: int, c: int
) -> None:
    shortest = min(sum(spots.values()) for spots in pages)
    most = SpotsigsSettings(tau=tau, min_spots=shortest).most_shared
    scheme, signed = scheme_of(folder, tau=tau, min_spots=shortest, c=min(c, most)), with_spots(*pages)
    assert originals(scheme, signed, batch) == brute_force(scheme, signed)


def test_a_page_is_compared_with_more_candidates_than_under_other_schemes(folder: Path) -> None:
    # 400 pages with one of two rare spots each, and a copy of the last one with both
    strangers = [{turn % 2: 1, **{10 + 10 * turn + n: 1 for n in range(9)}} for turn in range(400)]
    scheme, signed = scheme_of(folder, c=1), with_spots(*strangers, {0: 1, **strangers[-1]})
    assert originals(scheme, signed, 100) == [-1] * 400 + [399]
    assert originals(scheme, signed, 100, IndexSettings(candidate_limit=256)) == [-1] * 401


def test_strangers_that_share_a_rare_spot_do_not_use_up_the_candidates_at_a_low_tau(folder: Path) -> None:
    # Every stranger has one of two rare spots, far more than a page may be compared with.
    strangers = [{turn % 2: 1, **{10 + 10 * turn + n: 1 for n in range(9)}} for turn in range(400)]
    copies = with_spots(*strangers, {0: 1, **strangers[-1]})
    one = IndexSettings(candidate_limit=1)
    assert originals(scheme_of(folder, tau=0.44), copies, 100, one) == [-1] * 400 + [399]
    assert originals(scheme_of(folder, tau=0.44, c=1), copies, 100, one) == [-1] * 401
    assert scheme_of(folder, tau=0.44).probe(copies).least_shared == 3
    assert scheme_of(folder, tau=0.6).probe(copies).least_shared == 1, "as before"


@pytest.mark.guarantee(
    "a published scheme finds exactly the pages that its paper calls copies",
    fault="none: spotsigs on the labelled sets with the index's defaults, comparing a tenth of what brute force does",
)
@pytest.mark.parametrize(
    ("name", "idf_max"), mostly_long([("docs", 0.85), ("newsgroups", 0.85), ("news", 0.85), ("news", 1)], 2)
)
def test_the_index_loses_nothing_on_labelled_sets_and_compares_a_tenth_of_all_pairs(
    name: str, idf_max: float, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = list(read_pages(shared_data / name, Settings()))
    scheme = scheme_of(tmp_path, pages, idf_min=0.2, idf_max=idf_max)
    signed = scheme.sign(pages)
    counting = Counting(scheme, monkeypatch)
    found = originals(scheme, signed, 512)
    assert found == brute_force(scheme, signed)
    assert 0 < counting.pairs * 10 <= all_pairs(signed, found)


def all_pairs(signed: Signatures, found: list[int]) -> int:
    """A page and each novel one before it: what brute force compares, of pages that are compared by spots."""
    compared = signed.status == SignatureStatus.FINGERPRINTED
    novel: NDArray[np.int64] = np.cumsum(compared & (np.array(found) < 0))
    return int((novel[compared] - (np.array(found)[compared] < 0)).sum())


# ---- settings -------------------------------------------------------------------------------------------------------


def test_impossible_parameters_and_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"must be at most idf_max, 0\.1, got 0\.2; .* is 0\.2 to 0\.85"):
        scheme_of(tmp_path, idf_min=0.2, idf_max=0.1)
    with pytest.raises(SettingError, match=r"build one: spotsieve model build --scheme spotsigs FILES"):
        SpotsigsScheme(SpotsigsSettings())
    ours = scheme_of(tmp_path).settings
    with pytest.raises(SettingError, match=r"idf_digest must be the digest of .*, got 'none'"):
        SpotsigsScheme(ours.model_copy(update={"idf_digest": ""}))
    with pytest.raises(SettingError, match=r"distance is 2 and not 3; build it with these settings"):
        SpotsigsScheme(ours.model_copy(update={"distance": 3}))
    with pytest.raises(
        SettingError, match=r"scheme\.c must be at most 4: two copies of 5 spots may share no more, got 5"
    ):
        scheme_of(tmp_path, c=5)
    for name, value in (("tau", 0), ("tau", 1.01), ("tau", -1), ("min_spots", 0), ("idf_max", 1.1)):
        with pytest.raises(ValueError, match=name):
            SpotsigsSettings.model_validate({name: value})
