"""The unit of systemd names commands and settings of ours, and systemd accepts it."""

import re
import shlex
import subprocess
from pathlib import Path

from spotsieve.stream import errors
from spotsieve.stream.cli import _parser
from spotsieve.stream.settings.load import load_settings
from spotsieve.stream.settings.model import Settings
from tests.conftest import REPOSITORY
from tests.worlds.debian import needs_debian

UNIT = REPOSITORY / "deploy" / "spotsieve.service"
COMMAND = "/opt/spotsieve/bin/spotsieve"
MOST_EXPOSURE = 20
"""In tenths of systemd's own measure, from 0 to 100."""


def values(name: str) -> list[str]:
    return re.findall(rf"(?m)^{name}=(.*)$", UNIT.read_text("utf-8"))


def test_the_unit_runs_the_service_with_settings_of_ours() -> None:
    command = shlex.split(values("ExecStart")[0])
    assert command[0] == COMMAND
    assert _parser(command[1:]).parse_args(command[1:]).command == "run"
    environment = dict(one.split("=", 1) for one in values("Environment"))
    directory = load_settings(None, environment, {}).index.directory
    assert directory == Path("/var/lib") / values("StateDirectory")[0] / "state"
    assert environment["NUMBA_CACHE_DIR"] == f"/var/cache/{values('CacheDirectory')[0]}"
    assert int(values("TimeoutStopSec")[0]) * 1000 > Settings().service.shutdown_timeout_ms


def test_the_unit_does_not_start_again_where_no_new_start_helps() -> None:
    codes = {errors.EXIT_SETTING, errors.EXIT_INPUT, errors.EXIT_STATE}
    assert set(map(int, values("RestartPreventExitStatus")[0].split())) == codes
    assert values("Restart") == ["on-failure"]


def test_systemd_accepts_the_unit_and_finds_it_closed(tmp_path: Path) -> None:
    analyze = needs_debian("systemd", program="systemd-analyze")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace(COMMAND, "/bin/true"), "utf-8")
    checked = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    command = [analyze, "security", "--no-pager", "--offline=true", f"--threshold={MOST_EXPOSURE}", str(unit)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout + judged.stderr
