"""The scheme `onebit`: one bit of each minimum, the distance that a resemblance allows, and the groups."""

from dataclasses import replace

import numpy as np
import pytest

from spotsieve.state.index import Buckets
from spotsieve.state.log.record import encode
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import OnebitSettings
from spotsieve.stream.base.signature import CandidateColumns, Signatures, SignatureStatus, no_features
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import judge
from spotsieve.stream.judge.candidates import find_candidates
from spotsieve.stream.judge.slots import slots_of
from spotsieve.stream.sign.schemes import Probes
from spotsieve.stream.sign.schemes.minwise import OnebitScheme, pack_bits
from tests.fixtures.pages.spotsieve_pages import PATHS, STORIES, newspaper, page
from tests.reference.acceptance import changed_bits, originals_of, sketches, within_sketch
from tests.reference.grouping import unpack_bits
from tests.reference.minhash import minima_of
from tests.reference.shingles import shingles_of, words_of

BODIES = [newspaper(STORIES[name, 1]) for name in PATHS]


def signed(settings: OnebitSettings, *bodies: str) -> Signatures:
    return OnebitScheme(settings).sign([page(number, "", body) for number, body in enumerate(bodies)])


def compared(bits: np.ndarray[tuple[int, int], np.dtype[np.uint32]]) -> CandidateColumns:
    nothing = np.zeros(len(bits), np.uint32)
    return CandidateColumns(nothing.astype(np.uint64), nothing, pack_bits(bits), *no_features(len(nothing)))


@pytest.mark.parametrize("k", [64, 100])
def test_a_fingerprint_is_the_lowest_bit_of_each_minimum(k: int) -> None:
    found = signed(OnebitSettings(k=k), *BODIES[:6])
    minima = [minima_of(shingles_of(words_of(body.encode(), True), 3, 3), k) for body in BODIES[:6]]
    assert unpack_bits(found.sketch)[:, :k].tolist() == [[least % 2 for least in one] for one in minima]
    assert found.sketch.shape == (6, -(-k // 64))
    assert not unpack_bits(found.sketch)[:, k:].any()


@pytest.mark.parametrize(
    ("k", "r", "r_h"), [(64, 0.9, 3), (100, 0.8, 10), (400, 0.7, 60), (400, 0.9, 20), (1000, 0.5, 250), (64, 1, 0)]
)
def test_the_resemblance_sets_the_distance_and_its_groups_share_all_bits(k: int, r: float, r_h: int) -> None:
    # (64, .9) and (100, .8) are the paper's examples (sec. 3 and 3.2)
    scheme = OnebitScheme(OnebitSettings(k=k, r=r))
    assert scheme.r_h == r_h
    widths = np.diff(scheme.groups)
    assert (scheme.groups[0], scheme.groups[-1], len(widths)) == (0, k, r_h + scheme.c)
    assert (scheme.c == 1) == (r >= 0.8)
    assert widths.max() - widths.min() <= 1


@pytest.mark.parametrize(("k", "r"), [(64, 0.9), (400, 0.9), (1000, 0.95)])
def test_a_pair_is_a_copy_at_the_distance_and_not_one_bit_beyond(k: int, r: float) -> None:
    scheme = OnebitScheme(OnebitSettings(k=k, r=r))
    bits = np.random.default_rng(k).integers(0, 2, (2, k), np.uint32)
    bits[1] = bits[0]
    others = bits.copy()
    others[0, : scheme.r_h] ^= np.uint32(1)
    others[1, : scheme.r_h + 1] ^= np.uint32(1)
    found = scheme.confirm(compared(bits), compared(others))
    assert found.accepted.tolist() == [True, False]
    assert found.score.tolist() == pytest.approx([1 - 2 * scheme.r_h / k, 1 - 2 * (scheme.r_h + 1) / k])


@pytest.mark.parametrize(("k", "r"), [(400, 0.95), (400, 0.8), (400, 1)])
def test_exactly_the_pages_within_the_distance_are_found(k: int, r: float) -> None:
    scheme = OnebitScheme(OnebitSettings(k=k, r=r))
    some = sketches(changed_bits, 7, scheme.r_h + 5)(1_500, scheme.r_h)
    verdicts, _ = judge(some, scheme, memory_state(), 65_536, 65_536)
    found = [original.offset if original else -1 for original in verdicts.originals]
    assert found == originals_of(some, within_sketch(scheme.r_h)).tolist()


def test_below_r_8_strangers_no_longer_hide_copies_at_the_default_limits() -> None:
    # On newsgroups 7 of 76 copies were found at the paper's r = .7, and 5,058 of 5,581 pages were cut
    # (docs/measured/papers.md).
    scheme, limits = OnebitScheme(OnebitSettings(r=0.7)), IndexSettings()
    some = sketches(changed_bits, 7, scheme.r_h)(1_200, 3)
    expected = originals_of(some, within_sketch(scheme.r_h)).tolist()
    for c, is_whole in ((0, True), (1, False)):
        one = OnebitScheme(OnebitSettings(r=0.7, c=c))
        verdicts, _ = judge(some, one, memory_state(), limits.bucket_cap, limits.candidate_limit)
        found = [original.offset if original else -1 for original in verdicts.originals]
        assert (found == expected) == is_whole
        assert verdicts.cut.any() != is_whole
    # The same, with the pages in the state and not in one record.
    state = memory_state()
    engine = Engine(scheme, state, limits, bytes(16), "log")
    found = []
    for first in range(0, len(some), 100):
        record = encode(some.part(first, first + 100), bytes(16), 0, bytes(16))
        found += [one.offset if one else -1 for one in engine.apply(record, state.position).verdicts.originals]
    assert found == expected


def test_a_candidate_shares_as_many_groups_as_are_asked_for_and_no_fewer() -> None:
    scheme = OnebitScheme(OnebitSettings(k=400, r=0.7, c=3))
    bits = np.zeros((4, 400), np.uint32)
    for other, shared in ((1, 2), (2, 3), (3, 4)):
        bits[other, scheme.groups[shared:-1]] = 1  # a bit of every group behind the first ones
    probes = scheme.probe(signed_bits(bits))
    keys = [set(probes.keys[probes.bounds[row] + 1 : probes.bounds[row + 1]].tolist()) for row in range(4)]
    assert [len(keys[0] & one) for one in keys[1:]] == [2, 3, 4]
    assert probes.least_shared == 3
    _, slots = slots_of(probes, np.zeros(4, np.uint8))
    met = find_candidates(slots, all_filed(probes), 256, np.uint8(255))
    assert met.number[met.bounds[0] : met.bounds[1]].tolist() == [0, 2, 3]


def signed_bits(bits: np.ndarray[tuple[int, int], np.dtype[np.uint32]]) -> Signatures:
    """Pages of these fingerprints, each with a body of its own."""
    some = sketches(changed_bits, 7, 1)(len(bits), 1)
    status = np.zeros(len(bits), np.uint8)
    digest = np.arange(2 * len(bits), dtype=np.uint64).reshape(-1, 2) + np.uint64(1)
    return replace(some, sketch=pack_bits(bits), status=status, digest=digest)


def all_filed(probes: Probes) -> Buckets:
    """The buckets of these pages, page by page under its number."""
    keys = np.unique(probes.keys)
    page = np.repeat(np.arange(len(probes.bounds) - 1), np.diff(probes.bounds))
    buckets = [np.unique(page[probes.keys == key]) for key in keys]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(one) for one in buckets])])
    numbers = np.concatenate(buckets).astype(np.uint64)
    return Buckets(bounds, numbers, np.zeros(len(numbers), np.uint64))


def test_more_groups_than_bits_are_refused() -> None:
    with pytest.raises(SettingError, match=r"scheme\.c must leave at most 64 groups"):
        OnebitScheme(OnebitSettings(k=64, r=0.5, c=60))


def test_differing_bits_estimate_the_jaccard_of_the_shingles() -> None:
    words = [f"w{number}" for number in range(300)]
    bodies = [" ".join(words), " ".join(words[:240])]
    scheme = OnebitScheme(OnebitSettings(k=1000))
    bits = unpack_bits(signed(OnebitSettings(k=1000), *bodies).sketch)[:, :1000].astype(np.uint32)
    one, other = (set(shingles_of(body.split(), 3, 3)) for body in bodies)
    jaccard = len(one & other) / len(one | other)
    # Eq. 6: the variance is (1 - J^2) / k; three standard errors
    expected = pytest.approx(jaccard, abs=3 * ((1 - jaccard**2) / 1000) ** 0.5)
    assert scheme.confirm(compared(bits[:1]), compared(bits[1:])).score[0] == expected


@pytest.mark.parametrize(
    ("words", "status"), [(9, SignatureStatus.TOO_FEW_FEATURES), (10, SignatureStatus.FINGERPRINTED)]
)
def test_a_page_of_fewer_shingles_than_the_least_is_not_judged(words: int, status: SignatureStatus) -> None:
    assert signed(OnebitSettings(), " ".join(f"word{number}" for number in range(words))).status[0] == status


def test_impossible_parameters_are_refused() -> None:
    for name, value in (("k", 63), ("k", 1001), ("r", 0.4), ("r", 1.1), ("w", 0)):
        with pytest.raises(ValueError, match=name):
            OnebitSettings.model_validate({name: value})
