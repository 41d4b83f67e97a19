"""What the stream asks of a pair is what explanations ask, with less noted: the sketches tell strangers apart."""

from typing import Any

import numpy as np
import pytest
from numba import njit

from spotsieve.stream.judge.by_host.memory import Memory
from spotsieve.stream.judge.by_host.own_text import ask, new_asked
from spotsieve.stream.judge.by_host.pairs import Answer, confirm_pair, judge_pair, new_answer
from spotsieve.stream.judge.by_host.texts import texts_of
from spotsieve.stream.kernels import EDITED, STORY
from spotsieve.stream.page import Page
from spotsieve.stream.schemes.spotsieve import SpotsieveScheme
from spotsieve.stream.settings.schemes import SpotsieveSettings

OTHER = " ".join(reversed(STORY.split()))
HALF = f"{STORY[: len(STORY) // 2]} {OTHER[: len(OTHER) // 2]}"
BODIES = [f"<title>{title}</title><p>{text}" for title in ("", "The old mill") for text in (STORY, EDITED, OTHER, HALF)]


@njit
def _ask_all(pages: Any, memory: Any, bars: Any, asked: Any, short: Any, whole: Any) -> Any:
    # pages: Texts  ->  float64[n, n, 2, 4], of each pair, by judge_pair and confirm_pair: accepted, score, reason, sure
    count = len(pages.host)
    found = np.zeros((count, count, 2, 4))
    for page in range(count):
        ask(pages, page, memory, 0, 0.04, asked)
        for other in range(count):
            judge_pair(pages, page, pages, other, memory, 0, asked, bars, short)
            confirm_pair(pages, page, pages, other, memory, 0, asked, bars, whole)
            for way, answer in enumerate((short, whole)):
                found[page, other, way, 0] = answer.confirmed.accepted[0]
                found[page, other, way, 1] = answer.confirmed.score[0]
                found[page, other, way, 2] = answer.reason[0]
                found[page, other, way, 3] = answer.sure[0]
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
    answers: tuple[Answer, Answer] = (new_answer(), new_answer())
    found = _ask_all(texts_of(signatures), an_empty_memory(), bars, new_asked(), *answers)
    assert (found[:, :, 0] == found[:, :, 1]).all()
    hosts = signatures.host
    across = hosts[:, None] != hosts[None, :]
    accepted = found[:, :, 0, 0] == 1
    assert accepted[across].any() == (not one_host)
    assert not accepted[across].all()
