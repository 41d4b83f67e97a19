"""The schemes `imatch` and `imatch-s`: terms, their range, the digest; and a model that is missing or another one."""

import functools
from pathlib import Path

import numpy as np
import pytest

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import ImatchSettings, ImatchSSettings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.research.models.term_counter import TermCounter
from spotsieve.stream.sign.features.spots import DEFAULT_STOP_WORDS, SpotSettings
from spotsieve.stream.sign.schemes.spotsigs import ImatchScheme
from spotsieve.stream.sign.schemes.terms import (
    IdfModel,
    decode_model,
    digest_of,
    encode_model,
    keep_lexicon_terms,
    terms_of,
)
from tests.fixtures.pages.spotsieve_pages import PATHS, STORIES, newspaper, page, portal
from tests.reference.imatch import digest_words, idf_of
from tests.reference.shingles import words_of
from tests.reference.spots import chains_of, spot_hash, token_hash
from tests.reference.text import blocks_of

TEXTS = [STORIES[name, number] for name in PATHS for number in (1, 2)]
PAGES = [page(n, "", (newspaper, portal)[n % 2](text)) for n, text in enumerate(TEXTS * 4)]
Settings = type[ImatchSettings] | type[ImatchSSettings]
both = pytest.mark.parametrize("kind", [ImatchSettings, ImatchSSettings])


def with_model(folder: Path, settings: ImatchSettings | ImatchSSettings, pages: list[Page]) -> ImatchScheme:
    """The scheme over a model of these pages."""
    path, model = folder / "model.idf", model_of(settings, pages)
    path.write_bytes(encode_model(model))
    given = {"idf_model": str(path), "idf_digest": digest_of(path.read_bytes())}
    return ImatchScheme(settings.model_copy(update=given))


def model_of(settings: ImatchSettings | ImatchSSettings, pages: list[Page]) -> IdfModel:
    terms, counter = terms_of(settings), TermCounter()
    for first in range(0, len(pages), 7):
        counter.add(*terms.of(pages[first : first + 7]))
    return IdfModel(terms.about, counter.pages, *counter.counted())


@functools.cache
def obvious_terms_of_pages(kind: Settings) -> list[list[int]]:
    return [obvious_terms(kind(), one) for one in PAGES]


def obvious_terms(settings: ImatchSettings | ImatchSSettings, one: Page) -> list[int]:
    if isinstance(settings, ImatchSettings):
        stop_words = settings.stop_words or DEFAULT_STOP_WORDS
        return [token_hash(word) for word in words_of(one.body, True) if word not in stop_words]
    return [spot_hash(chain) for chain in chains_of(blocks_of(one.body, True), SpotSettings())]


@both
def test_the_idf_of_a_term_is_that_of_the_paper(kind: Settings) -> None:
    model, expected = model_of(kind(), PAGES), idf_of(obvious_terms_of_pages(kind))
    assert model.pages == len(PAGES)
    assert model.terms.tolist() == sorted(expected)
    assert model.idf().tolist() == pytest.approx([expected[term] for term in sorted(expected)], abs=1e-9)


@both
@pytest.mark.parametrize(("least", "most"), [(0.4, 0.75), (0.2, 0.85), (0.0, 1.0)])
def test_a_digest_is_the_sha_1_of_the_terms_in_the_range_each_once(
    kind: Settings, least: float, most: float, tmp_path: Path
) -> None:
    settings = kind(idf_min=least, idf_max=most)
    scheme, idf = with_model(tmp_path, settings, PAGES), idf_of(obvious_terms_of_pages(kind))
    signed = scheme.sign(PAGES)
    expected = [digest_words(terms, idf, least, most) for terms in obvious_terms_of_pages(kind)]
    assert signed.feature_count.tolist() == [count for count, _, _ in expected]
    judged = [count >= 5 for count, _, _ in expected]
    assert any(judged)
    assert (signed.status == SignatureStatus.FINGERPRINTED).tolist() == judged
    for row in np.flatnonzero(judged):
        assert tuple(signed.text_digest[row].tolist()) == expected[row][1:]
    assert not signed.text_digest[~np.array(judged)].any()


def test_moved_and_repeated_text_and_terms_that_the_sample_has_not_change_no_digest(tmp_path: Path) -> None:
    scheme = with_model(tmp_path, ImatchSettings(idf_min=0, idf_max=1), PAGES)
    text = TEXTS[0]
    bodies = [
        newspaper(text),
        newspaper([*text[::-1], text[0]]),
        newspaper([*text, "xylophonist"]),
        newspaper(text[1:]),
    ]
    digests = [tuple(row) for row in scheme.sign([page(n, "", body) for n, body in enumerate(bodies)]).text_digest]
    assert digests[0] == digests[1] == digests[2] != digests[3]


@both
def test_a_page_with_fewer_terms_in_the_range_than_the_least_is_not_judged(kind: Settings, tmp_path: Path) -> None:
    count = int(with_model(tmp_path, kind(), PAGES).sign(PAGES[:1]).feature_count[0])
    assert count > 1
    for least, status in ((count, SignatureStatus.FINGERPRINTED), (count + 1, SignatureStatus.TOO_FEW_FEATURES)):
        assert with_model(tmp_path, kind(min_terms=least), PAGES).sign(PAGES[:1]).status[0] == status


def test_every_changed_byte_of_a_model_and_every_cut_is_noticed() -> None:
    content = encode_model(IdfModel("{}", 3, np.array([4], np.uint64), np.array([1], np.uint32)))
    damaged = [content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] for place in range(len(content))]
    for one in [*damaged, *(content[:size] for size in range(len(content)))]:
        with pytest.raises(SettingError, match=r"m\.idf must be a model that `spotsieve model build` wrote"):
            decode_model(one, "m.idf")


def test_terms_of_pages_are_cut_to_the_lexicon_page_by_page() -> None:
    hashes, bounds = np.array([1, 5, 5, 9, 2, 5], np.uint64), np.array([0, 3, 3, 6])
    kept, kept_bounds = keep_lexicon_terms(hashes, bounds, np.array([2, 5], np.uint64))
    assert (kept.tolist(), kept_bounds.tolist()) == ([5, 5, 2, 5], [0, 2, 2, 4])
    kept, kept_bounds = keep_lexicon_terms(hashes, bounds, np.empty(0, np.uint64))
    assert (kept.tolist(), kept_bounds.tolist()) == ([], [0, 0, 0, 0])


def test_a_counter_that_merges_often_counts_the_same() -> None:
    random, counter = np.random.default_rng(3), TermCounter()
    pages = [random.integers(0, 300, random.integers(0, 60), np.uint64) for _ in range(200)]
    for first in range(0, 200, 10):
        some = pages[first : first + 10]
        counter.add(np.concatenate(some), np.cumsum([0, *map(len, some)]))
        if first % 30 == 0:
            counter.counted()
    terms, counts = counter.counted()
    expected = {term: sum(term in page.tolist() for page in pages) for term in range(300)}
    assert dict(zip(terms.tolist(), counts.tolist(), strict=True)) == {t: n for t, n in expected.items() if n}
    assert counter.pages == 200


@both
def test_a_model_that_is_missing_or_another_is_refused_with_the_next_step(kind: Settings, tmp_path: Path) -> None:
    name = kind.model_fields["name"].default
    build = f"spotsieve model build --scheme {name} FILES -o MODEL"

    def refusal(**given: object) -> str:
        with pytest.raises(SettingError) as refused:
            ImatchScheme(kind.model_validate(given))
        return str(refused.value)

    assert refusal() == (
        f"scheme.idf_model must name a model of term statistics for the scheme {name}; build one: {build}"
    )
    assert "must name a readable file: No such file" in refusal(idf_model=str(tmp_path / "none"))
    path = tmp_path / "model.idf"
    path.write_bytes(b"no model")
    assert f"{path} must be a model that `spotsieve model build` wrote" in refusal(idf_model=str(path))
    path.write_bytes(encode_model(model_of(kind(), PAGES)))
    digest = digest_of(path.read_bytes())
    for other in ("", "0" * 32):
        message = refusal(idf_model=str(path), idf_digest=other)
        assert message.startswith(
            f"scheme.idf_digest must be the digest of {path}, {digest}, got '{other or 'none'}'; "
        )
    path.write_bytes(encode_model(model_of(kind(stop_words=("the",)), PAGES)))
    message = refusal(idf_model=str(path), idf_digest=digest_of(path.read_bytes()))
    assert f"in {path} stop_words differs; build it with these settings: {build}" in message


def test_a_model_of_tokens_is_none_of_spots_and_one_of_other_spots_is_another(tmp_path: Path) -> None:
    path = tmp_path / "model.idf"
    path.write_bytes(encode_model(model_of(ImatchSettings(), PAGES)))
    with pytest.raises(SettingError, match=r"in .*model\.idf antecedents differs"):
        ImatchScheme(ImatchSSettings(idf_model=str(path)))
    path.write_bytes(encode_model(model_of(ImatchSSettings(distance=3), PAGES)))
    with pytest.raises(SettingError, match=r"in .*model\.idf distance is 3 and not 2; build it with these settings"):
        ImatchScheme(ImatchSSettings(idf_model=str(path)))


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(SettingError, match=r"scheme\.idf_min must be at most idf_max, 0\.3, got 0\.4; the paper's"):
        ImatchScheme(ImatchSettings(idf_max=0.3))
    with pytest.raises(SettingError, match=r"scheme\.stop_words must be single tokens"):
        ImatchScheme(ImatchSettings(stop_words=("don't",)))
    with pytest.raises(ValueError, match="idf_max"):
        ImatchSettings(idf_max=1.5)
