"""The scheme `adaptive-shingles`: samples by size, resemblance at the coarser ratio, and prefixes that lose nothing."""

import hashlib
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import AdaptiveShinglesSettings
from spotsieve.stream.base.signature import CandidateColumns, Signatures, SignatureStatus
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.cli import main
from spotsieve.stream.judge import Policy, judge
from spotsieve.stream.sign.fingerprints.permuted_tables import DIGEST_TAG, KEY_BITS, MINIMA_TAG, TEXT_TAG
from spotsieve.stream.sign.schemes.adaptive_shingles import AdaptiveShinglesScheme, prefix_lengths
from tests.fixtures.pages.spotsieve_pages import PATHS, STORIES, newspaper, page
from tests.reference.sampling import ratio_of, resemblance, reverse, sampled
from tests.reference.shingles import shingles_of, words_of
from tests.reference.signatures import make_signatures
from tests.reference.spots import token_hash

BODIES = [newspaper(STORIES[name, 1]) for name in PATHS]
FINE = AdaptiveShinglesSettings(sizes=(100, 200), ratios=(1, 2, 4), min_shingles=1)
ABOVE = [math.nextafter(share, 1) for share in (1 / 3, 3 / 7, 29 / 41)]
rows = st.sets(st.integers(0, 2**64 - 1).map(lambda word: word & ~7 | word % 11 % 8), max_size=30)
ratios = st.sampled_from([1, 2, 4, 8])


def text(count: int, seed: int = 1) -> list[str]:
    return [f"w{number}" for number in random.Random(seed).sample(range(10_000), count)]


def pages_of(*bodies: str | list[str]) -> list[Page]:
    whole = (body if isinstance(body, str) else f"<p>{' '.join(body)}</p>" for body in bodies)
    return [page(number, "", body) for number, body in enumerate(whole)]


def judged(scheme: AdaptiveShinglesScheme, *bodies: str | list[str]) -> list[tuple[Kind, Reason, int | None, float]]:
    """Each page a record."""
    state, found = memory_state(), []
    for one in pages_of(*bodies):
        verdicts, index_update = judge(scheme.sign([one]), scheme, state, 256, 256)
        state.file(index_update, state.position + 1, 0)
        (original,) = verdicts.originals
        found.append(
            (
                Kind(verdicts.kind[0]),
                Reason(verdicts.reason[0]),
                original.offset if original else None,
                verdicts.score[0],
            )
        )
    return found


def as_sample(shingles: set[int], n: int) -> list[int]:
    """The sample at 1/n as a signature holds it."""
    return sorted(map(reverse, sampled(shingles, n, 65_535)[0]))


def compared(features: list[int], n: int) -> CandidateColumns:
    nothing = np.zeros(1, np.uint32)
    whole = np.array(features, np.uint64)
    return CandidateColumns(
        nothing.astype(np.uint64), nothing, np.array([[n]], np.uint64), whole, np.array([[0, len(whole)]])
    )


def signed_as(features: list[int], n: int) -> Signatures:
    """A page with this sample."""
    one = make_signatures(1, 1)
    return replace(
        one,
        status=np.zeros(1, np.uint8),
        features=np.array(features, np.uint64),
        features_bounds=np.array([0, len(features)]),
        sketch=np.array([[n]], np.uint64),
    )


def test_a_signature_holds_the_shingles_that_its_size_has_sampled() -> None:
    scheme = AdaptiveShinglesScheme(FINE)
    found = scheme.sign(pages_of(*BODIES))
    words = [words_of(body.encode(), True) for body in BODIES]
    n = [ratio_of(len(one), FINE.sizes, FINE.ratios) for one in words]
    assert set(n) == {1, 2, 4}
    assert found.sketch.tolist() == [[one] for one in n]
    expected = [as_sample(set(shingles_of(one, 5, 5)), ratio) for one, ratio in zip(words, n, strict=True)]
    assert np.split(found.features, found.features_bounds[1:-1])[3].tolist() == expected[3]
    assert found.features.tolist() == [shingle for one in expected for shingle in one]
    assert found.feature_count.tolist() == [len(shingles_of(one, 5, 5)) for one in words]


def test_text_is_digested_by_md5_over_tokens_and_markup_does_not_matter() -> None:
    words = text(300)
    scheme = AdaptiveShinglesScheme(FINE)
    digest = hashlib.md5(b"".join(token_hash(word).to_bytes(8, "little") for word in words)).digest()
    found = scheme.sign(pages_of(words))
    assert found.text_digest.astype("<u8").tobytes() == digest
    again = judged(scheme, words, f"<h1>{words[0]}</h1><b>{' '.join(words[1:])}</b>")[1]
    assert again == (Kind.DUPLICATE, Reason.SAME_TEXT, 0, 1.0)


@settings(max_examples=200, deadline=None)
@given(rows, rows, ratios, ratios, st.sampled_from([0.2, 0.5, 0.6, 0.9, 1.0]))
def test_two_samples_are_compared_at_the_coarser_of_their_ratios(
    one: set[int], more: set[int], n: int, m: int, threshold: float
) -> None:
    other = one ^ set(sorted(more)[: len(more) // 3])
    scheme = AdaptiveShinglesScheme(FINE.model_copy(update={"resemblance": threshold}))
    found = scheme.confirm(compared(as_sample(one, n), n), compared(as_sample(other, m), m))
    expected = resemblance(one, n, other, m)
    assert found.score.tolist() == [expected]
    assert found.accepted.tolist() == [expected >= threshold]


@pytest.mark.guarantee(
    "a published scheme finds exactly the pages that its paper calls copies",
    fault="pages whose shingles are sampled at different ratios (adaptive-shingles)",
)
@settings(max_examples=200, deadline=None)
@given(rows, rows, ratios, ratios, st.sampled_from([0.2, 0.5, 0.6, 0.9, 1.0]))
def test_samples_that_resemble_each_other_share_a_key_whatever_their_ratios(
    one: set[int], more: set[int], n: int, m: int, threshold: float
) -> None:
    other = one ^ set(sorted(more)[: len(more) // 3])
    scheme = AdaptiveShinglesScheme(FINE.model_copy(update={"resemblance": threshold}))
    keys = [set(candidate_keys(scheme, as_sample(*sample))) for sample in ((one, n), (other, m))]
    assert keys[0] & keys[1] or resemblance(one, n, other, m) < threshold


def candidate_keys(scheme: AdaptiveShinglesScheme, features: list[int]) -> list[int]:
    probes = scheme.probe(signed_as(features, 1))
    assert (probes.keys[:2] >> np.uint64(KEY_BITS)).tolist() == [DIGEST_TAG, TEXT_TAG]
    assert probes.decisive.tolist() == [True, True, *[False] * (len(probes.keys) - 2)]
    assert set((probes.keys[2:] >> np.uint64(KEY_BITS)).tolist()) <= {MINIMA_TAG}
    return [int(key) for key in probes.keys[2:]]


# The last three are the next numbers above 1/3, 3/7 and 29/41: a product rounded down would ask for too few
@pytest.mark.parametrize("threshold", [0.01, 0.29, 0.3, 0.5, 0.57, 0.6, 0.7, 0.85, 0.9, 0.999, 1.0, *ABOVE])
def test_a_prefix_is_all_but_one_less_than_the_fewest_shared_shingles(threshold: float) -> None:
    sizes = np.arange(400)
    expected = [0, *(size - min(c for c in range(1, size + 1) if c / size >= threshold) + 1 for size in range(1, 400))]
    found = prefix_lengths(sizes, threshold)
    assert found.tolist() == expected
    assert (np.diff(found) >= 0).all(), "or a coarser sample's prefix would not be within the finer one's"


def test_keys_are_the_first_of_the_sample_and_shingles_of_equal_key_bits_share_one() -> None:
    scheme = AdaptiveShinglesScheme(FINE)
    assert candidate_keys(scheme, [number << 8 for number in range(1, 11)]) == [
        MINIMA_TAG << KEY_BITS | number for number in range(1, 6)
    ]
    assert candidate_keys(scheme, [1 << 8, 1 << 8 | 5, 2 << 8, 3 << 8, 4 << 8]) == [
        MINIMA_TAG << KEY_BITS | 1,
        MINIMA_TAG << KEY_BITS | 2,
    ]


@pytest.mark.parametrize(("words", "more"), [(95, 10), (195, 10), (98, 150)])
def test_pages_on_both_sides_of_a_size_are_compared(words: int, more: int) -> None:
    scheme = AdaptiveShinglesScheme(FINE.model_copy(update={"resemblance": 0.3}))
    whole = text(words + more)
    n = scheme.sign(pages_of(whole[:words], whole)).sketch[:, 0].tolist()
    assert n[0] < n[1]
    _, (kind, reason, original, score) = judged(scheme, whole[:words], whole)
    assert (kind, reason, original) == (Kind.DUPLICATE, Reason.NEAR, 0)
    one, other = (set(shingles_of(part, 5, 5)) for part in (whole[:words], whole))
    assert score == resemblance(one, n[0], other, n[1])
    assert judged(scheme, whole, whole[:words])[1] == (kind, reason, original, score)


@pytest.mark.parametrize("words", [95, 195])
def test_the_longer_page_is_kept_though_it_has_fewer_sampled_shingles(words: int) -> None:
    scheme = AdaptiveShinglesScheme(FINE.model_copy(update={"resemblance": 0.3}))
    whole = text(words + 40)
    found = scheme.sign(pages_of(whole[:words], whole))
    sampled = np.diff(found.features_bounds)
    assert sampled[0] > sampled[1]
    verdicts, _ = judge(found, scheme, memory_state(), 256, 256, Policy(1.2))
    assert verdicts.reason[1] == Reason.LONGER
    verdicts, _ = judge(scheme.sign(pages_of(whole, whole[:words])), scheme, memory_state(), 256, 256, Policy(1.2))
    assert verdicts.reason[1] == Reason.NEAR


def test_too_many_sampled_shingles_halve_a_page_s_ratio_and_its_copy_is_found() -> None:
    scheme = AdaptiveShinglesScheme(FINE.model_copy(update={"most_shingles": 100}))
    whole = text(2_000)
    found = scheme.sign(pages_of(whole, whole[:1_000]))
    assert np.diff(found.features_bounds).max() <= 100
    assert found.sketch[:, 0].tolist() == [32, 16]
    cut, half = judged(scheme, whole, whole[:1_900], whole[:1_000])[1:]
    assert cut[:3] == (Kind.DUPLICATE, Reason.NEAR, 0)
    assert cut[3] == pytest.approx(0.95, abs=0.1)
    assert half[:3] == (Kind.NOVEL, Reason.NO_MATCH, None)


def test_a_page_of_too_few_sampled_shingles_is_compared_by_its_body_alone() -> None:
    scheme = AdaptiveShinglesScheme(FINE.model_copy(update={"min_shingles": 8}))
    short, enough = text(11), text(12)
    found = scheme.sign(pages_of(short, enough, "word", ""))
    assert found.status.tolist() == [
        SignatureStatus.TOO_FEW_FEATURES,
        SignatureStatus.FINGERPRINTED,
        SignatureStatus.TOO_FEW_FEATURES,
        SignatureStatus.EMPTY,
    ]
    assert found.text_digest.any(axis=1).tolist() == [False, True, False, False]
    assert np.diff(found.features_bounds).tolist() == [0, 8, 0, 0]
    verdicts = judged(scheme, short, f"<b>{' '.join(short)}</b>", short)
    assert [verdict[:3] for verdict in verdicts] == [
        (Kind.UNCHECKED, Reason.TOO_FEW_FEATURES, None),
        (Kind.UNCHECKED, Reason.TOO_FEW_FEATURES, None),
        (Kind.DUPLICATE, Reason.EXACT, 0),
    ]


def test_a_copy_is_found_behind_all_the_pages_of_its_template_that_come_first() -> None:
    scheme, state, template = AdaptiveShinglesScheme(AdaptiveShinglesSettings()), memory_state(), text(300)
    pages = pages_of(*(template + text(300, seed) for seed in range(2, 402)), [*template, *text(300, 401)[:-9]])
    verdicts, _ = judge(scheme.sign(pages), scheme, state, 256, scheme.candidate_limit)
    assert verdicts.kind.tolist() == [Kind.NOVEL] * 400 + [Kind.DUPLICATE]
    assert verdicts.candidates[-1] > 256
    (original,) = verdicts.originals[-1:]
    assert original is not None
    assert original.offset == 399
    verdicts, _ = judge(scheme.sign(pages), scheme, state, 256, 256)
    assert verdicts.kind[-1] == Kind.NOVEL


@pytest.mark.parametrize(
    ("given_settings", "message"),
    [
        ("sizes = [500, 400]", "scheme.sizes must ascend within 1..1000000000, got [500, 400]; such as 500, 3000"),
        (
            "ratios = [8, 12]",
            "scheme.ratios must be powers of two in 1..1024, so that a sample is part of every larger",
        ),
        ("ratios = [8]", "scheme.ratios must be one for each class of pages, 2 for sizes = [500], got [8]"),
        ('ratios = ["1/8", 16]', "scheme.ratios.0 should be a valid integer"),
        ("resemblance = 0", "scheme.resemblance should be greater than 0, got 0"),
        ("most_shingles = 1", "scheme.most_shingles should be greater than or equal to 16, got 1"),
        ("min_shingles = 2000", "scheme.min_shingles must be at most most_shingles = 1024, got 2000"),
    ],
)
def test_impossible_settings_are_one_line_with_the_rule(
    given_settings: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'[scheme]\nname = "adaptive-shingles"\n{given_settings}\n')
    assert main(["config", "check", "-c", str(path)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
