"""`make fuzz` runs its targets, reports broken rules with the input that broke them, and writes its report."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bench.fuzz import __main__ as fuzz
from bench.fuzz.__main__ import FuzzResult
from bench.fuzz.targets import TARGETS
from tests.conftest import REPOSITORY

BY_CHANCE = importlib.util.find_spec("atheris") is None


def test_a_target_is_run_until_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["charset", "--minutes", "0.03"]) == 0
    name, _, printed = capsys.readouterr().out.partition(": ")
    assert name == "charset"
    executions, findings = printed.strip().removesuffix(" findings").split(" executions, ")
    assert int(executions.replace(",", "")) > 0
    assert findings == "0"


@pytest.mark.skipif(not BY_CHANCE, reason="with atheris the input is in a file of libFuzzer's")
def test_an_input_that_breaks_a_rule_is_kept_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        Path(command[-1], "running").write_bytes(b"the input")
        output = 'Traceback (most recent call last):\n  File "x"\nAssertionError: a rule\n'
        return subprocess.CompletedProcess(command, 1, "", output)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(tmp_path))
    assert fuzz.main(["manifest", "--minutes", "1"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"manifest: 0 executions, {fuzz.MOST_FINDINGS} findings"
    assert printed[1] == "  AssertionError: a rule"
    assert Path(printed[2].strip()).read_bytes() == b"the input"


def test_figures_are_read_from_what_a_guided_process_says() -> None:
    output = "#12\tNEW    cov: 41 ft: 80 corp: 3\n#20\tDONE   cov: 57 ft: 90\nstat::number_of_executed_units: 1234\n"
    assert fuzz._executions(output) == 1234
    assert max(map(int, fuzz._COVERED.findall(output))) == 57
    assert fuzz._executions("") == 0
    assert fuzz._error_line("x\n==7== ERROR: libFuzzer: timeout after 60 seconds\n") == (
        "==7== ERROR: libFuzzer: timeout after 60 seconds"
    )


def test_the_report_has_a_row_for_each_target_the_sums_and_every_finding() -> None:
    ran = {name: FuzzResult(1_000, 60.0, 30, 7, []) for name in TARGETS}
    ran["markup"] = FuzzResult(5, 60.0, None, 7, [("AssertionError: a rule", Path("input"))])
    lines = fuzz.report(ran, 10.0, 1).splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(TARGETS)
    total = 1_000 * (len(TARGETS) - 1) + 5
    assert f"| all | | {60 * len(TARGETS)} | {total:,} | | | 1 |" in lines
    assert lines[-1] == "- `markup`: AssertionError: a rule"


def test_the_module_says_what_may_be_fuzzed() -> None:
    command = [sys.executable, "-m", "bench.fuzz", "nothing"]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "invalid choice: 'nothing'" in ran.stderr
