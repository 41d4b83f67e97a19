"""The units of systemd name commands and settings of ours, and systemd accepts them."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from spotsieve.stream.base import errors
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import _parser
from spotsieve.stream.cli.run import opener_of
from tests.conftest import REPOSITORY
from tests.fixtures.debian import needs_debian

UNIT = REPOSITORY / "deploy" / "spotsieve.service"
OF_ROLE = UNIT.with_name("spotsieve@.service")
COMMAND = "/opt/spotsieve/bin/spotsieve"
MOST_EXPOSURE = 20
"""In tenths of systemd's own measure, from 0 to 100."""


def values(name: str, unit: Path = UNIT) -> list[str]:
    return re.findall(rf"(?m)^{name}=(.*)$", unit.read_text("utf-8"))


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


def test_the_unit_of_a_role_runs_what_its_file_of_settings_names() -> None:
    examples = re.findall(r"(?m)^#   (\w+)=(.*)$", OF_ROLE.read_text("utf-8"))
    (role,) = [value for name, value in examples if name == "ROLE"]
    given = dict(one.split("=", 1) for one in values("Environment", OF_ROLE)) | dict(examples)
    environment = {name: value.replace("%i", "shard-0") for name, value in given.items() if name != "ROLE"}
    command = shlex.split(values("ExecStart", OF_ROLE)[0].replace("$ROLE", role))
    options = _parser(command[1:]).parse_args(command[1:])
    settings = load_settings(None, environment | {"SPOTSIEVE_CLUSTER__SHARDS": "2"}, {})
    opener_of(options.role, options.shard, settings)
    assert settings.index.directory == Path("/var/lib/spotsieve-shard-0/state")
    assert settings.metrics.port != Settings().metrics.port
    assert values("EnvironmentFile", OF_ROLE) == ["/etc/spotsieve/%i.env"]
    for kind, place in (("StateDirectory", "/var/lib"), ("CacheDirectory", "/var/cache")):
        assert f"{place}/{values(kind, OF_ROLE)[0]}" in "".join(values("Environment", OF_ROLE))


def test_the_unit_of_a_role_has_the_limits_and_rights_of_the_unit_of_one_process() -> None:
    own = r"(?m)^(#.*|Description=.*|ExecStart=.*|Environment(File)?=.*|(State|Cache)Directory=.*)\n"
    assert re.sub(own, "", OF_ROLE.read_text("utf-8")) == re.sub(own, "", UNIT.read_text("utf-8"))


@pytest.mark.parametrize("given", [UNIT, OF_ROLE], ids=lambda unit: unit.stem)
def test_systemd_accepts_the_unit_and_finds_it_closed(given: Path, tmp_path: Path) -> None:
    analyze = needs_debian("systemd", program="systemd-analyze")
    unit = tmp_path / given.name.replace("@", "@shard-0")
    unit.write_text(given.read_text("utf-8").replace(COMMAND, "/bin/true"), "utf-8")
    checked = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    command = [analyze, "security", "--no-pager", "--offline=true", f"--threshold={MOST_EXPOSURE}", str(unit)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout + judged.stderr
