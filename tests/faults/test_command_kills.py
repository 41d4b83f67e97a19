"""Every command that writes is killed at a change of files, and meets a full disk: `make kills` in short."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.command_kills import AT_CHANGE, COMMANDS, FULL, WRONG
from tests.fixtures.filter_crawl import ROOT
from tests.fixtures.small_disk import SmallDisk


class Disturbances(NamedTuple):
    """The outcomes of all commands. counts: by command and disturbance  faults: for people"""

    counts: dict[tuple[str, str], Counter[str]]
    faults: str


@pytest.fixture(scope="module")
def disturbances(tmp_path_factory: pytest.TempPathFactory) -> Disturbances:
    with SmallDisk(Path(tmp_path_factory.mktemp("mounted"), "disk")):
        pass  # Skips the tests where mounting is not allowed.
    command = [sys.executable, "-m", "bench.command_kills", "--short", "--seed", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    counts = {(line.pop("command"), line.pop("disturbance")): Counter[str](line) for line in found}
    return Disturbances(counts, done.stderr)


@pytest.mark.guarantee(
    "a command that is killed or meets a full disk is resumed or rejected; its result is never wrong",
    fault="kill -9 at changes of files; the disk fills",
)
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_killed_or_meets_a_full_disk_is_resumed_or_refused(
    disturbances: Disturbances, command: str
) -> None:
    killed, full = (disturbances.counts.get((command, how), Counter[str]()) for how in (AT_CHANGE, FULL))
    assert (killed.total(), full.total()) == (1, 1), disturbances.faults
    assert not killed[WRONG] + full[WRONG], disturbances.faults
