"""Intake tells HTML, XML, plain text and other content apart."""

import json
from itertools import count, islice

import pytest

from spotsieve.stream.base.page import Markup
from spotsieve.stream.sign.features.sieve import blocks_of
from spotsieve.stream.sign.intake.charset import MAX_BLANKS
from spotsieve.stream.sign.intake.content import Content, find_media_type, read_content_type
from tests.fixtures.cpu_time import assert_cpu_below, assert_cpu_grows
from tests.fixtures.pages.bodies import page_of_body


def kind(body: bytes | str, content_type: str | None = None, max_page_bytes: int = 2**20) -> str:
    page = page_of_body(body, content_type, max_page_bytes)
    if not page.judgeable:
        assert page.body == (body.encode() if isinstance(body, str) else body), "its bytes stay untouched"
        return "not judged"
    return {Markup.NONE: "plain", Markup.HTML: "html", Markup.XML: "xml"}[Markup(page.markup)]


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"no tags at all", "text/html", "html"),
        (b"no tags at all", "Text/HTML ; charset=utf-8", "html"),
        (b"no tags", "application/xhtml+xml", "xml"),
        (b"no tags", "application/rss+xml", "xml"),
        (b"no tags", "text/xml", "xml"),
        (b"<p>a tag", "text/plain", "plain"),
        (b'{"a": "<p>"}', "application/json", "plain"),
        (b"<p>hello", None, "html"),
        (b"<p>hello", "application/octet-stream", "html"),
        (b"<!doctype html>", "", "html"),
        (b"<?xml version='1.0'?><html>", None, "xml"),
        (b"\n<?xml version='1.0'?><html>", "application/octet-stream", "xml"),
        (b"\xef\xbb\xbf<?xml\tversion='1.0'?><!DOCTYPE html><html>", None, "xml"),
        (b"<?xml version='1.0'?><!DOCTYPE html><html>", "text/html", "html"),
        (b"<?xml-stylesheet href='x'?><html>", None, "html"),
        (b"<rss version='2.0'>", None, "xml"),
        (b"<?xml version='1.0'?><!-- a > b --><rss version='2.0'>", "text/html; charset=utf-8", "xml"),
        (b"<!-- <rss> --><html>", "text/html", "html"),
        (b"<feed xmlns='http://www.w3.org/2005/Atom'>", "text/html", "xml"),
        (b"<rdf:RDF xmlns='http://purl.org/rss/1.0/'>", None, "xml"),
        (b"<!DOCTYPE rss [ <!ENTITY a '>'> ]><rss/>", None, "xml"),
        (b"<feed", "text/plain", "plain"),
        (b"<feedback>", "text/html", "html"),
        (b"<!doctype html><rssfeed>", None, "html"),
        ("<?xml version='1.0'?><a>".encode("utf-16"), None, "xml"),
        (b"<p>", "application/xml; charset=utf-8", "xml"),
        (b"<p>", "image/svg+xml", "xml"),
        (b"</div>", None, "html"),
        (b"1 < 2 and 3 <4", None, "plain"),
        (b" " * 2000 + b"<p>", None, "html"),
        (b"\r\n\t\f" * 10_000 + b"<html>", None, "html"),
        ("\ufeff\u00a0\n" * 10_000 + "<html>", None, "html"),
        (b" " * 2000 + b"<p>", "text/plain", "plain"),
        (b" " * 2000 + b"x" * 1024 + b"<p>", None, "plain"),
        (b" " * MAX_BLANKS + b"<p>", None, "html"),
        (b" " * (MAX_BLANKS + 1024) + b"<p>", None, "plain"),
        (b" " * 2000, None, "plain"),
        (b"hello", "nonsense", "plain"),
        (b"", None, "plain"),
        (b"whatever", "image/png", "not judged"),
        (b"whatever", "application/pdf; charset=utf-8", "not judged"),
        (b"whatever", "video/mp4", "not judged"),
        (b"%PDF-1.4 text", "text/html", "not judged"),
        (b"PK\x03\x04....", None, "not judged"),
        (b"\x1f\x8b\x08\x00", "text/html", "not judged"),
        (b"\x89PNG\r\n\x1a\n", None, "not judged"),
        (b"ID3 tags explained", None, "plain"),
        (b"ID3\x04\x00\x00", None, "not judged"),
        (b"\x00\x01\x02\x03" * 100, "text/html", "not judged"),
        (b"one NUL\x00 in a long text is no reason " * 5, None, "plain"),
        (b"x" * 992 + bytes(32), None, "plain"),
        (b"x" * 991 + bytes(33), None, "not judged"),
        (b"x" * 1024 + bytes(1000), None, "plain"),
        ("%PDF-1.4 \ufffd\ufffd", "text/html", "not judged"),
        ("<p>text", "text/html", "html"),
        ("<p>ä".encode("utf-16"), None, "html"),
        ("plain text".encode("utf-16"), None, "plain"),
        ("<p>ä".encode("utf-16-le"), "text/html; charset=utf-16le", "html"),
    ],
)
def test_the_kind_of_content(body: bytes | str, content_type: str | None, expected: str) -> None:
    assert kind(body, content_type, 2 * MAX_BLANKS) == expected


SEPARATORS = (" ", ";", "; ", " ; ", ",", ", ", ":", "\t", "\xa0", "/", "|", "&", "=", "(", "_", "-", "")
PARAMETERS = ("charset=KOI8-R", 'CHARSET="KOI8-R"', "charset='KOI8-R'", "Charset = KOI8-R", 'charset="KOI8-R')


@pytest.mark.parametrize("separator", SEPARATORS)
def test_any_separator_stands_between_the_type_and_its_charset(separator: str) -> None:
    for written in ("text/html", "TEXT/HTML", "application/xhtml+xml", "text/plain", "application/pdf"):
        expected = read_content_type(written)[0]
        assert expected is not Content.UNKNOWN
        for parameter in PARAMETERS:
            assert read_content_type(written + separator + parameter) == (expected, "KOI8-R")
            assert find_media_type(written + separator + parameter) == written.lower()


@pytest.mark.parametrize(
    ("value", "media_type", "label"),
    [
        ("text/html, text/plain", "text/plain", None),
        ("text/html; charset=gbk, text/plain", "text/plain", None),
        ("text/html; charset=gbk, text/html", "text/html", "gbk"),
        ("text/html; charset=gbk, text/html; charset=big5", "text/html", "big5"),
        ("text/html; charset=gbk, */*", "text/html", "gbk"),
        ("charset=gbk, text/html", "text/html", "gbk"),
        ('text/html; x=",text/plain"; charset=gbk', "text/html", "gbk"),
        ('text/html; x="a\\",text/plain"; charset=gbk', "text/html", "gbk"),
        ("text/html; charset=; charset=gbk", "text/html", "gbk"),
        ("text/html; charset=gbk; charset=big5", "text/html", "gbk"),
        ("text/html; charset=bogus; charset=gbk", "text/html", "gbk"),
        ("text/html; charset=bogus", "text/html", "bogus"),
        ('text/html; charset="\\g\\b\\k"', "text/html", "gbk"),
        ('text/html; charset="; charset=x"; charset=gbk', "text/html", "gbk"),
        ("Content-Type: text/html; charset: gbk", "text/html", "gbk"),
        ('"text/html"; charset=gbk', "text/html", "gbk"),
        ("text/html; profile=https://x.example/image/png", "text/html", None),
        ("html; charset=gbk", "", "gbk"),
        ("*/*", "", None),
        ("text/", "", None),
        ('"', "", None),
    ],
)
def test_the_last_type_of_a_header_counts_with_its_charset(value: str, media_type: str, label: str | None) -> None:
    assert find_media_type(value) == media_type
    assert read_content_type(value)[1] == label


@pytest.mark.parametrize("piece", ['"', '"\\', "a/", "a-", "a.", "charset=", "charset = ", "\\", ",", "-"])
def test_a_hostile_content_type_costs_no_more_than_its_first_512_characters(piece: str) -> None:
    numbers = count()  # what was read is kept

    def read() -> None:
        for number in islice(numbers, 20):
            read_content_type(f"{number} {piece * 100_000}")

    assert_cpu_below(0.2, read)


def test_a_body_over_the_limit_is_not_judged_and_one_at_the_limit_is() -> None:
    assert kind(b"x" * 1024, "text/html", 1024) == "html"
    assert kind(b"x" * 1025, "text/html", 1024) == "not judged"
    assert kind("ä" * 513, "text/html", 1024) == "not judged", "the limit counts bytes, not characters"


ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'>{}</feed>"
RSS = "<rss version='2.0'><channel>{}</channel></rss>"
NOTE = "&lt;p>Ann &amp;amp; Bob&lt;/p>&lt;p>caf&amp;eacute;"


def blocks(body: str, content_type: str | None = None) -> str:
    page = page_of_body(body, content_type)
    return "|".join(" ".join(block.tokens) for block in blocks_of(page.body, page.markup))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (RSS.format("<description><![CDATA[<p>a <b>w</b>ord</p><p>b&#8217;s]]></description>"), "a word|b s"),
        (RSS.format("<content:encoded>\n<![CDATA[<ul><li>a<li>b]]>\n</content:encoded>"), "a|b"),
        (RSS.format(f"<description>{NOTE}</description>"), "ann bob|café"),
        (RSS.format("<description>a<![CDATA[<b]]><![CDATA[>b</b>]]> c</description>"), "ab c"),
        (RSS.format("<description>1 &lt; 2 &amp;lt;b&amp;gt; AT&amp;T</description>"), "1 2 b at t"),
        (RSS.format("<description><![CDATA[a <a href='x y]]></description><link>b</link>"), "a|b"),
        (RSS.format("<title><![CDATA[a]]></title><title><![CDATA[<b>]]></title>"), "b"),
        (RSS.format("<description>a"), "a"),
        (RSS.format("<description><![CDATA[a<p>b"), "a|b"),
        (RSS.format("<description><p>a</p>&lt;b&gt;</description>"), "a|b"),
        (ATOM.format(f"<content type='html'>{NOTE}</content>"), "ann bob|café"),
        (ATOM.format(f'<summary mode="escaped" type="text/html">{NOTE}</summary>'), "ann bob|café"),
        (ATOM.format("<title>a</title><title type='html'>&lt;b>c&lt;/b>d&lt;br>e</title>"), "cd e"),
        (f"<atom:feed><atom:content type='html'>{NOTE}</atom:content></atom:feed>", "ann bob|café"),
        (ATOM.format("<content>&lt;p>a</content>"), "p a"),
        (ATOM.format("<content type='text'>&lt;p>a</content>"), "p a"),
        (ATOM.format("<content type='xhtml'><div>a<p>b</p></div></content>"), "a|b"),
        (f"<rdf:RDF xmlns='http://purl.org/rss/1.0/'><item><description>{NOTE}</description></item>", "ann bob|café"),
        (RSS.format("<description><![CDATA[a <svg id='b' /><p>c <svg><path/></svg>d]]></description>"), "a|c d"),
        (RSS.format("<description><![CDATA[a <style-guide>b</style-guide> c]]></description>"), "a b c"),
        (RSS.format("<description><![CDATA[a <math><mi>x</mi></math> b]]></description>"), "a x b"),
        (RSS.format("<media:description type='plain'>use &lt;b&gt; here</media:description>"), "use b here"),
        (RSS.format(f"<media:description type='html'>{NOTE}</media:description>"), "ann bob|café"),
        (RSS.format("<!-- <description>a --&gt; hidden</description> secret --><description>b</description>"), "b"),
        (RSS.format("<x><![CDATA[say <description>a</description>]]></x>"), "say description a description"),
        (RSS.format("<description><!-- x -->&lt;p>a&lt;p>b<!-- y --></description><link>c</link>"), "a|b|c"),
        (RSS.format("<description>&lt;p>a&lt;p>b<!-- y"), "a|b"),
    ],
)
def test_the_html_in_a_feed_is_read_as_html(body: str, expected: str) -> None:
    assert blocks(body) == expected
    assert blocks(body, "text/html") == expected


@pytest.mark.parametrize("name", ["title", "summary", "content:encoded", "description"])
def test_a_feed_read_before_is_read_as_it_is(name: str) -> None:
    text = "<title>h</title><{} type='html'>use &lt;p> and &amp;lt;b&amp;gt; here</{}>"
    page = page_of_body(ATOM.format(text.format(name, name)))
    assert b"&lt;b&gt; here" in page.body
    assert page_of_body(page.body).body == page.body


def test_cdata_of_other_pages_is_text_in_xml_and_a_comment_in_html() -> None:
    page = "<html><description><![CDATA[<p>a</p>]]></description><script><![CDATA[b]]></script></html>"
    assert blocks(page, "application/xhtml+xml") == "p a p"
    assert blocks(page, "text/html") == "a"


@pytest.mark.parametrize(
    "piece",
    "<!-- a|<script>|<style>|<template>|<plaintext>|<title>|<svg>|<textarea>|<a href=x>|<ul><table><h1>|</item></rss>|"
    "<iframe|<img alt='|]]&gt;|<![CDATA[|<description>|</description>".split("|"),
)
def test_the_html_in_a_feed_stays_within_its_element(piece: str) -> None:
    item = "<item><title>h</title><description>{}</description></item>"
    escaped = piece.replace("&", "&amp;").replace("<", "&lt;")
    for inner in (f"<![CDATA[{piece}]]>", escaped):
        page = page_of_body(RSS.format(item.format(inner) + item.format("the <![CDATA[<p>last]]>")))
        last = blocks_of(page.body, page.markup)[-3:]
        assert [" ".join(block.tokens) for block in last] == ["h", "the", "last"]
        assert {(block.links, block.sections) for block in last} == {(0, 0)}


def test_an_end_tag_without_a_start_tag_opens_nothing_in_a_feed() -> None:
    page = page_of_body(RSS.format("<description><![CDATA[</ul>a</table><p>b]]></description>"))
    found = blocks_of(page.body, page.markup)
    assert [(block.tokens, block.sections) for block in found] == [(("a",), 0), (("b",), 0)]


def test_an_end_tag_in_a_feed_closes_an_open_section_of_another_name() -> None:
    page = page_of_body(RSS.format("<description><![CDATA[<h2>a</h3><p>b<ul><ol>c</ol></ol></ol>d]]></description>"))
    found = blocks_of(page.body, page.markup)
    assert [block.tokens for block in found] == [("a",), ("b",), ("c",), ("d",)]
    assert [block.sections != 0 for block in found] == [True, False, True, False]


@pytest.mark.parametrize(
    "piece",
    "<description>|<description><![CDATA[|<![CDATA[|]]>|&lt;!--|&lt;script>|&lt;a '|<title type='html'>|<a:b:content |"
    "<description>&lt;p></description>|<description><![CDATA[<]]></description>|<!--|<!---->|<description><!---->|"
    "<x><![CDATA[<description>]]>|<svg />|&lt;svg />|&lt;ul>&lt;/ol>".split("|"),
)
def test_hostile_feeds_take_time_linear_in_their_size(piece: str) -> None:
    for before in ("<rss>", "<rss><description>", "<rss><description><![CDATA["):

        def read(size: int, before: str = before) -> None:
            page_of_body(before + piece * (size // len(piece)), None, 2**24)

        assert_cpu_grows(read, 40_000, 320_000, most=24, extra=0.024)


def test_a_feed_that_would_outgrow_the_limit_of_a_page_is_read_as_it_is() -> None:
    body = RSS.format("<description><![CDATA[" + "<" * 1000 + "]]></description>")
    assert page_of_body(body, None, 2000).body == body.encode()
    assert b"&lt;&lt;" in page_of_body(body, None, 8000).body


@pytest.mark.parametrize("content_type", ["application/json", "application/ld+json; charset=utf-8", "text/json"])
def test_escaped_letters_of_json_are_letters(content_type: str) -> None:
    text = 'Добрый день, "мир"\nи 漢字 😀x C:\\new'
    page = page_of_body(json.dumps({"a": text}), content_type)
    assert [block.tokens for block in blocks_of(page.body, page.markup)] == [
        tuple("a добрый день мир и 漢 字 x c new".split())
    ]


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (r'{"a": "\ud83d b \u00e9"}', "application/json", "a b é"),
        (r'{"a": "\u00e9"}', "text/plain", "a u00e9"),
        (r'{"a": "\u00', "application/json", "a u00"),
        (r'{"a": "line one\nline two\tend"}', "application/json", "a line one line two end"),
    ],
)
def test_other_backslashes_are_signs(body: str, content_type: str, expected: str) -> None:
    assert blocks(body, content_type) == expected
