"""A message becomes a page, or a rejection that says what to do."""

import base64
import json
import re
from typing import Any

import orjson
import pytest

from spotsieve.stream.base.errors import PageError, RejectReason, SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import FieldPaths, InputSettings
from spotsieve.stream.sign.intake import Decoder, Message
from tests.fixtures.pages.bodies import page_of_body

MESSAGE_MS = 10**14
"""When messages were sent: later than all fetch times here."""
HTML = "<html><body><p>Der Bürgermeister sprach über den Haushalt.</p></body></html>"


def message(value: object, *, key: bytes | None = None, headers: Any = ()) -> Message:
    raw = value if isinstance(value, bytes) or value is None else orjson.dumps(value)
    return Message(key, raw, headers, "pages", 3, 41, MESSAGE_MS)


def decode(value: object, **settings: Any) -> Page:
    return Decoder(InputSettings(**settings)).decode(message(value))


def rejected(value: object, **settings: Any) -> PageError:
    with pytest.raises(PageError) as caught:
        decode(value, **settings)
    error = caught.value
    assert all((error.name, error.rule, error.next_step)), "an error names the field, the rule and the next step"
    assert not re.search(r"[\x00-\x1f]", str(error)), "an error shows no control characters"
    assert len(str(error)) < 500
    return error


def test_json_with_the_default_fields_becomes_a_page() -> None:
    page = decode(
        {
            "id": "n1",
            "url": "https://example.com/ä",
            "fetched_at": "2024-03-01T00:00:10Z",
            "content_type": "text/html; charset=utf-8",
            "body": HTML,
        }
    )
    assert page == Page("pages", 3, 41, "https://example.com/ä", HTML.encode(), True, 1_709_251_210_000, "n1", True)


def test_a_field_without_a_path_is_not_read_from_an_empty_key() -> None:
    page = decode({"": 7, "url": "u", "body": "text"}, fields=FieldPaths(id="", content_type="", fetched_at=""))
    assert (page.url, page.body, page.label) == ("u", b"text", "")


def test_paths_with_dots_lead_into_objects_and_to_keys_that_contain_the_dots() -> None:
    fields = FieldPaths(url="request.url", body="response.body", fetched_at="document.fetched", content_type="")
    page = decode(
        {"request": {"url": "u"}, "response": {"body": "text"}, "document.fetched": 1_709_251_210}, fields=fields
    )
    assert (page.url, page.body, page.event_time_ms) == ("u", b"text", 1_709_251_210_000)


def test_a_path_through_something_that_is_no_object_finds_nothing() -> None:
    assert rejected({"a": "x", "url": "u"}, fields=FieldPaths(body="a.b")).reason is RejectReason.NO_BODY


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("2024-03-01T00:00:10Z", 1_709_251_210_000),
        ("2024-03-01T00:00:10", 1_709_251_210_000),
        ("2024-03-01T02:00:10.250+02:00", 1_709_251_210_250),
        ("20240301", 1_709_251_200_000),
        ("2024-03", 1_709_251_200_000),
        ("2024", 2_024_000),
        ("20240301000010", 1_709_251_210_000),
        (20240301000010, 1_709_251_210_000),
        (20240301000010.0, 1_709_251_210_000),
        (20241301000010, 20241301000010),
        (1_709_251_210, 1_709_251_210_000),
        (1_709_251_210.5, 1_709_251_210_500),
        (1_709_251_210_123, 1_709_251_210_123),
        ("1709251210", 1_709_251_210_000),
        (" 1709251210123 ", 1_709_251_210_123),
        ("1709251210.25", 1_709_251_210_250),
        (0, 0),
        (10**11 - 1, 99_999_999_999_000),
        (10**11, 10**11),
        (None, MESSAGE_MS),
        ("", MESSAGE_MS),
        ("  ", MESSAGE_MS),
    ],
)
def test_fetch_times_are_iso_8601_or_epoch_seconds_or_milliseconds(value: object, expected_ms: int) -> None:
    assert decode({"url": "u", "body": "b", "fetched_at": value}).event_time_ms == expected_ms


@pytest.mark.parametrize(
    "value", ["yesterday", "2024-13-01", "2024-13", -5, 1e300, "1e999", "0001-01-01T00:00:00Z", "9" * 5000]
)
def test_a_time_that_is_none_is_rejected(value: object) -> None:
    assert rejected({"url": "u", "body": "b", "fetched_at": value}).reason is RejectReason.BAD_TIME


def test_a_time_later_than_the_message_is_set_back_to_it_and_told() -> None:
    decoder, fields = Decoder(InputSettings()), {"url": "u", "body": "x", "fetched_at": 1_700_000_000_000}
    value = json.dumps(fields).encode()
    for sent_ms, kept_ms, in_future in (
        (1_700_000_000_001, 1_700_000_000_000, False),
        (1_700_000_000_000, 1_700_000_000_000, False),
        (1_699_999_999_999, 1_699_999_999_999, True),
    ):
        page = decoder.decode(Message(None, value, (), "pages", 0, 0, sent_ms))
        assert (page.event_time_ms, page.future_time) == (kept_ms, in_future)


@pytest.mark.parametrize("value", [True, [1], {"at": 1}])
def test_a_time_of_another_type_is_rejected(value: object) -> None:
    assert rejected({"url": "u", "body": "b", "fetched_at": value}).reason is RejectReason.FIELD_TYPE


@pytest.mark.parametrize(
    ("body", "joined"),
    [
        (["<p>one", "<p>two", "<p>three"], b"<p>one\n<p>two\n<p>three"),
        (["<p>one"], b"<p>one"),
        (["one\n", "", "two"], b"one\n\n\ntwo"),
        ([""], b""),
        (["Zoë", "日本"], "Zoë\n日本".encode()),
    ],
)
def test_a_body_that_is_a_list_of_texts_is_joined_by_line_ends(body: list[str], joined: bytes) -> None:
    assert decode({"url": "u", "body": body}).body == joined
    nested = {"url": "u", "page": {"paragraphs": body}}
    assert decode(nested, fields=FieldPaths(body="page.paragraphs")).body == joined


def test_a_body_of_bytes_in_a_list_is_joined_before_its_character_set_is_detected() -> None:
    body = [name.encode("latin-1") for name in ("Zoë", "Müller")]
    fields: dict[str, Any] = {"url": "u", "body": body, "content_type": "text/plain; charset=latin-1"}
    assert Decoder(InputSettings()).decode_fields(fields, message(b"")).body == "Zoë\nMüller".encode()
    fields = {"url": "u", "body": ["Zoë", "Müller".encode()]}
    assert Decoder(InputSettings()).decode_fields(fields, message(b"")).body == "Zoë\nMüller".encode()


def test_base64_in_a_list_of_lines_is_decoded_where_it_is_declared() -> None:
    lines = base64.encodebytes(HTML.encode() * 4).decode().splitlines()
    assert decode({"url": "u", "body": lines}, body_encoding="base64").body == HTML.encode() * 4


@pytest.mark.parametrize("body", [["a", 7], [None, "a"], [["a"]], [{"text": "a"}], {"text": "a"}, 7, True])
def test_any_other_list_or_object_as_a_body_is_rejected_with_the_name_of_the_field(body: object) -> None:
    error = rejected({"url": "u", "page": {"text": body}}, fields=FieldPaths(body="page.text"))
    assert error.reason is RejectReason.FIELD_TYPE
    assert str(error).startswith("page.text must be text or a list of texts, got ")


def test_base64_bodies_are_found_out_and_their_character_set_is_used() -> None:
    body = base64.b64encode(HTML.encode("cp1252")).decode()
    page = decode({"url": "u", "body": body, "content_type": "text/html; charset=iso-8859-1"})
    assert page.body == HTML.encode()


def test_base64_is_looked_for_from_64_characters_on() -> None:
    looked_at, too_short = (base64.b64encode(b"<p>" + b"x" * (size - 3)).decode() for size in (48, 45))
    assert (len(looked_at), len(too_short)) == (64, 60)
    assert decode({"url": "u", "body": looked_at}).body == b"<p>" + b"x" * 45
    assert decode({"url": "u", "body": too_short}).body == too_short.encode()


def test_base64_in_mime_lines_is_found_out_too() -> None:
    body = base64.encodebytes(HTML.encode() * 4).decode()
    assert decode({"url": "u", "body": body}).body == HTML.encode() * 4


@pytest.mark.parametrize("body", ["short", "word" * 15, "word " * 40, "w" * 65, "w" * 64 + "=x==", "words\n" * 40])
def test_texts_that_are_no_base64_stay_text(body: str) -> None:
    assert decode({"url": "u", "body": body}).body == body.encode()


def test_a_field_of_the_message_may_say_how_the_body_is_encoded() -> None:
    fields = FieldPaths(body_encoding="enc")
    assert decode({"url": "u", "body": "aGk=", "enc": "base64"}, fields=fields).body == b"hi"
    assert decode({"url": "u", "body": "aGk=", "enc": "text"}, fields=fields).body == b"aGk="
    assert decode({"url": "u", "body": "aGk="}, fields=fields, body_encoding="base64").body == b"hi"
    assert rejected({"url": "u", "body": "aGk=", "enc": "gzip"}, fields=fields).reason is RejectReason.FIELD_TYPE


def test_url_safe_base64_is_read_where_base64_is_declared() -> None:
    body = base64.urlsafe_b64encode(b"\xfb\xff<p>").decode()
    assert decode({"url": "u", "body": body}, body_encoding="base64").body.endswith(b"<p>")


@pytest.mark.parametrize("body", ["aGk", "aGk=aGk=", "aG\x00k", "é===", "<html>"])
def test_truncated_or_foreign_base64_is_rejected(body: str) -> None:
    assert rejected({"url": "u", "body": body}, body_encoding="base64").reason is RejectReason.BAD_BASE64


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"url": "u", "body": "half a li', RejectReason.NOT_JSON),
        (b'{"url": "u", "body": "\xff\xfe"}', RejectReason.NOT_JSON),
        (b'{"url": "u", "body": NaN}', RejectReason.NO_BODY),
        (b'{"url": -Infinity, "body": "b"}', RejectReason.NO_URL),
        (b'{"url": "u", "body": "b", "a": NaN', RejectReason.NOT_JSON),
        (b'{"url": "u", "body": "b", "a": NaN, "c": nan}', RejectReason.NOT_JSON),
        (b'{"url": "u", "body": "b", "a": -NaN}', RejectReason.NOT_JSON),
        (b'{"url": "u", "body": "\xff", "a": NaN}', RejectReason.NOT_JSON),
        (b"NaN", RejectReason.NOT_JSON),
        (b'{"url": "u", "a": NaN, "b": ' + b"[" * 100_000, RejectReason.NOT_JSON),
        (b"json failed to parse", RejectReason.NOT_JSON),
        (b"", RejectReason.NOT_JSON),
        (b"\x00\x1b[31m", RejectReason.NOT_JSON),
        (b"[1, 2]", RejectReason.NOT_JSON),
        (b"3", RejectReason.NOT_JSON),
        (b'"text"', RejectReason.NOT_JSON),
        (b"[" * 100_000, RejectReason.NOT_JSON),
        (b'{"url": "u", "a": ' + b'{"a":' * 5000 + b'"\\ud800"' + b"}" * 5001, RejectReason.NOT_JSON),
        (b'{"url": "u"}', RejectReason.NO_BODY),
        (b'{"url": "u", "body": null}', RejectReason.NO_BODY),
        (b'{"url": "u", "body": []}', RejectReason.NO_BODY),
        (b'{"url": "u", "body": 5}', RejectReason.FIELD_TYPE),
        (b'{"url": "u", "body": {"a": 1}}', RejectReason.FIELD_TYPE),
        (b'{"url": "u", "body": [7]}', RejectReason.FIELD_TYPE),
        (b'{"url": 5, "body": "b"}', RejectReason.FIELD_TYPE),
        (b'{"url": "u", "body": "b", "content_type": 5}', RejectReason.FIELD_TYPE),
        (b'{"body": "b"}', RejectReason.NO_URL),
        (b'{"url": "", "body": "b"}', RejectReason.NO_URL),
    ],
)
def test_what_cannot_become_a_page_is_rejected_with_its_reason(value: bytes, reason: RejectReason) -> None:
    assert rejected(value).reason is reason


def test_messages_without_addresses_are_pages_where_the_settings_say_so() -> None:
    assert decode({"body": "b"}, fields=FieldPaths(url="")).url == ""


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_do_not_reject_a_page(number: str) -> None:
    value = '{"url": "u", "body": "Zoë", "score": NaN, "in": [{"a": NaN}], "status": NaN, "fetched_at": NaN, "id": NaN}'
    assert decode(value.replace("NaN", number).encode()) == decode({"url": "u", "body": "Zoë"})


def test_of_equal_keys_the_last_counts() -> None:
    assert decode(b'{"url": "u", "body": "first", "body": "last"}').body == b"last"


def test_half_a_surrogate_pair_and_nul_characters_are_no_reason_to_reject() -> None:
    page = decode(b'{"url": "u\\ud800", "id": "\\udc00", "body": "a\\ud800b\\u0000c"}')
    assert page.body == b"a?b\x00c"
    assert (page.url, page.label) == ("u?", "?")


def test_a_50_mb_message_becomes_a_page_that_is_only_compared_by_its_digest() -> None:
    body = "<p>word</p>" * (50 * 2**20 // 11)
    page = decode({"url": "u", "body": body})
    assert not page.judgeable
    assert len(page.body) == len(body)


@pytest.mark.parametrize(
    ("value", "label"), [(7, "7"), (7.0, "7"), (7.5, ""), (1e300, ""), ("x", "x"), (None, ""), (True, ""), ([1], "")]
)
def test_a_page_needs_no_name_of_its_own(value: object, label: str) -> None:
    assert decode({"url": "u", "body": "b", "id": value}).label == label


def test_raw_html_has_its_address_in_the_key() -> None:
    decoder = Decoder(InputSettings(format="html"))
    headers = [("Content-Type", b"text/html; charset=windows-1252")]
    page = decoder.decode(message(HTML.encode("cp1252"), key=b"https://example.com/", headers=headers))
    assert (page.url, page.body, page.markup) == ("https://example.com/", HTML.encode(), True)
    assert page.event_time_ms == MESSAGE_MS


def test_raw_html_has_its_address_in_a_header() -> None:
    decoder = Decoder(InputSettings(format="html", url_from="header:X-Url"))
    assert decoder.decode(message(b"<p>hi", headers=[("x-url", b"http://a/")])).url == "http://a/"
    with pytest.raises(PageError) as caught:
        decoder.decode(message(b"<p>hi", key=b"http://a/"))
    assert caught.value.reason is RejectReason.NO_URL


def test_scrapy_clusters_crawled_pages_are_read_by_their_preset() -> None:
    item: dict[str, Any] = {
        "appid": "testapp",
        "attrs": None,
        "body": HTML,
        "crawlid": "abc123",
        "encoding": "utf-8",
        "links": [],
        "request_headers": {"User-Agent": ["Scrapy"]},
        "response_headers": {"Content-Type": ["text/html; charset=UTF-8"], "Server": ["nginx"]},
        "response_url": "https://example.com/final",
        "status_code": 200,
        "status_msg": "OK",
        "timestamp": "2024-03-01T00:00:10.123456",
        "url": "https://example.com/",
    }
    page = decode(item, preset="scrapy-cluster")
    assert (page.url, page.body, page.markup, page.event_time_ms, page.label) == (
        "https://example.com/final",
        HTML.encode(),
        True,
        1_709_251_210_123,
        "",
    )
    item |= {"body": base64.b64encode(HTML.encode("cp1252")).decode(), "encoding": "cp1252"}
    item["response_headers"] = {"Content-Type": ["text/html"]}
    assert decode(item, preset="scrapy-cluster").body == HTML.encode()


def test_norconex_flat_objects_are_read_by_their_preset() -> None:
    value = {
        "id": "https://example.com/a",
        "Content-Type": ["text/html;charset=UTF-8"],
        "crawler.depth": "1",
        "document.contentType": "text/html",
        "title": ["One", "Two"],
        "content": "The mayor spoke about the budget.\n",
    }
    page = decode(json.dumps(value).encode() + b"\n", preset="norconex")
    assert (page.url, page.body) == ("https://example.com/a", b"The mayor spoke about the budget.\n")
    assert not page.markup, "the importer left extracted text, whatever the metadata says"
    assert page.event_time_ms == MESSAGE_MS


DOCUMENTS: dict[str, dict[str, Any]] = {
    "datatrove": {"text": HTML, "id": "7", "metadata": {"url": "u", "date": "2024-03-01T00:00:10Z"}},
    "huggingface": {"text": HTML, "metadata": {"url": "u"}},
    "commoncrawl-wet": {"url": "u", "raw_content": HTML, "date_download": "2024-03-01T00:00:10Z", "digest": "sha1:x"},
    "stormcrawler": {"url": "u", "content": HTML, "domain": "e.com"},
    "nutch": {"id": "u", "url": "u", "content": HTML, "tstamp": "2024-03-01T00:00:10Z"},
    "browsertrix": {"id": "7", "url": "u", "text": HTML, "ts": "2024-03-01T00:00:10Z", "title": "t"},
}


@pytest.mark.parametrize("preset", DOCUMENTS)
def test_the_documents_of_other_tools_are_read_by_their_preset(preset: str) -> None:
    page = decode(DOCUMENTS[preset], preset=preset)
    assert (page.url, page.body) == ("u", HTML.encode())
    dated = any("2024-03-01" in str(value) for value in DOCUMENTS[preset].values())
    assert page.event_time_ms == (1_709_251_210_000 if dated else MESSAGE_MS)
    assert page.label == ("7" if DOCUMENTS[preset].get("id") == "7" else "")


def test_a_preset_takes_the_first_of_several_places_of_a_url() -> None:
    for place in ({"url": "flat"}, {"meta": {"url": "flat"}}, {"metadata": {}, "url": "flat"}):
        assert decode({"text": HTML, **place}, preset="huggingface").url == "flat"
    assert decode({"text": HTML, "url": "flat", "metadata": {"url": "u"}}, preset="huggingface").url == "u"
    with pytest.raises(PageError, match=r"metadata\.url must hold the page's address"):
        decode({"text": HTML}, preset="huggingface")


def test_a_path_of_ones_own_wins_over_the_preset() -> None:
    fields = FieldPaths(body="html", fetched_at="when")
    page = decode({"id": "u", "html": "<p>x", "when": 5}, preset="norconex", fields=fields)
    assert (page.url, page.body, page.event_time_ms) == ("u", b"<p>x", 5000)


def test_a_preset_does_not_fit_raw_html() -> None:
    with pytest.raises(SettingError, match=r"input\.preset needs input\.format = json"):
        Decoder(InputSettings(preset="norconex", format="html"))


def test_a_tombstone_is_no_page() -> None:
    tombstone = message(None, key=b"u")
    with pytest.raises(ValueError, match="tombstone"):
        Decoder(InputSettings()).decode(tombstone)


def test_text_and_its_utf8_bytes_give_the_same_page() -> None:
    assert page_of_body(HTML) == page_of_body(HTML.encode())
