"""Whatever bytes come in: a page or a rejection, never another exception."""

import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from webencodings.labels import LABELS

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import FieldPaths, InputSettings
from spotsieve.stream.sign.intake import Decoder, Message
from spotsieve.stream.sign.intake.charset import to_utf8

DECODERS = [
    Decoder(InputSettings()),
    Decoder(InputSettings(body_encoding="base64", fields=FieldPaths(url="", charset="charset", body_encoding="enc"))),
    Decoder(InputSettings(preset="scrapy-cluster")),
    Decoder(InputSettings(preset="norconex")),
    Decoder(InputSettings(format="html")),
]

texts = st.text(st.characters(codec=None), max_size=60)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(leaves, lambda below: st.lists(below, max_size=3) | st.dictionaries(texts, below, max_size=3))
names = st.sampled_from(
    [
        "url",
        "body",
        "content_type",
        "fetched_at",
        "id",
        "charset",
        "enc",
        "response_url",
        "timestamp",
        "content",
        "encoding",
    ]
)
objects = st.dictionaries(names, values | st.sampled_from(sorted(LABELS)), max_size=8).map(
    lambda value: json.dumps(value).encode()
)
snippets = st.sampled_from(
    [
        b'{"url":"u","body":"',
        b'"}',
        b"<meta charset=",
        b"<!--",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\\ud800",
        b"\x1b$B",
        b"~{",
    ]
)
raw = st.lists(snippets | st.binary(max_size=20), max_size=8).map(b"".join)


def decode_or_reject(decoder: Decoder, message: Message) -> Page | PageError:
    try:
        return decoder.decode(message)
    except PageError as error:
        return error


@given(raw | objects, st.lists(st.tuples(st.just("content-type"), st.binary(max_size=30)), max_size=1))
def test_any_bytes_become_a_page_or_a_rejection(value: bytes, headers: list[tuple[str, bytes]]) -> None:
    for decoder in DECODERS:
        outcome = decode_or_reject(decoder, Message(b"key", value, headers, "t", 0, 0, 0))
        if isinstance(outcome, PageError):
            assert isinstance(outcome.reason, RejectReason)
            assert str(outcome).isprintable()
        else:
            outcome.url.encode()
            outcome.label.encode()
            assert not outcome.judgeable or outcome.body.decode() is not None
            assert 0 <= outcome.event_time_ms < 10**14


@given(raw | st.binary(max_size=200), st.none() | st.sampled_from(sorted(LABELS)) | texts)
def test_any_bytes_under_any_declared_charset_become_utf8(body: bytes, label: str | None) -> None:
    assert to_utf8(body, label).text.decode() is not None


@given(st.text(max_size=200))
def test_text_and_base64_of_a_body_give_the_same_page(body: str) -> None:
    text: dict[str, Any] = {"url": "u", "body": body, "enc": "text"}
    coded = {"url": "u", "body": base64.b64encode(body.encode()).decode(), "enc": "base64"}
    decoder = Decoder(InputSettings(fields=FieldPaths(body_encoding="enc")))
    pages = [decoder.decode(Message(None, orjson.dumps(value), (), "t", 0, 0, 0)) for value in (text, coded)]
    if not body.startswith("\ufeff") and "\x1b" not in body and not body.startswith(("<\0", "\0<")):
        assert pages[0] == pages[1]


@pytest.mark.parametrize("label", sorted(set(LABELS.values())))
def test_bytes_of_every_value_are_decodable_under_every_charset(label: str) -> None:
    assert to_utf8(bytes(range(256)) * 4, label).text.decode()
