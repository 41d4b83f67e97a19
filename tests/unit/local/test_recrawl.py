"""`policy.recrawl` as a user sees it: pages of one address fetched again, in files."""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.filter_crawl import article, filter_json, lines, page, read_json, refused

URL = "https://example.com/story"


def fetched(name: str, note: str = "", more: str = "", url: str = URL) -> dict[str, Any]:
    """The article at a URL, with a line of its own and an invisible comment."""
    body = f"<html><!-- {note} --><body><p>{article(1)} {more}</p></body></html>"
    return page(1, name) | {"url": url, "body": body}


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """A page; its bytes, its text in other bytes, and it with another line, all at its address; and elsewhere."""
    other, late = "https://mirror.example/story", "It rained all day in the village."
    path = tmp_path / "crawl.jsonl"
    pages = [
        fetched("first"),
        fetched("same-bytes", url=f"{URL}#top"),
        fetched("same-text", "built on Monday"),
        fetched("changed", more=late),
        fetched("elsewhere", url=other),
        fetched("changed-elsewhere", more=late, url=other),
    ]
    path.write_bytes(lines(pages))
    return path


DROP = {"first": ("novel", "no_match", None), "same-bytes": ("duplicate", "exact", "first")} | {
    name: ("duplicate", reason, "first")
    for name, reason in (
        ("same-text", "contained"),
        ("changed", "contained"),
        ("elsewhere", "exact"),
        ("changed-elsewhere", "contained"),
    )
}
EXPECTED = {
    "drop": DROP,
    "identical": DROP
    | {"same-text": ("duplicate", "same_text", "first"), "changed": ("novel", "recrawl", None)}
    | {"elsewhere": ("duplicate", "exact", "first")},
    "pass": DROP | dict.fromkeys(("same-bytes", "same-text", "changed"), ("novel", "recrawl", None)),
}


@pytest.mark.parametrize("batch_pages", [1, 100])
@pytest.mark.parametrize("recrawl", EXPECTED)
def test_a_page_fetched_again_is_dropped_as_the_policy_says(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], recrawl: str, batch_pages: int
) -> None:
    given = ("--set", f"policy.recrawl={recrawl}", "--set", f"service.batch_pages={batch_pages}")
    verdicts, state = tmp_path / "verdicts.jsonl", tmp_path / "state"
    summary = filter_json(capsys, crawl, *given, "--verdicts", verdicts, "--state", state)
    found = {line["id"]: (line["verdict"], line["reason"], line["duplicate_of"]) for line in read_json(verdicts)}
    assert found == EXPECTED[recrawl]
    passed = sum(reason == "recrawl" for _, reason, _ in found.values())
    assert summary["reasons"].get("recrawl", 0) == passed
    filter_json(capsys, crawl, *given, "--verdicts", verdicts, "--state", state, "--force")
    again = {line["id"]: (line["verdict"], line["duplicate_of"]) for line in read_json(verdicts)}
    assert again == {name: (kind, original) for name, (kind, _, original) in found.items()}


@pytest.mark.parametrize("scheme", ["chain", "minhash", "onebit", "adaptive-shingles"])
def test_other_schemes_keep_to_it_too(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    for recrawl, passed in (("pass", ["same-bytes", "same-text", "changed"]), ("identical", ["changed"])):
        given = ("--set", f"policy.recrawl={recrawl}", "--scheme", scheme, "--force")
        filter_json(capsys, crawl, *given, "--verdicts", verdicts)
        found = read_json(verdicts)
        assert [line["id"] for line in found if line["reason"] == "recrawl"] == passed


def test_a_page_that_is_fetched_ten_times_makes_no_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl, verdicts = tmp_path / "crawl.jsonl", tmp_path / "verdicts.jsonl"
    fetches = [fetched(f"f{number}", more=f"Read {number} times.") for number in range(14)]
    last = fetched("print", more="Printed.", url="https://example.com/story?print=1")
    crawl.write_bytes(lines([*fetches, last]))
    filter_json(capsys, crawl, "--set", "policy.recrawl=pass", "--verdicts", verdicts)
    *passed, copy = read_json(verdicts)
    assert {line["reason"] for line in passed[1:]} == {"recrawl"}
    assert (copy["verdict"], copy["duplicate_of"]) == ("duplicate", "f0")


def test_a_state_is_bound_to_it(crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filter_json(capsys, crawl, "--state", tmp_path / "state", "--set", "policy.recrawl=pass")
    code, error = refused(capsys, crawl, "--state", tmp_path / "state")
    assert (code, 'policy.recrawl is "pass" in the state' in error) == (4, True)
    assert refused(capsys, crawl, "--set", "policy.recrawl=never")[0] == 2
