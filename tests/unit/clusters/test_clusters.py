"""`spotsieve clusters` as a user meets it, and its grouping against an obvious one."""

import csv
import gzip
import io
import json
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.cli import main
from spotsieve.stream.insight.clusters import grouping
from spotsieve.stream.insight.clusters.grouping import (
    ClusterBuilder,
    Member,
    NumberSet,
    OriginalRef,
    Statement,
    read_statement,
)
from spotsieve.stream.insight.explain.page_lookup import find_recorded
from spotsieve.stream.research.labelling.population import read_verdicts
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import filter_json, lines, page, read_json
from tests.fixtures.services.forking import forked_command

NAMES = [f"p{number}" for number in range(9)]
names = st.sampled_from(NAMES)
statements = st.lists(
    st.tuples(names, st.sampled_from(["novel", "duplicate", "unchecked"]), st.lists(names, max_size=2), st.booleans()),
    max_size=30,
)


def statement(own: str, verdict: str, originals: list[str], replaces: bool) -> Statement:
    others = [name for name in dict.fromkeys(originals) if name != own]
    replaced = others[0] if replaces and others and verdict == "novel" else ""
    return Statement(
        own, f"https://x.example/{own}", verdict, tuple(OriginalRef(name, "") for name in others), replaced
    )


def members(given_statements: list[Statement]) -> list[Member]:
    with tempfile.TemporaryFile() as spool:
        found = ClusterBuilder(spool)
        for one in given_statements:
            found.add(one)
        return list(found.members())


def obvious(given_statements: list[Statement]) -> dict[str, set[str]]:
    """The pages of each page's cluster, by walking along all links."""
    links: dict[str, set[str]] = defaultdict(set)
    for one in given_statements:
        links[one.id].add(one.id)
        for named in one.originals:
            links[one.id].add(named.id)
            links[named.id] |= {one.id, named.id}
    clusters = {}
    for start in links:
        reached, waiting = set[str](), [start]
        while waiting:
            at = waiting.pop()
            if at not in reached:
                reached.add(at)
                waiting += links[at]
        clusters[start] = reached
    return clusters


@given(statements, st.integers(1, 4))
@settings(deadline=None, max_examples=150)
def test_clusters_are_the_connected_components_of_all_links(
    drawn: list[tuple[str, str, list[str], bool]], chunk: int
) -> None:
    stated = [statement(*one) for one in drawn]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "_CHUNK", chunk)
        found = members(stated)
    clusters = obvious(stated)
    assert sorted(member.id for member in found) == sorted(clusters)
    heads: dict[str, str] = {}
    first = {one.id: one for one in reversed(stated)}
    replaced = {one.replaces for one in stated}
    for member in found:
        cluster = clusters[member.id]
        assert member.size == len(cluster)
        assert member.cluster in cluster
        assert heads.setdefault(min(cluster), member.cluster) == member.cluster
        assert member.verdict == (first[member.id].verdict if member.id in first else None)
    for member in found:
        if member.canonical and member.size > 1:
            kept = [
                other.id
                for other in found
                if other.id in clusters[member.id] and other.verdict != "duplicate" and other.id not in replaced
            ]
            assert not kept or member.id == kept[0]


def test_a_number_is_new_only_once() -> None:
    seen, rng, met = NumberSet(), np.random.default_rng(1), set[int]()
    for _ in range(60):
        numbers = rng.integers(0, 3_000, 100).astype(np.uint64)
        fresh = seen.add(numbers)
        for number, new in zip(numbers.tolist(), fresh.tolist(), strict=True):
            assert new == (number not in met)
            met.add(number)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b'{"url": "https://x.example/", "body": "text"}',
        b'{"id": "a", "verdict": "perhaps"}',
        b'{"id": "a", "verdict": "duplicate", "duplicate_of": null}',
        b'{"id": 1, "verdict": "novel"}',
        b'{"page": {"id": "t/0/1"}, "duplicate_of": "t/0/0"}',
    ],
)
def test_lines_without_a_verdict_have_no_statement(line: bytes) -> None:
    assert read_statement(line) is None


def test_reports_matches_and_superseded_pages_become_statements() -> None:
    report = b'{"page": {"id": "t/0/1", "url": "u"}, "duplicate_of": {"id": "a", "page": "t/0/0", "url": "v"}}'
    assert read_statement(report) == Statement("t/0/1", "u", "duplicate", (OriginalRef("t/0/0", "v"),))
    row = {"id": "a", "verdict": "duplicate", "duplicate_of": "b", "url": "u", "original_url": "v"}
    matches = [{"id": "b", "url": "v"}, {"id": "c", "url": "w"}, {"id": "a", "url": "u"}]
    assert read_statement(json.dumps(row | {"matches": matches}).encode()) == Statement(
        "a", "u", "duplicate", (OriginalRef("b", "v"), OriginalRef("c", "w"))
    )
    longer = {"id": "a", "verdict": "novel", "duplicate_of": None, "url": "u", "replaces": "b", "replaced_url": "v"}
    assert read_statement(json.dumps(longer).encode()) == Statement("a", "u", "novel", (OriginalRef("b", "v"),), "b")


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Verdicts and state of five pages: two copies of the first, of which the last is longer, and one alone."""
    directory = tmp_path_factory.mktemp("clusters")
    whole = page(1, "whole")
    short = page(1, "short") | {"url": "https://short.example/"}
    short["body"] = f"{whole['body'][: len(whole['body']) * 3 // 4]}</p>"
    pages = [short, page(2, "alone"), page(1, "copy") | {"url": "https://copy.example/"}, whole]
    pages[2]["body"] = short["body"]
    (directory / "pages.jsonl").write_bytes(lines(pages))
    arguments = ["filter", directory / "pages.jsonl", "--verdicts", directory / "verdicts.jsonl"]
    arguments += ["--duplicates", directory / "duplicates.jsonl", "--state", directory / "state"]
    assert main([*map(str, arguments), "--set", "policy.keep=longest"]) == 0
    return directory


def listed(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> list[dict[str, Any]]:
    assert main(["clusters", *map(str, arguments)]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


EXPECTED = {"short": ("whole", False, 3), "alone": ("alone", True, 1), "copy": ("whole", False, 3)}
EXPECTED["whole"] = ("whole", True, 3)


@pytest.mark.parametrize("of", ["lines", "state"])
def test_every_page_is_listed_with_the_superseding_page(
    filtered: Path, capsys: pytest.CaptureFixture[str], of: str
) -> None:
    source = [filtered / "verdicts.jsonl"] if of == "lines" else ["--state", filtered / "state"]
    found = listed(capsys, *source)
    assert {line["id"]: (line["cluster"], line["canonical"], line["size"]) for line in found} == EXPECTED
    assert [line["id"] for line in found] == list(EXPECTED)
    assert [line["id"] for line in listed(capsys, *source, "--copies")] == ["short", "copy", "whole"]
    assert [line["id"] for line in listed(capsys, *source, "--drop-all-copies")] == ["alone"]


def test_the_parquet_verdicts_of_a_backfill_are_read_like_lines(
    filtered: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "backfill",
        filtered / "pages.jsonl",
        "--state",
        tmp_path / "state",
        "--verdicts",
        tmp_path / "verdicts",
    ]
    assert main([*map(str, arguments), "--readers", "1", "--set", "policy.keep=longest"]) == 0
    (part,) = (tmp_path / "verdicts").iterdir()
    assert listed(capsys, part) == listed(capsys, filtered / "verdicts.jsonl")
    # score and review read one file or all parts of a backfill.
    of_lines = read_verdicts(filtered / "verdicts.jsonl", "spotsieve")
    assert read_verdicts(part, "spotsieve") == read_verdicts(tmp_path / "verdicts", "spotsieve") == of_lines
    assert len(of_lines) == 4
    assert find_recorded([part], "copy") == find_recorded([filtered / "verdicts.jsonl"], "copy") is not None


def test_parquet_on_standard_input_and_damaged_parquet_are_reported(
    filtered: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "verdicts.parquet"
    damaged.write_bytes(b"PAR1" + bytes(100))
    assert listed(capsys, damaged, filtered / "verdicts.jsonl", code=3) != []
    with pytest.raises(InputError, match=r"verdicts\.parquet"):
        read_verdicts(damaged, None)
    empty = tmp_path / "parts"
    empty.mkdir()
    with pytest.raises(InputError, match="has no files of verdicts"):
        read_verdicts(empty, None)
    done = subprocess.run(
        [forked_command(REPOSITORY), "clusters", "-"],
        input=b"PAR1" + bytes(100),
        capture_output=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 3
    assert b"save it as a file" in done.stderr


def test_reports_alone_name_their_originals(filtered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = listed(capsys, filtered / "duplicates.jsonl")
    assert [(line["id"], line["verdict"], line["url"], line["canonical"]) for line in found] == [
        ("short", None, "https://short.example/", True),
        ("copy", "duplicate", "https://copy.example/", False),
    ]


def test_csv_has_the_same_columns(filtered: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "clusters.csv"
    assert main(["clusters", str(filtered / "verdicts.jsonl"), "--out", str(out)]) == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text("utf-8"))))
    assert {row["id"]: (row["cluster"], row["canonical"], row["size"]) for row in rows} == {
        name: (head, str(canonical).lower(), str(size)) for name, (head, canonical, size) in EXPECTED.items()
    }
    assert "whole" in capsys.readouterr().err or rows
    for name in ("upper.CSV", "packed.csv.gz"):
        assert main(["clusters", str(filtered / "verdicts.jsonl"), "--out", str(tmp_path / name)]) == 0
    assert (
        (tmp_path / "upper.CSV").read_bytes()
        == out.read_bytes()
        == gzip.decompress((tmp_path / "packed.csv.gz").read_bytes())
    )


def test_lines_of_two_runs_count_a_page_once(filtered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = [str(filtered / "verdicts.jsonl"), "-"]
    done = subprocess.run(
        [forked_command(REPOSITORY), "clusters", *twice, "--json", "--out", "/dev/null"],
        cwd=REPOSITORY,
        input=(filtered / "verdicts.jsonl").read_bytes(),
        capture_output=True,
        check=True,
    )
    summary = json.loads(done.stdout)
    assert (summary["pages"], summary["repeated"], summary["clusters"], summary["largest"]) == (4, 4, 1, 3)
    assert capsys.readouterr().err == ""


def test_a_state_is_judged_with_its_own_settings(filtered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clusters", "--state", str(filtered / "state"), "--set", "policy.keep=first"]) == 4
    assert "policy.keep" in capsys.readouterr().err


def test_a_state_without_a_log_of_its_own_is_rejected(
    filtered: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    filter_json(capsys, filtered / "pages.jsonl", "--state", state)
    (state / "log").unlink()
    assert main(["clusters", "--state", str(state)]) == 4
    assert "must be the state of `spotsieve filter`, which has a log of its own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "needs exactly one source"),
        (["--topics", "lines.jsonl"], 2, "needs exactly one source"),
        (["nowhere.jsonl"], 3, "nowhere.jsonl cannot be read"),
        (["pages.jsonl"], 3, "has 4 lines (of 4) that are not verdicts; the first is line 1"),
        (["verdicts.jsonl", "--out", "verdicts.jsonl"], 2, "must not go to the same place"),
        (["verdicts.jsonl", "--out", "all.parquet"], 2, "has a suffix of another format"),
        (["verdicts.jsonl", "--json"], 2, "--out must not go to the same place"),
    ],
)
def test_user_errors_are_one_line(
    arguments: list[str],
    code: int,
    message: str,
    filtered: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(filtered)
    assert main(["clusters", *arguments]) == code
    assert message in capsys.readouterr().err


def test_a_truncated_compressed_file_is_reported(
    filtered: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "all.jsonl.gz"
    assert main(["clusters", str(filtered / "verdicts.jsonl"), "--out", str(out)]) == 0
    assert [line["id"] for line in read_json(out)] == list(EXPECTED)
    out.write_bytes(out.read_bytes()[:-12])
    capsys.readouterr()
    assert main(["clusters", str(out)]) == 3
    error = capsys.readouterr().err
    assert "is damaged gzip" in error
    assert "records before the damage were read; get the file again, and repeat the command" in error
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    assert main(["clusters", str(damaged)]) == 3
    assert "judged" not in error + capsys.readouterr().err
