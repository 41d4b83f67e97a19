"""Replicas of real pages keep the structure of their page, and share nothing with other replicas."""

import numpy as np
import orjson
import pytest

from bench.speed import index_load
from bench.speed.pages import json_messages
from bench.speed.real_pages import exchange, in_letters
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.judge import judge
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme

MARKUP = '<p class="wonderful">The wonderful&nbsp;Garden</p><script>let wonderful;</script><!-- wonderful -->'
PAGES = [
    Page("bench", 0, number, page["url"], page["body"].encode(), True, 0)
    for number, page in enumerate(orjson.loads(value) for _, value in json_messages(60, 3))
]


def test_only_the_letters_of_long_words_between_tags_are_replaced() -> None:
    table = exchange("1")
    replaced = in_letters(MARKUP, table)
    word, name = "wonderful".translate(table), "Garden".translate(table)
    assert replaced == MARKUP.replace(">The wonderful&", f">The {word}&").replace("Garden", name)
    assert word != "wonderful"
    assert sorted(set(word)) == sorted({letter.translate(table) for letter in "wonderful"})


def test_each_replica_of_an_index_load_gets_the_same_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_load, "real_pages", lambda: PAGES)
    scheme, state = SpotsieveScheme(SpotsieveSettings()), memory_state()
    load = index_load.RealLoad(3 * len(PAGES), scheme)
    kinds, originals = list[bool](), list[int]()
    for first in range(0, len(load), 45):
        verdicts, update = judge(load.signatures(first, first + 45), scheme, state, 256, 0)
        state.file(update, first + 45, 0)
        kinds.extend((verdicts.kind == Kind.DUPLICATE).tolist())
        originals.extend(original.offset // len(PAGES) for original in verdicts.originals if original)
    copies = np.array(kinds).reshape(3, len(PAGES))
    assert 10 < copies[0].sum() < len(PAGES)
    np.testing.assert_array_equal(copies[1], copies[0])
    np.testing.assert_array_equal(copies[2], copies[0])
    replicas = np.repeat(np.arange(3), len(PAGES))[np.flatnonzero(copies.reshape(-1))]
    assert originals == replicas.tolist()
