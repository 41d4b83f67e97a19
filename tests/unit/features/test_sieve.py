"""The columns of the default scheme on made and on real pages: what is kept, what is counted, what never changes."""

import dataclasses
import json
import lzma
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xxhash
from numpy.typing import NDArray

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page_text import KEPT
from spotsieve.stream.sign.features import scorecard
from spotsieve.stream.sign.features.languages import path_names
from spotsieve.stream.sign.features.sieve import KEPT_BYTES, SievedPages, SieveSettings, blocks_of, sieve_pages
from spotsieve.stream.sign.fingerprints.digests import SHORT_BYTES
from spotsieve.stream.sign.text.machine import PADDING
from tests.fixtures.long_cases import mostly_long
from tests.reference.blocks import noted_blocks_of
from tests.reference.lexbor import DATA
from tests.reference.scorecard import reasons_of
from tests.reference.sieve import columns_of

SETTINGS = SieveSettings()
RAGGED = {
    "minima": "minima_bounds",
    "blocks": "block_bounds",
    "samples": "sample_bounds",
    "titles": "title_bounds",
}
STORY = (
    "The council said on Monday that the old bridge over the river will be closed for most of the summer, and that "
    "walkers and riders are asked to take the way by the mill until the work is done. It is not known what it costs."
)
ARTICLE = f"<article><h1>Bridge closed</h1><p>{STORY}</p><p>{STORY[::-1]}</p></article>"


def sieved(
    pages: list[bytes], markup: bool | NDArray[np.uint8] = True, settings: SieveSettings = SETTINGS
) -> SievedPages:
    bounds = np.concatenate([[0], np.cumsum([len(page) for page in pages])]).astype(np.int64)
    return sieve_pages(np.frombuffer(b"".join(pages), dtype=np.uint8), bounds, markup, settings)


def rows(found: SievedPages) -> list[tuple[object, ...]]:
    ragged = {name: getattr(found, bounds) for name, bounds in RAGGED.items()}
    return [
        (
            *(
                getattr(found, field.name)[row].tolist()
                for field in dataclasses.fields(found)
                if field.name not in RAGGED and "bounds" not in field.name
            ),
            *(getattr(found, name)[bounds[row] : bounds[row + 1]].tolist() for name, bounds in ragged.items()),
        )
        for row in range(len(found))
    ]


def real_pages(name: str, every: int) -> list[tuple[bytes, bool]]:
    path = DATA / name / "pages.jsonl.xz"
    if not path.exists():
        pytest.skip(f"../shared/data/{name} is not beside the repository: the labelled pages are not part of it")
    with lzma.open(path) as lines:
        records = [json.loads(line) for number, line in enumerate(lines) if number % every == 0]
    return [(record["body"].encode(), "html" in record["content_type"]) for record in records]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "every"),
    mostly_long(
        [
            *(("news", 960), ("docs", 720), ("newsgroups", 450), ("catalogue", 720)),
            *(("news", 320), ("docs", 240), ("newsgroups", 150), ("catalogue", 240)),
            *(("news", 80), ("docs", 60), ("catalogue", 60)),
        ],
        4,
    ),
)
def test_real_pages_give_the_columns_of_the_reference(name: str, every: int) -> None:
    for page, markup in real_pages(name, every):
        found, expected = sieved([page], markup), columns_of(page, markup, SETTINGS)
        (row,) = rows(found)
        assert row == (
            expected.tokens,
            expected.kept,
            expected.blocks,
            expected.weak,
            list(expected.body),
            expected.features,
            expected.language,
            expected.headline,
            expected.minima,
            expected.packed,
            expected.samples,
            expected.titles,
        )
        blocks = blocks_of(page, markup)
        assert [block.reason for block in blocks] == reasons_of(noted_blocks_of(page, markup))


def test_menus_are_left_out_and_paragraphs_kept() -> None:
    menu = "<nav><ul>" + "<li><a href='/x'>Local news</a></li>" * 20 + "</ul></nav>"
    blocks = blocks_of((menu + ARTICLE + menu).encode(), True)
    kept = [" ".join(block.tokens) for block in blocks if block.kept]
    assert any(text.startswith("the council said") for text in kept)
    assert not any("local news" in text for text in kept)


def test_the_same_text_in_another_template_has_the_same_minima_blocks_and_samples() -> None:
    menu = "<nav><ul>" + "<li><a href='/x'>Local news</a></li>" * 20 + "</ul></nav>"
    other = menu.replace("<li>", "<LI><b>").replace("Local", "Our own").replace("nav>", "NAV>")
    plain = (menu + ARTICLE + menu).encode()
    dressed = (other + ARTICLE.replace("<p>", "<P class=x>\n") + other).encode()
    found = sieved([plain, dressed])
    kept = [[block.tokens for block in blocks_of(page, True) if block.kept] for page in (plain, dressed)]
    assert kept[0] == kept[1]
    minima = [found.minima[start:end].tolist() for start, end in pairwise(found.minima_bounds.tolist())]
    assert minima[0] == minima[1] != []
    packed = [found.blocks[start:end] for start, end in pairwise(found.block_bounds.tolist())]
    of_article = [part[part & KEPT != 0].tolist() for part in packed]
    assert of_article[0] == of_article[1] != []
    assert packed[0].tolist() != packed[1].tolist()
    samples = [found.samples[start:end] for start, end in pairwise(found.sample_bounds.tolist())]
    hashes = [
        {one >> 32 for one in part.tolist() if blocks[one >> 4 & 4095] & KEPT}
        for part, blocks in zip(samples, packed, strict=True)
    ]
    assert hashes[0] == hashes[1] != set()


def test_every_line_of_plain_text_is_kept_quoted_ones_too() -> None:
    blocks = blocks_of(f"Ann wrote:\n> {STORY}\n> more\n| and more\n\nBob".encode(), False)
    assert [(block.tokens[0], block.kept) for block in blocks] == [("ann", True), ("bob", True)]


@pytest.mark.parametrize("size", [0, 1, 240, 241, 1023, 1024, 1025, 1088, 1089, 2048, 2049, 2113, 70_000])
def test_the_body_digest_is_xxhash_s_but_for_short_pages(size: int) -> None:
    page = np.random.default_rng(size).bytes(size)
    expected = xxhash.xxh3_128_intdigest(page) if size > SHORT_BYTES else 0
    for batch in ([page], [page, b"another page"]):
        low, high = sieved(batch).body_digest[0].tolist()
        assert high << 64 | low == expected


def test_the_batch_a_page_comes_in_never_matters() -> None:
    pages = [ARTICLE.encode(), b"", b"<p>the cat</p>" * 700, b"<", "漢字".encode() * 900, b"a" * 200, STORY.encode()]
    alone = [row for page in pages for row in rows(sieved([page]))]
    assert rows(sieved(pages)) == alone
    assert rows(sieved(pages[::-1])) == alone[::-1]
    bounds = np.concatenate([[0], np.cumsum([len(page) for page in pages])]).astype(np.int64)
    padded = np.frombuffer(b"".join(pages) + bytes(PADDING), dtype=np.uint8)
    assert rows(sieve_pages(padded, bounds, True, SETTINGS)) == alone


def test_an_empty_batch_and_an_empty_page_have_empty_columns() -> None:
    assert len(sieved([])) == 0
    assert sieved([]).blocks.dtype == sieved([]).samples.dtype == np.uint64
    (row,) = rows(sieved([b""]))
    assert row == (0, 0, 0, False, [0, 0], 0, 0, 0, [], [], [], [])
    assert blocks_of(b"", True) == []


def test_a_page_names_its_language() -> None:
    german = "Der Rat hat am Montag gesagt, dass die alte Brücke für den Sommer geschlossen wird."
    pages = [
        f"<p>{text * 3}</p>".encode() for text in (STORY, german, "橋は夏の間閉鎖されると議会が発表した。", "1 2 3 4")
    ]
    assert [path_names()[path] for path in sieved(pages).language] == ["en", "de", "unspaced", "und"]


def test_shorter_texts_are_one_shingle_and_repeats_in_a_block_count() -> None:
    found = sieved([b"one two", b"one", b"red oak log red oak log red oak log"], False)
    assert found.feature_counts.tolist() == [1, 1, 7]
    assert np.diff(found.minima_bounds).tolist() == [1, 1, 3]
    assert len(set(found.minima.tolist())) == 5


def test_columns_of_a_page_never_change() -> None:
    found = sieved([STORY.encode(), GOLDEN_PAGE.encode()], np.array([False, True], np.uint8))
    assert found.minima[:2].tolist() == GOLDEN_MINIMA
    assert found.blocks[1:].tolist() == GOLDEN_BLOCKS
    assert found.samples[-5:].tolist() == GOLDEN_SAMPLES
    assert found.titles.tolist() == GOLDEN_TITLES


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shingle_words": 0}, "shingle_words must be a whole number in 1..15, got 0"),
        ({"minima": 256}, "minima must be a whole number in 1..255, got 256"),
        ({"salt": -1}, "salt must be a whole number in 0..2^64 - 1, got -1"),
        ({"salt": 2**64}, f"salt must be a whole number in 0..2^64 - 1, got {2**64}"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as refused:
        SieveSettings(**settings)
    assert message in str(refused.value)


def test_a_changed_scorecard_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorecard, "DIGEST", "0" * 64)
    with pytest.raises(RuntimeError, match="install the package again"):
        scorecard.frozen_points.__wrapped__()


GOLDEN_PAGE = "<title>Bridge closed 2026</title><h1>Bridge closed</h1><p>It costs 12 or 13 coins</p><p>14</p>"
GOLDEN_MINIMA = [0xEBBF9531A2D94, 0xF8193F9537395]
GOLDEN_BLOCKS = [0x97B72AAB110002F0, 0x5E814763F15F06F5, 0x89C703015C8A01F4]
GOLDEN_SAMPLES = [0xFE4B55D800020013, 0x4D8D209900030013, 0x97A9578D00040013, 0x9F044FB600050013, 0x89C7030100080021]
GOLDEN_TITLES = [0x26E2, 0x9CC6, 0xE4B1]


def columns_in_turn(pages: list[bytes]) -> list[list[object]]:
    found = []
    for page in pages:
        sieved = sieve_pages(np.frombuffer(page, np.uint8), np.array([0, len(page)]), 1, SieveSettings())
        found.append([getattr(sieved, field.name).tolist() for field in dataclasses.fields(sieved)])
    return found


def test_pages_of_all_sizes_give_the_same_columns_one_after_the_other_and_in_threads() -> None:
    # Room for a page is used again, by one call at a time; a page beyond KEPT_BYTES has room of its own.
    texts = [f"<title>Page {n}</title>" + f"<p>The {n}th keeper of the mill was seen at night.</p>" for n in range(40)]
    pages = [(text * (1 + 7 * n)).encode() for n, text in enumerate(texts)]
    pages += [(texts[0] * (KEPT_BYTES // len(texts[0]) + 1)).encode(), *pages[::-1]]
    assert min(map(len, pages)) < KEPT_BYTES < max(map(len, pages))
    alone = [columns_in_turn([page])[0] for page in pages]
    assert alone[:40] == alone[:40:-1]
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(columns_in_turn, [pages] * 4):
            assert found == alone
