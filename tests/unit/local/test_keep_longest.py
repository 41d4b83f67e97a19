"""`policy.keep = "longest"` as a user sees it: files in, verdict lines and summary out, and a state bound to it."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.base.settings.model import PolicySettings
from spotsieve.stream.cli import main
from tests.fixtures.filter_crawl import article, filter_json, lines, page, read_json, refused

LONGEST = ("--set", "policy.keep=longest")


def cut(share: float, name: str) -> dict[str, Any]:
    """A text of two articles, cut to a share of its sentences, on a host of its own."""
    sentences = f"{article(1)} {article(3)}".split(". ")
    body = f"<p>{'. '.join(sentences[: round(share * len(sentences))])}.</p>"
    return page(1, name) | {"url": f"https://{name}.example/", "body": body}


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """The text at 68 %, 72 %, 82 %, whole, 68 % and whole, and the first page's bytes once more."""
    shares = [cut(0.68, "short"), cut(0.72, "margin"), cut(0.82, "longer"), cut(1.0, "whole"), cut(0.68, "late")]
    late, again = cut(1.0, "late-whole"), cut(0.68, "short") | {"id": "same", "url": "https://else.example/"}
    path = tmp_path / "crawl.jsonl"
    path.write_bytes(lines([*shares, late, again]))
    return path


EXPECTED = {
    "short": ("novel", "no_match", None),
    "margin": ("duplicate", "contained", "short"),
    "longer": ("novel", "longer", "short"),
    "whole": ("novel", "longer", "longer"),
    "late": ("duplicate", "exact", "short"),
    "late-whole": ("duplicate", "exact", "whole"),
    "same": ("duplicate", "exact", "short"),
}


def verdicts_of(path: Path) -> dict[str, tuple[str, str, str | None]]:
    return {
        line["id"]: (line["verdict"], line["reason"], line.get("replaces") or line["duplicate_of"])
        for line in read_json(path)
    }


@pytest.mark.parametrize("batch_pages", [1, 2, 100])
def test_a_copy_that_is_longer_by_the_margin_goes_out_and_says_what_it_replaces(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], batch_pages: int
) -> None:
    out, verdicts = tmp_path / "out.jsonl", tmp_path / "verdicts.jsonl"
    batch = ("--set", f"service.batch_pages={batch_pages}")
    summary = filter_json(capsys, crawl, *LONGEST, *batch, "--verdicts", verdicts, "--out", out)
    assert verdicts_of(verdicts) == EXPECTED
    assert [line["id"] for line in read_json(out)] == ["short", "longer", "whole"]
    assert (summary["novel"], summary["duplicate"], summary["reasons"]["longer"]) == (3, 4, 2)
    replacing = read_json(verdicts)[2]
    assert (replacing["replaces"], replacing["replaced_url"]) == ("short", "https://short.example/")
    assert replacing["duplicate_of"] is None
    assert "replaces" not in read_json(verdicts)[0]


def test_the_first_is_kept_by_default(crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    filter_json(capsys, crawl, "--verdicts", verdicts)
    assert [line["duplicate_of"] for line in read_json(verdicts)] == [None, *["short"] * 6]
    assert PolicySettings().keep == "first"


def test_a_file_filtered_again_keeps_its_verdicts_though_longer_pages_came_since(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, found = tmp_path / "state", []
    for number in range(2):
        verdicts = tmp_path / f"{number}.jsonl"
        filter_json(capsys, crawl, *LONGEST, "--state", state, "--verdicts", verdicts)
        found.append({name: (kind, page) for name, (kind, _, page) in verdicts_of(verdicts).items()})
    assert found[0] == found[1] == {name: (kind, page) for name, (kind, _, page) in EXPECTED.items()}


def test_a_state_is_bound_to_which_copy_is_kept_and_by_how_much(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filter_json(capsys, crawl, *LONGEST, "--state", tmp_path / "state")
    for given, clause in (
        ((), 'policy.keep is "longest" in the state and "first" in the configuration'),
        ((*LONGEST, "--set", "policy.longer_by=1.5"), "policy.longer_by is 1.2 in the state and 1.5 in the config"),
    ):
        code, error = refused(capsys, crawl, *given, "--state", tmp_path / "state")
        assert code == 4
        assert clause in error
    assert refused(capsys, crawl, "--set", "policy.longer_by=0.9")[0] == 2
    assert refused(capsys, crawl, "--set", "policy.keep=largest")[0] == 2


def test_people_are_told_how_many_were_longer(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["filter", str(crawl), *LONGEST]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("  novel")]
    assert line.split() == ["novel", "3", "(longer", "2)"]


def test_a_sweep_shows_what_keeping_the_longest_lets_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [cut(0.68, "a"), cut(1.0, "b"), page(2, "c")]
    (tmp_path / "pages.jsonl.xz").write_bytes(lzma.compress(lines(pages)))
    truth = "id\tkind\n" + "".join(f"{one['id']}\tarticle\n" for one in pages)
    (tmp_path / "truth.tsv.gz").write_bytes(gzip.compress(truth.encode()))
    pairs = "id_a\tid_b\tsimilarity\tkind\na\tb\t0.9\tcut\n"
    (tmp_path / "pairs.tsv.gz").write_bytes(gzip.compress(pairs.encode()))
    assert main(["score", str(tmp_path), "--sweep", "policy.keep=first,longest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    recalls = {name.split("=")[1]: row["pages"]["recall"] for name, row in found.items()}
    assert recalls == {"first": 1.0, "longest": 0.0}


def test_cluster_ids_name_the_first_page_also_of_pages_that_supersede_it(tmp_path: Path) -> None:
    whole = cut(1.0, "whole")
    short = cut(0.68, "short")
    pages = [short, page(2, "alone"), short | {"id": "copy"}, whole, whole | {"id": "again"}]
    (tmp_path / "pages.jsonl").write_bytes(lines(pages))
    files = ["--verdicts", tmp_path / "v.jsonl", "--duplicates", tmp_path / "d.jsonl", "--out", tmp_path / "o.jsonl"]
    assert main([*map(str, ["filter", tmp_path / "pages.jsonl", *files, "--cluster-ids", *LONGEST])]) == 0
    expected = {"short": "short", "alone": "alone", "copy": "short", "whole": "short", "again": "short"}
    assert {line["id"]: line["cluster"] for line in read_json(tmp_path / "v.jsonl")} == expected
    assert {line["id"]: line["cluster"] for line in read_json(tmp_path / "d.jsonl")} == {
        "copy": "short",
        "again": "short",
    }
    assert "cluster" not in read_json(tmp_path / "o.jsonl")[0]
