"""A path that is used again: the same records keep their verdicts, and others of the same place are judged again."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.filter_crawl import filter_json, lines, page, read_json, spotsieve, warc_record

DAY = 20


def crawled(day: int) -> list[dict[str, Any]]:
    """The same stories at the same places of the file, fetched again."""
    return [
        page(number) | {"id": f"{day}-{number}", "fetched_at": f"2024-03-0{day}T00:00:00Z"} for number in range(DAY)
    ]


@pytest.mark.guarantee("copies in a file with a known name are dropped", fault="tomorrow's file has today's path")
def test_tomorrows_file_of_the_same_name_has_copies_and_no_first_attempts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state, verdicts_file = tmp_path / "today.jsonl", tmp_path / "state", tmp_path / "v.jsonl"
    path.write_bytes(lines(crawled(1)))
    assert filter_json(capsys, path, "--state", state)["novel"] == DAY
    path.write_bytes(lines([*crawled(2), page(99)]))
    summary = filter_json(capsys, path, "--state", state, "--verdicts", verdicts_file)
    assert (summary["duplicate"], summary["reasons"]["no_match"]) == (DAY, 1)
    assert [line["duplicate_of"] for line in read_json(verdicts_file)[:DAY]] == [f"1-{number}" for number in range(DAY)]
    assert summary["changed_files"] == {str(path): 1}
    again = filter_json(capsys, path, "--state", state)
    assert (again["duplicate"], again["novel"], again["changed_files"]) == (DAY, 1, {})


def test_the_same_file_again_keeps_its_verdicts_compressed_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = tmp_path / "crawl.warc", tmp_path / "state"
    path.write_bytes(warc_record(1, "https://e.com/1") + warc_record(2, "https://e.com/2"))
    first = filter_json(capsys, path, "--state", state)
    again = filter_json(capsys, path, "--state", state)
    assert first["reasons"] == {"no_match": 2}
    assert again["reasons"] == {"first_attempt": 2}
    path.write_bytes(warc_record(2, "https://e.com/2") + warc_record(1, "https://e.com/1"))
    assert filter_json(capsys, path, "--state", state)["duplicate"] == 2


def test_other_pages_on_standard_input_are_no_first_attempts(tmp_path: Path) -> None:
    reasons = []
    for day in (1, 2, 2):
        with spotsieve("-", "--state", tmp_path / "state", "--json") as process:
            out, _ = process.communicate(lines(crawled(day)))
        reasons.append({name: json.loads(out)[name] for name in ("novel", "duplicate")})
    assert reasons == [{"novel": DAY, "duplicate": 0}, *[{"novel": 0, "duplicate": DAY}] * 2]


def test_a_file_that_is_named_twice_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "crawl.jsonl", tmp_path / "out.jsonl"
    path.write_bytes(lines(crawled(1)))
    (tmp_path / "link.jsonl").symlink_to(path)
    summary = filter_json(capsys, path, path, tmp_path / "link.jsonl", "--out", out)
    assert (summary["files"], summary["pages"]) == (1, DAY)
    assert out.read_bytes() == path.read_bytes()
