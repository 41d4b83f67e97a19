"""Every command that takes files of verdicts reads JSON lines and Parquet, compressed or not, and a whole backfill."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from spotsieve.stream.cli import main
from tests.fixtures.filter_crawl import write_crawl

FORMS = ("v.jsonl", "v.jsonl.gz", "v.parquet", "folder")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of a crawl, and their verdicts in every form."""
    made = tmp_path_factory.mktemp("verdicts")
    write_crawl(made / "crawl.jsonl")
    assert main(["filter", str(made / "crawl.jsonl"), "--verdicts", str(made / "v.jsonl"), "--json"]) == 0
    (made / "v.jsonl.gz").write_bytes(gzip.compress((made / "v.jsonl").read_bytes()))
    backfill = ["backfill", made / "crawl.jsonl", "--verdicts", made / "folder", "--state", made / "state"]
    assert main([*map(str, backfill), "--readers", "1", "--json"]) == 0
    (part,) = (made / "folder").iterdir()
    shutil.copy(part, made / "v.parquet")
    return made


def clusters(crawl: Path, verdicts: Path) -> list[object]:
    del crawl
    return ["clusters", verdicts]


def explain(crawl: Path, verdicts: Path) -> list[object]:
    return ["explain", "copy", "--pages", crawl, "--verdicts", verdicts, "--json"]


def score(crawl: Path, verdicts: Path) -> list[object]:
    return ["score", crawl, "--read-verdicts", verdicts, "--json"]


def review(crawl: Path, verdicts: Path) -> list[object]:
    return ["review", crawl, "--verdicts", verdicts, "--out", verdicts.parent / "review.html", "--force"]


@pytest.mark.parametrize(
    ("command", "says"), [(clusters, "copy"), (explain, "copy"), (score, '"dropped": 2'), (review, "copy")]
)
def test_a_command_says_the_same_of_verdicts_in_every_form(
    folder: Path, command: Callable[[Path, Path], list[object]], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = list[str]()
    for form in FORMS:
        capsys.readouterr()
        assert main(list(map(str, command(folder / "crawl.jsonl", folder / form)))) == 0, capsys.readouterr().err
        out = capsys.readouterr().out
        if command is review:
            out = (folder / "review.html").read_text("utf-8")
        found.append(out.replace(json.dumps(str(folder / form))[1:-1], "FILE"))
    assert says in found[0]
    assert found == [found[0]] * len(FORMS)


def test_a_folder_without_verdicts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clusters", str(tmp_path)]) == 3
    assert "has no files of verdicts, which end in .parquet" in capsys.readouterr().err
