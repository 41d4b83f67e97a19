"""The commands of docs/evaluate.md print what it shows, on the pages that it uses."""

import re
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import run_with
from tests.fixtures.pages.judged import judge_by_truth
from tests.fixtures.services.forking import forked_command

DOCUMENT = REPOSITORY / "docs" / "evaluate.md"


def test_the_commands_of_the_document_print_what_it_shows(tmp_path: Path) -> None:
    blocks = re.findall(r"^```console\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    shown = [found for block in blocks for found in re.findall(r"^\$ (.*?)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]
    assert len(shown) == 11
    for command, output in shown:
        if "--labels" in command and not (tmp_path / "labels.jsonl").exists():
            judge_by_truth(tmp_path / "review.html", tmp_path / "labels.jsonl")
        ran = run_with(forked_command(REPOSITORY).parent, tmp_path, "sh", "-c", command)
        ran.check_returncode()
        printed = ran.stdout.splitlines()
        assert [line for line in output.splitlines() if line not in printed] == [], command


def test_its_pictures_are_small() -> None:
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", DOCUMENT.read_text("utf-8"))
    assert len(pictures) == 2
    assert all((DOCUMENT.parent / name).stat().st_size < 150_000 for name in pictures)
