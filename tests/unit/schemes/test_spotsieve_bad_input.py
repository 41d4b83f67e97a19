"""Odd and hostile pages through the default scheme: a verdict with its reason, no crash, and no harm to neighbours.

What they cost is in tests/unit/text/test_text_linear.py.
"""

import base64
import random

import numpy as np
import orjson
import pytest

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.sign.intake import Decoder, Message
from tests.fixtures.pages.spotsieve_pages import SCHEME, STORIES, Verdict, judged, language_of, newspaper, page, portal

ENGLISH = STORIES["English", 1]
WORDS = [word for texts in STORIES.values() for text in texts for word in text.split()]
MIXED = " ".join(random.Random(1).choices(WORDS, k=20_000))
RIGHT_TO_LEFT = " ".join(" ".join(STORIES[name, 1]) for name in ("Arabic", "Hebrew", "Persian"))
JUDGED = {
    "one giant block": f"<p>{MIXED}",
    "no tags": MIXED,
    "no tags, one line a word": MIXED.replace(" ", "\n"),
    "right to left": f"<p dir=rtl>{RIGHT_TO_LEFT}</p>",
    "mixed scripts": f"<div>{' '.join(text for texts in STORIES.values() for text in texts)}</div>",
    "text in tables of one cell": f"{'<table><tr><td>' * 50}{MIXED}",
    "text after a body that ended": f"<html><body></body></html>{' '.join(ENGLISH)}",
    "NUL bytes between words": f"<p>{' '.join(ENGLISH)}</p>".replace(" ", " \0 "),
    "the same word again and again": "<p>" + "again " * 50_000,
    "control characters and marks": "<p>" + "a\u0301\u200d\u202e b\u0300\ufeff " * 500 + " ".join(ENGLISH),
    "characters beyond the basic plane": "<p>\U0001d518 \U0001f469\u200d\U0001f467 \U0002070e " * 50
    + " ".join(ENGLISH),
    "invalid UTF-8": b"<p>\xff\xfe\xc3\x28" + " ".join(ENGLISH).encode() + b"\xf0\x9f",
    "text cut inside a tag": f"<p>{' '.join(ENGLISH)}<a href='",
    "a template around nothing": newspaper([]),
}
WITHOUT_MAIN_TEXT = {
    "only links": "".join(f"<a href='/{number}'>story number {number}</a> " for number in range(5_000)),
    "a list of links in one block": f"<td>{'<a href=x>news of the day</a><br>' * 50}",
}
UNJUDGED = {
    "text in attributes only": f'<img alt="{MIXED}"><div title="{MIXED}" data-text="{MIXED}"></div>',
    "only NUL bytes": b"\0" * 100_000,
    "only white space": " \n\t\u00a0\u3000" * 10_000,
    "only marks": "<p>" + "... !? -- \u2014 \u00ab\u00bb " * 5_000,
    "only tags": "<div>" * 100_000,
    "only a comment": f"<!-- {MIXED} -->",
    "only a script": f"<script>{MIXED}",
    "only a style": f"<style>{MIXED}</style>",
    "only a template": f"<template><p>{MIXED}</p></template>",
    "one word of a million letters": "a" * 1_000_000,
    "bytes that are no text in any way": b"\xff" * 1_000,
}
EITHER = {
    "100,000 tiny blocks": "".join(f"<p>the {number}" for number in range(100_000)),
    "100,000 blocks of one letter": "<p>a" * 100_000,
    "100,000 cells": "<table>" + "<tr><td>one<td>2" * 50_000,
}
"""Whether these have main text is the scorecards' to say."""
ALL = JUDGED | WITHOUT_MAIN_TEXT | UNJUDGED | EITHER
NEIGHBOURS = [page(100, "https://a.example", newspaper(ENGLISH)), page(101, "https://b.example", portal(ENGLISH))]


@pytest.mark.parametrize("body", JUDGED.values(), ids=JUDGED)
def test_an_odd_page_with_text_is_judged_and_its_copy_found(body: str | bytes) -> None:
    raw = body.encode() if isinstance(body, str) else body
    found = judged([page(0, "https://a.example", raw), page(1, "https://b.example", b"<!-- other -->" + raw)])
    assert found[0][:2] == (Kind.NOVEL, Reason.NO_MATCH)
    assert found[1] == (Kind.DUPLICATE, Reason.CONTAINED, 0, 1.0)


@pytest.mark.parametrize("body", WITHOUT_MAIN_TEXT.values(), ids=WITHOUT_MAIN_TEXT)
def test_a_copy_of_a_page_without_main_text_is_found_on_every_host(body: str) -> None:
    urls = ("https://a.example/1", "https://a.example/2", "https://b.example/")
    found = judged([page(number, url, f"<!-- {url} -->{body}") for number, url in enumerate(urls)])
    assert [verdict[:3] for verdict in found] == [
        (Kind.NOVEL, Reason.NO_MATCH, None),
        (Kind.DUPLICATE, Reason.CONTAINED, 0),
        (Kind.DUPLICATE, Reason.CONTAINED, 0),
    ]


@pytest.mark.parametrize("body", UNJUDGED.values(), ids=UNJUDGED)
def test_a_page_without_text_is_unchecked_and_only_its_bytes_are_compared(body: str | bytes) -> None:
    raw = body.encode() if isinstance(body, str) else body
    found = judged(
        [page(0, "https://a.example", raw), page(1, "https://b.example", b"<!-- x -->" + raw), page(2, "", raw)]
    )
    assert [verdict[:3] for verdict in found] == [
        (Kind.UNCHECKED, Reason.TOO_FEW_FEATURES, None),
        (Kind.UNCHECKED, Reason.TOO_FEW_FEATURES, None),
        (Kind.DUPLICATE, Reason.EXACT, 0),
    ]


@pytest.mark.parametrize("body", EITHER.values(), ids=EITHER)
def test_a_page_of_scraps_is_judged_or_unchecked_and_its_copy_goes_the_same_way(body: str) -> None:
    found = judged([page(0, "https://a.example", body), page(1, "https://b.example", f"<!-- other -->{body}")])
    assert [verdict[:3] for verdict in found] in (
        [(Kind.NOVEL, Reason.NO_MATCH, None), (Kind.DUPLICATE, Reason.CONTAINED, 0)],
        [(Kind.UNCHECKED, Reason.TOO_FEW_FEATURES, None)] * 2,
    )


@pytest.mark.parametrize("body", ALL.values(), ids=ALL)
def test_an_odd_page_changes_nothing_of_the_pages_beside_it_in_the_batch(body: str | bytes) -> None:
    alone = SCHEME.sign(NEIGHBOURS)
    beside = SCHEME.sign([NEIGHBOURS[0], page(0, "", body), NEIGHBOURS[1]])
    for name in ("digest", "status", "language", "feature_count", "host", "site"):
        assert getattr(beside, name)[[0, 2]].tolist() == getattr(alone, name).tolist()
    for name in ("features", "blocks", "samples", "titles"):
        rows = np.split(getattr(beside, name), getattr(beside, f"{name}_bounds")[1:-1])
        assert np.concatenate([rows[0], rows[2]]).tolist() == getattr(alone, name).tolist()


def decoded(number: int, body: bytes, content_type: str) -> Page:
    fields = {
        "url": f"https://{number}.example/",
        "body": base64.b64encode(body).decode(),
        "content_type": content_type,
    }
    return Decoder(InputSettings()).decode(Message(None, orjson.dumps(fields), (), "pages", 0, number, 0))


def verdicts_of(*sent: tuple[bytes, str]) -> list[Verdict]:
    return judged([decoded(number, body, content_type) for number, (body, content_type) in enumerate(sent)])


def test_one_story_in_three_character_sets_is_one_story() -> None:
    body = newspaper(STORIES["Russian", 1])
    found = verdicts_of(
        (body.encode(), "text/html; charset=utf-8"),
        (body.encode("cp1251"), "text/html; charset=windows-1251"),
        (body.encode("utf-16"), "text/html"),
    )
    # Bodies are digested in UTF-8
    assert [verdict[:3] for verdict in found[1:]] == [(Kind.DUPLICATE, Reason.EXACT, 0)] * 2


def test_utf_8_that_is_declared_as_something_else_is_read_as_it_is() -> None:
    body = newspaper(STORIES["Greek", 1]).encode()
    found = verdicts_of(*((body, f"text/html; charset={name}") for name in ("utf-8", "iso-8859-1", "x-unknown", "gbk")))
    assert [verdict.original for verdict in found] == [None, 0, 0, 0]


@pytest.mark.parametrize("declared", ["utf-8", "iso-8859-1", "shift_jis", "utf-16", "no-charset", ""])
@pytest.mark.parametrize(("language", "written"), [("Russian", "koi8-r"), ("Chinese", "gb18030"), ("French", "cp850")])
def test_a_mis_declared_character_set_gives_a_verdict_with_a_reason(declared: str, language: str, written: str) -> None:
    body = newspaper(STORIES[language, 1]).encode(written, "replace")
    found = verdicts_of(
        (body, f"text/html; charset={declared}"), (b"<!-- x -->" + body, f"text/html; charset={declared}")
    )
    assert found[0].kind in (Kind.NOVEL, Kind.UNCHECKED)
    assert found[0].reason in (Reason.NO_MATCH, Reason.TOO_FEW_FEATURES, Reason.NOT_TEXT)
    assert found[1].kind is (Kind.DUPLICATE if found[0].kind is Kind.NOVEL else Kind.UNCHECKED)


def test_an_empty_body_is_unchecked_as_empty_and_never_a_duplicate() -> None:
    found = verdicts_of((b"", "text/html"), (b"", "text/html"))
    assert [verdict[:3] for verdict in found] == [(Kind.UNCHECKED, Reason.EMPTY, None)] * 2


def test_right_to_left_text_takes_its_own_path_in_a_left_to_right_template() -> None:
    assert [language_of(page(0, "", portal(STORIES[name, 1]))) for name in ("Arabic", "Hebrew", "Persian")] == [
        "ar",
        "he",
        "fa",
    ]


def test_a_page_of_many_megabytes_and_one_of_a_few_bytes_share_a_batch() -> None:
    large = "<p>" + " ".join(f"{word}{number}" for number, word in enumerate(WORDS * 300))
    found = judged(
        [page(0, "", large), page(1, "", "<p>a"), page(2, "https://c.example", large + "<p>the end")], batch=3
    )
    assert [verdict.kind for verdict in found] == [Kind.NOVEL, Kind.UNCHECKED, Kind.DUPLICATE]
