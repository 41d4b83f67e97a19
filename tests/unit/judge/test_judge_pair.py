"""What the stream asks of a pair is what explanations ask, with less noted: the sketches tell strangers apart."""

from typing import Any

import numpy as np
import pytest
from numba import njit

from spotsieve.state.index import ITEM_COUNT_BITS
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.engine.warmup import EDITED, STORY
from spotsieve.stream.judge.by_host.distinctive_text import is_template, look_up, new_lookup, texts_of
from spotsieve.stream.judge.by_host.memory import Memory
from spotsieve.stream.judge.by_host.pairs import PairResult, confirm_pair, judge_pair, new_pair_result
from spotsieve.stream.sign.features.block_fingerprints import IDENTITY_SHIFT
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme

OTHER = " ".join(reversed(STORY.split()))
HALF = f"{STORY[: len(STORY) // 2]} {OTHER[: len(OTHER) // 2]}"
BODIES = [f"<title>{title}</title><p>{text}" for title in ("", "The old mill") for text in (STORY, EDITED, OTHER, HALF)]


@njit
def _ask_all(pages: Any, memory: Any, bars: Any, asked: Any, short: Any, whole: Any) -> Any:
    # pages: Texts  ->  float64[n, n, 2, 4], of each pair, by judge_pair and confirm_pair: accepted, score, reason, sure
    count = len(pages.host)
    found = np.zeros((count, count, 2, 4))
    for page in range(count):
        look_up(pages, page, memory, 0, 0.04, asked)
        for other in range(count):
            judge_pair(pages, page, pages, other, memory, 0, asked, bars, short)
            confirm_pair(pages, page, pages, other, memory, 0, asked, bars, whole)
            for way, answer in enumerate((short, whole)):
                found[page, other, way, 0] = answer.confirmed.accepted[0]
                found[page, other, way, 1] = answer.confirmed.score[0]
                found[page, other, way, 2] = answer.reason[0]
                found[page, other, way, 3] = answer.sure[0]
    return found


@njit
def _are_template(memory: Any, asked: Any, pages: Any, values: Any) -> Any:
    look_up(pages, 0, memory, 0, 0.04, asked)
    found = np.zeros(len(values), np.bool_)
    for place in range(len(values)):
        found[place] = is_template(asked, memory, 0, values[place])
    return found


def an_empty_memory() -> Memory:
    none, row = np.zeros(1, np.int64), np.zeros((1, 2_048), np.uint32)
    return Memory(np.zeros(1, np.uint64), none, none, none, row, none, row, none, np.zeros(1, np.bool_), row[0])


@pytest.mark.parametrize("one_host", [False, True])
def test_judging_a_pair_answers_as_confirming_it(one_host: bool) -> None:
    scheme = SpotsieveScheme(SpotsieveSettings())
    urls = [f"https://{host}.example/" for host in ("a", "b.a", "other")]
    pages = [
        Page("pages", 0, number, url, body.encode(), True, 0)
        for number, (url, body) in enumerate((url, body) for url in urls for body in BODIES)
    ]
    signatures = scheme.sign(pages)
    bars = scheme.bars._replace(one_host=one_host)
    answers: tuple[PairResult, PairResult] = (new_pair_result(), new_pair_result())
    found = _ask_all(texts_of(signatures), an_empty_memory(), bars, new_lookup(), *answers)
    assert (found[:, :, 0] == found[:, :, 1]).all()
    hosts = signatures.host
    across = hosts[:, None] != hosts[None, :]
    accepted = found[:, :, 0, 0] == 1
    assert accepted[across].any() == (not one_host)
    assert not accepted[across].all()


def test_a_print_is_template_by_all_of_its_bits_and_by_its_count() -> None:
    seen = np.arange(1_000, dtype=np.uint32)
    identities = (seen % 7) * np.uint32(4_096) + seen // np.uint32(7)  # Seven have the same last twelve bits.
    identities.sort()
    counts = np.where(np.arange(len(identities)) % 3, 1, 5).astype(np.uint32)
    items = (identities << np.uint32(ITEM_COUNT_BITS) | counts).reshape(1, -1)
    memory = an_empty_memory()._replace(items=items, item_count=np.array([1_000]), pages=np.array([20]))
    page = Page("pages", 0, 0, "https://a.example/", f"<p>{STORY}".encode(), True, 0)
    signatures = SpotsieveScheme(SpotsieveSettings()).sign([page])
    asked_of = np.arange(2**15, dtype=np.uint32)
    found = _are_template(memory, new_lookup(), texts_of(signatures), asked_of << np.uint32(IDENTITY_SHIFT))
    assert set(np.flatnonzero(found).tolist()) == set(identities[counts == 5].tolist())
    assert 300 < found.sum() < 400
