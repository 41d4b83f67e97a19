"""The kernel that takes a body out of a JSON message agrees with its reference implementation and with orjson."""

import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spotsieve.stream.base.errors import PageError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import FieldPaths, InputSettings
from spotsieve.stream.sign.intake import Decoder, Message, decoder
from spotsieve.stream.sign.intake.json_text import MIN_LONG_BYTES, compile_take_text, take_text
from tests.reference.json_text import taken_text

KEY = np.frombuffer(b"body", np.uint8)
compile_take_text()  # It takes longer than the deadline of an example.

plain = st.text(st.characters(codec="utf-8"), max_size=90)
"""Up to 90 characters, so that texts end in and behind the first 64 bytes."""
names = st.sampled_from(["body", "url", "bod", "body ", "x", 'a"b', "\\body"])
leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | plain
values = st.recursive(leaves, lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=3))
objects = st.dictionaries(names, values, max_size=5)


def written(fields: dict[str, Any], ascii_only: bool, indent: int | None) -> bytes:
    return json.dumps(fields, ensure_ascii=ascii_only, indent=indent).encode()


valid = st.builds(written, objects, st.booleans(), st.sampled_from([None, 0, 3]))
with_body = st.builds(lambda fields, body: {**fields, "body": body}, objects, plain)
long_valid = st.builds(written, with_body, st.booleans(), st.sampled_from([None, 1]))
pieces = st.sampled_from(
    [
        *(b'{"body":"', b'"body" : "', b'"}', b'","body":"', b'"b\\u006fdy":"', b'{"x":{"body":"', b"\\u00", b"\\x"),
        *(b"\\ud83d\\ude00", b"\\ud83d", b"\\ude00", b"\\ud83dx", b"\\ud83d\\u0041", b"\\u0000", b"\\uFFFF", b"\\"),
        *(b"\xc3\xa9", b"\xc3", b"\xa9", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xed\x9f\xbf"),
        *(b"\xed\xa0\x80", b"\xee\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xff"),
        *(b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"\0", b"\n", b"\x1f", b"\x7f"),
        *(b"NaN", b"-Infinity", b"1e5", b"[", b"]", b"{", b"}", b" ", b":", b",", b'"', b'\\"', b"\\/", b"\\\\"),
        *(b"a" * 57, b"a" * 63, b"a" * 130, "Ω".encode() * 31),
    ]
)
broken = st.lists(pieces | st.binary(max_size=3), max_size=14).map(b"".join)
bodies = st.lists(pieces, max_size=14).map(lambda parts: b'{"url":"u","body":"' + b"".join(parts) + b'"}')


@given(valid | long_valid | broken | bodies)
@example(b'{"body":"' + b"a" * 62 + b'\\n"}')
@example(b'{"body":"' + b"a" * 63 + b'\\u00e9"}')
@example(b'{"body":"' + b"a" * 63 + b'\xc3\xa9"}')
@example(b'{"body":"' + b"a" * 63 + b'\xc3"}')
@example(b'{"body":"' + b"a" * 61 + b'\xf0\x9f\x98"}')
@example(b'{"body":"a')
@example(b'{"body":"a\\')
@example(b'{"body":"')
@example(b'{"body"')
def test_the_kernel_takes_what_its_reference_takes(message: bytes) -> None:
    taken = take_text(message, KEY)
    assert (taken and tuple(taken)) == taken_text(message, b"body")


@given(valid | long_valid | broken | bodies)
def test_a_taken_text_and_the_rest_are_what_orjson_reads(message: bytes) -> None:
    taken = take_text(message, KEY)
    if taken is None:
        return
    try:
        expected = orjson.loads(message)
    except orjson.JSONDecodeError:
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(taken.rest)
        return
    rest = orjson.loads(taken.rest)
    assert rest["body"] == ""
    assert {**rest, "body": taken.text.decode()} == expected


@given(long_valid.filter(lambda message: b'\\"b' not in message and b"\\\\b" not in message))
def test_a_text_at_the_top_is_taken(message: bytes) -> None:
    taken = take_text(message, KEY)
    assert taken is not None
    assert taken.text.decode() == json.loads(message)["body"]


SETTINGS = [
    InputSettings(body_encoding="text"),
    InputSettings(body_encoding="auto"),
    InputSettings(body_encoding="base64"),
    InputSettings(fields=FieldPaths(url="body")),
    InputSettings(fields=FieldPaths(url=""), rank_from="body"),
    InputSettings(preset="scrapy-cluster"),
]


@given(valid | long_valid | broken | bodies, st.sampled_from(SETTINGS))
@example(b'{"url":"u","body":"' + b"YWJj" * 30 + b'"}', SETTINGS[1])
@example(b'{"url":"u","body":"' + "Ω".encode() * 255 + b'\\u0020"}', SETTINGS[1])
@example(b'{"url":"u","body":"' + b"YWJj" * 64 + b'<"}', SETTINGS[1])
@example(b'{"url":"u","body":"' + b"\\n" * 63 + b'"}', SETTINGS[1])
@example(b'{"url":"u","body":"' + b"YWJj" * 30 + b'"}', SETTINGS[2])
def test_a_page_is_the_same_whichever_way_its_message_is_read(message: bytes, settings: InputSettings) -> None:
    padded = message + b" " * MIN_LONG_BYTES
    with pytest.MonkeyPatch.context() as patch:
        taken = outcome(Decoder(settings), padded)
        patch.setattr(decoder, "MIN_LONG_BYTES", 2**62)
        assert taken == outcome(Decoder(settings), padded)


def outcome(reader: Decoder, value: bytes) -> Page | str:
    try:
        return reader.decode(Message(None, value, (), "t", 0, 0, 0))
    except PageError as error:
        return repr((error.reason, str(error)))
