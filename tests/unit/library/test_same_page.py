"""What differs between two fetches of one page, and says nothing about its text, changes no verdict."""

import json
from pathlib import Path

import pytest

from spotsieve import Deduplicator
from tests.fixtures.filter_crawl import article, filter_json, page, read_json
from tests.fixtures.pages.warc_records import http, warc

SESSIONS = (
    "https://shop.example/page;jsessionid={0}",
    "https://shop.example/page?PHPSESSID={0}",
    "https://shop.example/page?a=1&sid={0}#top",
    "https://shop.example/{0}/page",
)


def with_session(seed: int, session: str) -> str:
    links = "".join(f"<li><a href='/{place};jsessionid={session}?sid={session}'>Part {place}</a>" for place in range(9))
    form = f"<form action='/search?sid={session}'><input type=hidden name=sid value={session}></form>"
    return f"<html><body><ul>{links}</ul>{form}{article(seed)}</body></html>"


@pytest.mark.parametrize("url", SESSIONS)
def test_session_ids_in_urls_and_links_change_no_verdict(url: str) -> None:
    ids = [f"{number:032x}" for number in range(0x5EED, 0x5EED + 12)]
    with Deduplicator() as seen:
        first = [seen.add(one, url.format(one), with_session(1, one)) for one in ids]
        other = [seen.add(f"b{one}", url.replace("page", "other").format(one), with_session(2, one)) for one in ids]
    assert [found.kind for found in first] == [found.kind for found in other] == ["novel"] + ["duplicate"] * 11
    assert {found.original.id for found in first if found.original} == {ids[0]}


SPELLINGS = (
    ("https://bücher.example/", "https://xn--bcher-kva.example/", "https://www.BÜCHER.example:443/"),
    ("http://例え.テスト/", "http://xn--r8jz45g.xn--zckzah/", "http://XN--R8JZ45G.xn--zckzah./"),
    ("https://пример.рф/", "https://xn--e1afmkfd.xn--p1ai/", "https://ПРИМЕР.рф/"),
    ("https://münchen.example/", "https://xn--mnchen-3ya.example/", "https://mu\u0308nchen.example/"),
)


@pytest.mark.parametrize("spellings", SPELLINGS)
def test_the_spellings_of_an_international_host_are_one_host(spellings: tuple[str, ...]) -> None:
    for earlier in spellings:
        with Deduplicator(index__scope="host") as seen:
            assert seen.add("a", f"{earlier}1", str(page(1)["body"])).kind == "novel"
            assert seen.add("b", "https://other.example/1", str(page(1)["body"])).kind == "novel", "another host"
            for place, later in enumerate(spellings):
                assert seen.add(place, f"{later}2", str(page(1)["body"])).kind == "duplicate"


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_line_ends_change_no_verdict(line_end: str) -> None:
    def body(seed: int) -> str:
        lines = article(seed).replace(". ", ".\n").replace("</p>", "</p>\n\n")
        return f"<!DOCTYPE html>\n<html\n lang=en>\n<body>\n<pre>\nA line\nand another\n</pre>\n{lines}\n</body>\n"

    for content_type in ("text/html", "text/plain", "application/xhtml+xml"):
        with Deduplicator() as seen:
            assert seen.add("lf", "https://a.example/", body(1), content_type=content_type).kind == "novel"
            copy = seen.add("other", "https://b.example/", body(1).replace("\n", line_end), content_type=content_type)
            assert (copy.kind, copy.score) == ("duplicate", 1.0)
            other = seen.add("two", "https://b.example/2", body(2).replace("\n", line_end), content_type=content_type)
            assert other.kind == "novel"


def test_line_ends_of_headers_in_archives_change_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = []
    for name in ("crlf", "lf"):
        records = [warc(http(str(page(seed)["body"]).encode())) for seed in (1, 2, 1)]
        if name == "lf":
            blocks = [http(str(page(seed)["body"]).encode()).replace(b"\r\n", b"\n") for seed in (1, 2, 1)]
            records = [warc(block).replace(b"\r\n", b"\n") for block in blocks]
        path, verdicts_file = tmp_path / f"{name}.warc", tmp_path / f"{name}.jsonl"
        path.write_bytes(b"".join(records))
        filter_json(capsys, path, "--verdicts", verdicts_file)
        verdicts.append([(line["verdict"], line["reason"]) for line in read_json(verdicts_file)])
    assert verdicts[0] == verdicts[1] == [("novel", "no_match")] * 2 + [("duplicate", "exact")]


def test_the_last_of_equal_json_keys_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, verdicts_file = tmp_path / "p.jsonl", tmp_path / "v.jsonl"
    one, two = (json.dumps(page(seed)["body"]) for seed in (1, 2))
    lines = [
        f'{{"url": "https://a.example/1", "body": {one}}}',
        f'{{"url": "https://a.example/2", "body": {one}, "body": {two}}}',
        f'{{"body": {two}, "url": "https://a.example/3", "body": {one}}}',
        f'{{"body": "", "url": "", "url": "https://a.example/4", "b\\u006fdy": {two}}}',
        f'{{"status": 404, "url": "https://a.example/5", "body": {one}, "status": 200}}',
        f'{{"status": 200, "url": "https://a.example/6", "body": {one}, "status": 404}}',
    ]
    path.write_text("\n".join(lines))
    filter_json(capsys, path, "--verdicts", verdicts_file)
    assert [
        (line["verdict"], line["url"][-1], (line["original_url"] or "")[-1:]) for line in read_json(verdicts_file)
    ] == [
        ("novel", "1", ""),
        ("novel", "2", ""),
        ("duplicate", "3", "1"),
        ("duplicate", "4", "2"),
        ("duplicate", "5", "1"),
        ("unchecked", "6", ""),
    ]
