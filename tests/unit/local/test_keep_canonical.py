"""`policy.keep = "canonical"`: which copy is kept by what its URL is and by what the page says of itself."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.base.page import Markup, Page
from spotsieve.stream.base.settings.digest import signing_difference, verdict_settings_text
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.urls import names_visit
from spotsieve.stream.sign.schemes.prepared_pages import (
    HEAD_BYTES,
    canonical_links,
    declares_itself,
    rank_by_url,
)
from tests.fixtures.cpu_time import assert_cpu_below
from tests.fixtures.filter_crawl import article, filter_json, lines, page, read_json

CANONICAL = ("--set", "policy.keep=canonical")
OWN = "https://herald.example/mill"


def link(target: str) -> str:
    return f'<link rel="canonical" href="{target}">'


def crawled(name: str, url: str, head: str = "") -> dict[str, Any]:
    return page(1, name) | {"url": url, "body": f"<html><head>{head}</head><body><p>{article(1)}</p></body></html>"}


COPIES = [
    crawled("long", "http://herald.example/mill-in-the-valley?utm_source=mail"),
    crawled("short", "http://herald.example/mill?utm_source=mail"),
    crawled("clean", "http://herald.example/mill-in-the-valley-by-the-river-and-the-road"),
    crawled("https", f"{OWN}-in-the-valley?gclid=1"),
    crawled("secure", f"{OWN}-in-the-valley-of-the-river"),
    crawled("canonical", "http://whistle.example/story/of/the/mill?utm_medium=x", link("?utm_medium=x")),
]
"""Copies of one story; each is preferred to the ones before it."""


def kept(found: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(line["id"], line.get("replaces")) for line in found if line["verdict"] == "novel"]


@pytest.mark.parametrize("batch_pages", [1, 512])
def test_each_better_copy_replaces_the_one_before_it_and_no_worse_one_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], batch_pages: int
) -> None:
    file, verdicts_file = tmp_path / "crawl.jsonl", tmp_path / "v.jsonl"
    options = (*CANONICAL, "--set", f"service.batch_pages={batch_pages}", "--verdicts", verdicts_file, "--force")
    file.write_bytes(lines(COPIES))
    filter_json(capsys, file, *options)
    names = [one["id"] for one in COPIES]
    assert kept(read_json(verdicts_file)) == list(zip(names, [None, *names], strict=False))
    assert {line["reason"] for line in read_json(verdicts_file)[1:]} == {"better"}
    file.write_bytes(lines(COPIES[::-1]))
    filter_json(capsys, file, *options)
    assert kept(read_json(verdicts_file)) == [("canonical", None)]


def test_the_first_of_equal_copies_is_kept_and_other_pages_are_no_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = f"{OWN}/1", f"{OWN}/2"
    circle = [crawled("a", one, link(two)), crawled("b", two, link(one))]
    other = page(2, "other") | {"url": f"{OWN}/3"}
    other["body"] = other["body"].replace("<body>", f"<head>{link(one)}</head><body>")
    verdicts_file = tmp_path / "v.jsonl"
    for order in permutations([*circle, other]):
        (tmp_path / "crawl.jsonl").write_bytes(lines(list(order)))
        filter_json(capsys, tmp_path / "crawl.jsonl", *CANONICAL, "--verdicts", verdicts_file, "--force")
        first = next(page["id"] for page in order if page is not other)
        assert sorted(kept(read_json(verdicts_file))) == sorted([(first, None), ("other", None)])


@pytest.mark.parametrize(
    ("head", "declared"),
    [
        (link(OWN), True),
        (link("/mill"), True),
        (link("HTTPS://HERALD.EXAMPLE/mill#top"), True),
        ("<LINK href=https://herald.example/mill REL='shortlink Canonical'>", True),
        (f"{link(OWN)}{link('/mill')}", True),
        ("", False),
        (link("https://whistle.example/mill"), False),
        (link("/other"), False),
        (f"{link(OWN)}{link('/other')}", False),
        (f"<!-- {link(OWN)} -->", False),
        (f"<script>'{link(OWN)}'</script>", False),
        (f"</head><body>{link(OWN)}", False),
        ('<link rel="alternate" href="/mill">', False),
        ('<link rel="canonical">', False),
        (link("http://[broken"), False),
        (f"<!-- {link(OWN)}", False),
    ],
)
def test_a_page_declares_itself_by_one_canonical_link_to_its_own_url(head: str, declared: bool) -> None:
    assert declares_itself(f"<html><head>{head}".encode(), OWN) is declared


def test_ranks_follow_the_documented_order_and_text_declares_nothing() -> None:
    def rank(url: str, head: str = "", markup: Markup = Markup.HTML) -> float | None:
        return rank_by_url(Page("s", 0, 0, url, f"<head>{head}".encode(), markup, 0))

    assert rank("") is None
    ranks = [rank("http://a.example/" + "x" * 100_000), rank("http://a.example/?a=1"), rank("http://a.example/")]
    ranks += [rank("https://a.example/?fbclid=1"), rank(OWN), rank("http://b.example/?utm_id=1", link("?utm_id=1"))]
    assert ranks == sorted(ranks, key=lambda one: one or 0.0)
    assert len(set(ranks)) == len(ranks)
    assert rank(OWN, link(OWN), Markup.NONE) == rank(OWN)
    assert [names_visit(url) for url in (b"a?utm_x=1", b"a?b=1;GCLID=2", b"a?utm=1", b"a#?gclid=1", b"a")] == [
        *(True, True),
        *(False, False, False),
    ]


def test_a_migration_to_or_from_ranks_by_url_signs_again() -> None:
    plain, canonical = (load_settings(None, {}, {"policy.keep": keep}) for keep in ("newest", "canonical"))
    for one, other in ((plain, canonical), (canonical, plain)):
        assert "policy.keep" in signing_difference(verdict_settings_text(one), other)
    longest = load_settings(None, {}, {"policy.keep": "longest"})
    assert signing_difference(verdict_settings_text(plain), longest) == ""


@pytest.mark.parametrize("part", ["<!--", "<link ", "<script>", "<link rel=", "a=", "<link a", '<link "', "<"])
def test_hostile_heads_are_scanned_in_linear_time(part: str) -> None:
    body = (part * HEAD_BYTES)[: 4 * HEAD_BYTES].encode()
    assert canonical_links(body) == []
    assert_cpu_below(1, lambda: canonical_links(body))
