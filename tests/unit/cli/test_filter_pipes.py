"""`spotsieve filter` in a pipe: pages on standard output, everything else on standard error."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from spotsieve.stream.cli import main
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import lines, page, read_json, run_with, warc_record
from tests.fixtures.services.forking import forked_command


def _in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of a shell, in which `spotsieve` is a fork."""
    return run_with(forked_command(REPOSITORY).parent, folder, "bash", "-c", command)


def test_pages_go_to_a_pipe_without_out_and_the_summary_to_standard_error(tmp_path: Path) -> None:
    content = lines([page(1), page(1, "copy", "note"), page(2)])
    (tmp_path / "pages.jsonl").write_bytes(content)
    done = _in_shell("cat pages.jsonl | spotsieve filter - | cat; exit ${PIPESTATUS[1]}", tmp_path)
    first, _, third = content.decode().splitlines()
    assert (done.returncode, done.stdout.splitlines()) == (0, [first, third])
    assert "3 pages of 1 file" in done.stderr


def test_a_reader_that_ends_early_ends_the_filter_and_leaves_a_usable_state(tmp_path: Path) -> None:
    pages = [page(number, note="x" * 2000) for number in range(1500)]
    (tmp_path / "pages.jsonl").write_bytes(lines(pages))
    cut = _in_shell("spotsieve filter pages.jsonl --state seen | head -n 1; exit ${PIPESTATUS[0]}", tmp_path)
    assert (cut.returncode, cut.stdout.count("\n"), cut.stderr) == (141, 1, "")
    verified = _in_shell("spotsieve state verify seen", tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    again = _in_shell("spotsieve filter pages.jsonl --state seen > novel.jsonl", tmp_path)
    assert again.returncode == 0, again.stderr
    assert [one["id"] for one in read_json(tmp_path / "novel.jsonl")] == [one["id"] for one in pages]


def test_standard_output_has_one_use(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_bytes(lines([page(1)]))
    summary = _in_shell("spotsieve filter pages.jsonl --json", tmp_path)
    assert summary.stdout.startswith('{"files"')
    assert summary.stdout.count("\n") == 1
    verdicts = _in_shell("spotsieve filter pages.jsonl --verdicts -", tmp_path)
    assert verdicts.stdout.startswith('{"id":"p1","verdict":"novel"')
    assert verdicts.stdout.count("\n") == 1


def test_pages_of_two_formats_do_not_matter_where_nothing_gets_them(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_bytes(lines([page(1)]))
    (tmp_path / "page.warc").write_bytes(warc_record(2, "https://example.com/2"))
    done = _in_shell("spotsieve filter pages.jsonl page.warc > /dev/null", tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_terminal_without_out_gets_one_sentence_with_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(lines([page(1)]))
    controller, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "spotsieve.stream", "filter", str(path)],
        cwd=tmp_path,
        stdout=terminal,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=400,
    )
    os.close(terminal)
    os.close(controller)
    hint = "spotsieve: nothing gets the pages; add --out FILE, or pipe the output into a program"
    assert done.returncode == 0
    assert done.stderr.splitlines().count(hint) == 1


def test_a_python_program_that_calls_the_command_reads_pages_too(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(lines([page(1)]))
    assert main(["filter", str(path)]) == 0
    assert capfdbinary.readouterr().out == path.read_bytes()
