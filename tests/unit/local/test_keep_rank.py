"""`policy.keep` `newest`, `highest` and `lowest` as a user sees them: files in, verdicts, a state and its export."""

import json
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import main
from spotsieve.stream.local.library import CrawledPage, Deduplicator
from tests.fixtures.filter_crawl import article, filter_json, lines, page, read_json, refused

RANKED = ("--set", "input.rank_from=quality.score")
HIGHEST = ("--set", "policy.keep=highest", *RANKED)
LOWEST = ("--set", "policy.keep=lowest", *RANKED)
NEWEST = ("--set", "policy.keep=newest")
COPIES: list[tuple[str, object, str]] = [
    ("a", 1.0, "2024-03-01"),
    ("b", "3.5", "2024-01-01"),
    ("c", 3.5, "2024-03-02"),
    ("none", None, "2024-03-03"),
    ("word", "good", "2024-02-01"),
    ("least", -2, "2024-03-03"),
    ("best", 9, "2024-03-04"),
]
"""Copies of one text, some byte-identical, with ranks and times."""
EXPECTED = {
    HIGHEST: {"b": ("better", "a"), "best": ("better", "b")},
    LOWEST: {"least": ("better", "a")},
    NEWEST: {"c": ("better", "a"), "none": ("better", "c"), "best": ("better", "none")},
}


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """The copies, every second one in other bytes, and a page of its own."""
    path = tmp_path / "crawl.jsonl"
    path.write_bytes(lines([*(copy(*one, number % 2) for number, one in enumerate(COPIES)), page(2, "other")]))
    return path


def copy(name: str, rank: object, fetched: str, edit: int) -> dict[str, Any]:
    """A copy of the first article on a host of its own."""
    body = f"<p>{article(1)}{' And so it ends.' * edit}</p>"
    more = {"body": body, "quality": {"score": rank}, "fetched_at": f"{fetched}T00:00:00Z"}
    return page(1, name) | {"url": f"https://{name}.example/"} | more


def kept(path: Path) -> dict[str, tuple[str, str]]:
    """The pages that replace others: reason, and what they replace."""
    return {one["id"]: (one["reason"], one["replaces"]) for one in read_json(path) if "replaces" in one}


@pytest.mark.parametrize("keep", EXPECTED, ids=["highest", "lowest", "newest"])
@pytest.mark.parametrize("batch_pages", [1, 100])
def test_a_better_copy_goes_out_and_says_what_it_replaces(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], keep: tuple[str, ...], batch_pages: int
) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    batch = ("--set", f"service.batch_pages={batch_pages}")
    summary = filter_json(capsys, crawl, *keep, *batch, "--verdicts", verdicts)
    assert kept(verdicts) == EXPECTED[keep]
    assert summary["reasons"]["better"] == len(EXPECTED[keep])
    # The two copies and the page of its own whose rank cannot be read are reported.
    assert summary["without_rank"] == (0 if keep is NEWEST else 3)


def test_a_page_without_a_rank_is_replaced_by_one_that_has_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [copy("none", None, "2024-01-01", 0), copy("low", -1e300, "2024-01-01", 0), copy("no", "", "2024-01-01", 0)]
    (tmp_path / "crawl.jsonl").write_bytes(lines(pages))
    filter_json(capsys, tmp_path / "crawl.jsonl", *HIGHEST, "--verdicts", tmp_path / "verdicts.jsonl")
    assert kept(tmp_path / "verdicts.jsonl") == {"low": ("better", "none")}


def test_a_state_keeps_ranks_and_goes_on_exported_verified_and_asked(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, again = tmp_path / "state", tmp_path / "again.jsonl"
    filter_json(capsys, crawl, *HIGHEST, "--state", state)
    filter_json(capsys, crawl, *HIGHEST, "--state", state, "--verdicts", again)
    assert {one["id"] for one in read_json(again) if one["reason"] == "first_attempt"} == {"a", "b", "best", "other"}
    assert main(["state", "verify", str(state)]) == 0
    assert main(["state", "export", "--state", str(state), "-o", str(tmp_path / "export.jsonl")]) == 0
    exported = map(json.loads, (tmp_path / "export.jsonl").read_text().splitlines())
    entries = [line for line in exported if "entry" in line]
    assert [one["rank"] for one in entries] == ["bff0000000000000", "c00c000000000000", "c022000000000000", "0" * 16]
    code, error = refused(capsys, crawl, "--state", state)
    assert code == 4
    assert 'input.rank_from is "quality.score" in the state and absent in the configuration' in error
    code = main(["explain", "https://b.example/", "https://a.example/", "--state", str(state), "--pages", str(crawl)])
    assert code == 0
    assert "newer or has a better rank" in " ".join(capsys.readouterr().out.split())


def test_ranks_come_from_headers_of_warc_records_before_those_of_the_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def record(name: str, crawler: str, site: str) -> bytes:
        http = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{site}\r\n<p>{article(1)}</p>".encode()
        head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://{name}.example/\r\n{crawler}"
        kind = f"Content-Type: application/http\r\nContent-Length: {len(http)}\r\n\r\n"
        return head.encode() + kind.encode() + http + b"\r\n\r\n"

    date = "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n"
    pages = [record("a", "X-Rank: 2\r\n", ""), record("b", "X-Rank: 1\r\n", "X-Rank: 9\r\n"), record("c", "", date)]
    (tmp_path / "crawl.warc").write_bytes(b"".join(pages))
    for name, out in (("x-rank", []), ("last-modified", ["https://c.example/"])):
        chosen = ("--set", "policy.keep=highest", "--set", f"input.rank_from=header:{name}")
        verdicts = tmp_path / f"{name}.jsonl"
        filter_json(capsys, tmp_path / "crawl.warc", *chosen, "--verdicts", verdicts)
        assert [one["url"] for one in read_json(verdicts) if "replaces" in one] == out


def test_a_program_gives_ranks_and_an_unchanged_page_fetched_again_is_dropped() -> None:
    text = f"<p>{article(1)}</p>"
    with Deduplicator(policy={"keep": "highest", "recrawl": "identical"}, input__rank_from="score") as seen:
        pages = [
            CrawledPage("a", "https://a.example/", text, rank=1),
            CrawledPage("a again", "https://a.example/", text, rank=2),
            CrawledPage("b", "https://b.example/", text, rank=2),
        ]
        verdicts = list(seen.add_many(pages))
    assert [(one.kind, one.replaces and one.replaces.id) for one in verdicts] == [
        ("novel", None),
        ("duplicate", None),
        ("novel", "a"),
    ]


@pytest.mark.parametrize(
    ("given", "clause"),
    [
        (("policy.keep=highest",), "input.rank_from must be set with policy.keep = highest"),
        (("input.rank_from=score",), "input.rank_from is for policy.keep = highest or lowest"),
        (("policy.keep=lowest", "input.rank_from=header: "), "input.rank_from must name a header"),
        (
            ("policy.keep=lowest", "input.rank_from=score", "input.format=html"),
            "must be header:NAME with input.format = html",
        ),
    ],
)
def test_ranks_without_a_use_and_a_use_without_ranks_are_refused(
    crawl: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], clause: str
) -> None:
    code, error = refused(capsys, crawl, *(part for one in given for part in ("--set", one)))
    assert code == 2
    assert clause in error


def test_the_settings_of_states_from_before_ranks_are_the_same_text() -> None:
    assert "rank_from" not in verdict_settings_text(Settings())


def test_a_migrated_state_keeps_ranks_and_replaces_only_what_was_sent(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, more = tmp_path / "old", tmp_path / "more.jsonl"
    more.write_bytes(lines([copy("later", 9.5, "2024-03-05", 0), copy("worst", -3, "2024-01-01", 1)]))
    filter_json(capsys, crawl, *HIGHEST, "--state", old)

    def moved(name: str, *to: str) -> list[dict[str, Any]]:
        state = str(tmp_path / name)
        assert main(["migrate", "--from-state", str(old), "--state", state, *to]) == 0
        capsys.readouterr()
        assert main(["query", str(more), "--state", state, *to]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    same, turned = moved("same", *HIGHEST, "--set", "scheme.min_containment=0.4"), moved("turned", *LOWEST)
    assert [one.get("replaces") for one in same] == ["best", None]
    # `least` is the lowest by its rank, but it was dropped when the highest was kept: nobody was sent it.
    assert [one.get("replaces") for one in turned] == [None, "a"]
    assert same[1]["verdict"] == turned[0]["verdict"] == "duplicate"
