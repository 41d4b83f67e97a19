"""`python -m bench.fuzz` divides its time between the fuzz targets and writes docs/measured/fuzz.md."""

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.fuzz.guided import MEMORY_MIB, MOST_BYTES, SECONDS_AN_INPUT
from bench.fuzz.seeds import SEEDS
from bench.fuzz.targets import TARGETS, FuzzTarget

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "measured" / "fuzz.md"
MOST_FINDINGS = 5
"""After this many findings, fuzzing of a target ends."""
START_SECONDS = 120
"""Time that a process may take to start and compile, in addition to its fuzzing time."""
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_COVERED = re.compile(r"cov: (\d+)")


class FuzzResult(NamedTuple):
    """The result of fuzzing a target.

    covered: edges, None without coverage guidance  findings: last line of the output and input file of each
    """

    executions: int
    seconds: float
    covered: int | None
    corpus: int
    findings: list[tuple[str, Path]]


def main(arguments: list[str] | None = None) -> int:
    """Fuzz, and write the report unless targets are named. Returns 1 if an input broke a rule."""
    parser = argparse.ArgumentParser("python -m bench.fuzz", description="Fuzz every reader of foreign bytes.")
    parser.add_argument(
        "target",
        nargs="*",
        choices=[*TARGETS, []],
        default=[],
        metavar="TARGET",
        help=f"{', '.join(TARGETS)}; default all, which writes docs/measured/fuzz.md",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="of fuzzing, for all targets together (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the first process of each target (default 1)")
    options = parser.parse_args(arguments)
    chosen = options.target or list(TARGETS)
    folder = Path(tempfile.mkdtemp(prefix="spotsieve-fuzz-"))
    ran = {}
    for name in chosen:
        ran[name] = _fuzz(TARGETS[name], options.minutes * 60 / len(chosen), options.seed, folder / name)
        print(f"{name}: {ran[name].executions:,} executions, {len(ran[name].findings)} findings", flush=True)
        for what, path in ran[name].findings:
            print(f"  {what}\n  {path}", flush=True)
    if not options.target:
        REPORT.write_text(report(ran, options.minutes, options.seed), "utf-8")
    if not any(found.findings for found in ran.values()):
        shutil.rmtree(folder)
        return 0
    return 1


def _fuzz(target: FuzzTarget, seconds: float, seed: int, folder: Path) -> FuzzResult:
    """Run fuzzing processes one after the other until the time is over. A process ends early at a finding."""
    (folder / "corpus").mkdir(parents=True)
    for number, data in enumerate(SEEDS[target.name]()):
        (folder / "corpus" / f"seed-{number:04}").write_bytes(data)
    executions, covered, findings, spent = 0, None, list[tuple[str, Path]](), 0.0
    while seconds - spent >= 1 and len(findings) < MOST_FINDINGS:
        began, left = time.monotonic(), seconds - spent
        command = [sys.executable, "-m", "bench.fuzz.guided", target.name, f"{left}", f"{seed}", str(folder)]
        try:
            process = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=left + START_SECONDS + 2 * SECONDS_AN_INPUT,
                check=False,
            )
            output, code = process.stdout + process.stderr, process.returncode
        except subprocess.TimeoutExpired as error:
            output, code = f"{error.stdout!r}\nit did not end: an input hangs", -1
        spent += time.monotonic() - began
        seed += 1
        executions += _executions(output)
        covered = max([covered or 0, *map(int, _COVERED.findall(output))]) or None
        if code:
            findings.append((_error_line(output), _failing(folder, len(findings))))
    return FuzzResult(executions, spent, covered, len(list((folder / "corpus").iterdir())), findings)


def _executions(output: str) -> int:
    found = _EXECUTED.search(output)
    if found:
        return int(found.group(1))
    lines = output.strip().splitlines()
    last = lines[-1] if lines else ""
    return int(json.loads(last)["executions"]) if last.startswith('{"executions"') else 0


def _error_line(output: str) -> str:
    """The line of a process's output that names the error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b|==\d+== ?ERROR", line)]
    return (named or lines or ["ended without a word"])[0][:200]


def _failing(folder: Path, number: int) -> Path:
    """Save the input that broke a rule under a unique name."""
    kept = folder / f"finding-{number}"
    left = [path for path in folder.iterdir() if path.name.startswith(("crash-", "timeout-", "oom-", "running"))]
    for path in left:
        path.rename(kept)
    return kept


def report(ran: dict[str, FuzzResult], minutes: float, seed: int) -> str:
    """The text of docs/measured/fuzz.md: date, machine, procedure and results."""
    guide = "without a guide: atheris is not installed here"
    with suppress(importlib.metadata.PackageNotFoundError):
        guide = f"guided by coverage (atheris {importlib.metadata.version('atheris')})"
    cores = os.cpu_count()
    head = f"""# Fuzzing

Written by `make fuzz` (`python -m bench.fuzz`), which runs each target in a process of its own; the suite runs a few
hundred mutated inputs of each, and all that was ever found (`tests/properties/test_fuzz.py`).

- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, {platform.machine()}, {cores} cores, shared with other work
- {minutes:g} minutes, seed {seed}, {guide}; half of the inputs mutated by their grammar (`bench/fuzz/mutations.py`)
- bounds: {SECONDS_AN_INPUT} s and {MEMORY_MIB} MiB an input of at most {MOST_BYTES:,} bytes; what comes out is bounded
  by what went in, target by target (`bench/fuzz/targets.py`)
- seeds: sound inputs of our own making and, where it is there, the beginnings of labelled pages (`bench/fuzz/seeds.py`);
  the corpus is these and what reached something new
- found in the suite's runs and mended: identities and manifests that are whole but mean nothing, or nest deeply, ended
  in a traceback; a log record could name a status that there is not; they are run again in every run of the suite

| target | reads | seconds | executions | edges | corpus | findings |
|---|---|---:|---:|---:|---:|---:|"""  # noqa: E501 - a line of the report
    lines = [head]
    for name, found in ran.items():
        edges = "" if found.covered is None else f"{found.covered:,}"
        lines.append(
            f"| `{name}` | {TARGETS[name].reads} | {found.seconds:.0f} | {found.executions:,} | {edges} "
            f"| {found.corpus:,} | {len(found.findings)} |"
        )
    executions, findings = sum(one.executions for one in ran.values()), sum(len(one.findings) for one in ran.values())
    lines += [f"| all | | {sum(one.seconds for one in ran.values()):.0f} | {executions:,} | | | {findings} |", ""]
    lines += [f"- `{name}`: {what}" for name, found in ran.items() for what, _ in found.findings]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(main())
