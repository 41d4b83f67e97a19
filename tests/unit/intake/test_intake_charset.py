"""Bytes of any character set become UTF-8, whatever was declared."""

import codecs

import pytest
from webencodings.labels import LABELS

from spotsieve.stream.sign.intake.charset import declared_in_markup, find_codec, to_utf8

GERMAN = "Der Bürgermeister sprach über größere Häuser. "
RUSSIAN = "Сегодня в столице прошло заседание правительства, на котором обсуждались вопросы экономики. "
JAPANESE = "今日の午前、東京で政府の会議が開かれ、経済と予算について議論が行われました。"
CHINESE = "今天上午，政府在首都举行会议，讨论明年的经济和预算问题。天气晴朗，适合出行。"


def html(text: str, head: str = "") -> str:
    return f"<!DOCTYPE html><html><head><title>x</title>{head}</head><body><p>{text}</p></body></html>"


def test_utf8_bytes_are_returned_as_they_are_without_a_copy() -> None:
    for body in (html("plain").encode(), html(RUSSIAN).encode(), b""):
        assert to_utf8(body) is body
        assert to_utf8(body, "utf-8") is body


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("iso-8859-1", GERMAN),
        ("latin1", "“quotes” – and dashes"),
        ("windows-1251", RUSSIAN),
        ("koi8-r", RUSSIAN),
        ("shift_jis", JAPANESE),
        ("x-sjis", JAPANESE),
        ("euc-jp", JAPANESE),
        ("iso-2022-jp", JAPANESE),
        ("gb2312", "朱镕基" + CHINESE),
        ("gbk", CHINESE),
        ("big5", "今天上午，政府在首都舉行會議"),
        ("ks_c_5601-1987", "오늘 오전 정부는 서울에서 회의를 열고 똠방각하"),
        ("utf-16", GERMAN),
        ("utf-16be", GERMAN),
        ("hz-gb-2312", CHINESE),
    ],
)
def test_the_headers_charset_is_used_by_the_labels_of_the_web(label: str, text: str) -> None:
    codec = find_codec(label)
    assert codec
    assert to_utf8(html(text).encode(codec), label) == html(text).encode()


@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="windows-1251">',
        "<META CHARSET=windows-1251>",
        "<meta name=x content='a>b'/><meta charset='cp1251'/>",
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
        "<meta content='text/html;charset=windows-1251' http-equiv=content-type>",
        '<!-- <meta charset="koi8-r"> --><meta charset="windows-1251">',
        '<script data-x="<meta charset=koi8-r>"></script><meta charset="windows-1251">',
        "<style>" + " " * 2000 + '</style><meta charset="windows-1251">',
    ],
)
def test_the_charset_in_the_markup_is_used(head: str) -> None:
    page = html(RUSSIAN, head)
    assert to_utf8(page.encode("cp1251")) == page.encode()


@pytest.mark.parametrize(
    "head",
    [
        b"<p>no declaration",
        b"<!-- <meta charset=koi8-r>",
        b"<meta name=charset content=koi8-r>",
        b"<meta content='charset=koi8-r'>",
        b"<metacharset=koi8-r>",
        b"<meta charset",
        b"<meta charset=>",
    ],
)
def test_what_only_looks_like_a_declaration_declares_nothing(head: bytes) -> None:
    assert declared_in_markup(head) is None


def test_an_xml_declaration_declares_too() -> None:
    page = f'<?xml version="1.0" encoding="koi8-r"?><html><p>{RUSSIAN}</p></html>'
    assert to_utf8(page.encode("koi8-r")) == page.encode()


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
def test_a_byte_order_mark_outranks_the_header_and_leaves_no_trace(mark: bytes, codec: str) -> None:
    assert to_utf8(mark + html(RUSSIAN).encode(codec), "iso-8859-1") == html(RUSSIAN).encode()


def test_utf16_without_a_mark_is_known_by_its_first_tag() -> None:
    for codec in ("utf-16-le", "utf-16-be"):
        assert to_utf8(html(JAPANESE).encode(codec)) == html(JAPANESE).encode()
        assert to_utf8(html("ascii").encode(codec)) == html("ascii").encode()


def test_utf8_under_a_header_that_says_latin1_stays_utf8() -> None:
    for label in ("iso-8859-1", "windows-1251", "gbk", "utf-16", "nonsense"):
        assert to_utf8(html(RUSSIAN).encode(), label) == html(RUSSIAN).encode()


def test_two_hanzi_in_gbk_that_look_like_utf8_are_read_as_declared() -> None:
    body = "模模".encode("gbk")
    assert body.decode()  # valid UTF-8 by accident
    assert to_utf8(body, "gb2312") == "模模".encode()


def test_the_markups_charset_is_used_where_the_headers_cannot_be_true() -> None:
    page = html(JAPANESE * 3, '<meta charset="shift_jis">')
    assert to_utf8(page.encode("cp932"), "utf-8") == page.encode()
    page = html(CHINESE * 3, '<meta charset="gbk">')
    assert to_utf8(page.encode("gbk"), "euc-jp") == page.encode()


def test_a_wrong_byte_in_a_declared_charset_is_replaced_and_the_rest_is_kept() -> None:
    body = html(RUSSIAN).encode() + b"\xff!"
    assert to_utf8(body, "utf-8") == html(RUSSIAN).encode() + "\ufffd!".encode()
    body = html(JAPANESE).encode("cp932") + b"\xff\xff!"
    assert JAPANESE.encode() in to_utf8(body, "shift_jis")


def test_undeclared_legacy_sets_are_detected_even_behind_a_long_ascii_head() -> None:
    head = "<style>" + "p { margin: 0 } " * 4000 + "</style>"
    for codec, text in (("cp1251", RUSSIAN), ("koi8-r", RUSSIAN), ("cp932", JAPANESE), ("gb18030", CHINESE)):
        page = html(text * 20, head)
        assert to_utf8(page.encode(codec)) == page.encode()
        assert to_utf8(page.encode(codec), "utf-8") == page.encode(), "a header that cannot be true is not believed"
    page = html(JAPANESE)
    assert to_utf8(page.encode("iso-2022-jp")) == page.encode()


def test_every_label_of_the_web_has_a_codec_or_none_on_purpose() -> None:
    without = {label for label in LABELS if find_codec(label) is None}
    assert {LABELS[label] for label in without} <= {"replacement", "x-user-defined"}
    for label in LABELS:
        codec = find_codec(label)
        assert codec is None or codecs.lookup(codec)


@pytest.mark.parametrize("label", ["", "   ", "utf-7", "base64", "zlib", "rot13", "idna", "x" * 10_000, "\ud800"])
def test_labels_that_are_no_charset_are_ignored(label: str) -> None:
    assert find_codec(label) is None
    assert to_utf8(GERMAN.encode("cp1252") * 20, label) == (GERMAN * 20).encode()
