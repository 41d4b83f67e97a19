"""A fresh machine gets the locked packages, and one line says what is missing."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest
from packaging.markers import Marker
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from tests.conftest import REPOSITORY
from tests.fixtures.locked_packages import exported

ALL = ("--all-extras", "--group", "dev")
"""What deploy/install.sh installs."""
RUN = ("--no-default-groups", "--extra", "fast")
IMAGE = (RUN, ("--only-group", "build", "--only-group", "sbom"))
PEERS, FUZZ = ("--only-group", "peers"), ("--only-group", "fuzz")
INSTALL = REPOSITORY / "deploy" / "install.sh"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
LOCK = tomllib.loads((REPOSITORY / "uv.lock").read_text("utf-8"))

Pins = dict[tuple[str, str], list[str]]


def pins(options: tuple[str, ...]) -> Pins:
    """(package, marker) -> [version, hashes...] of an export of uv.lock."""
    return pins_in(exported(*options))


def pins_in(requirements: str) -> Pins:
    text = re.sub(r"(?m)^\s*#.*\n", "", requirements).replace("\\\n", " ")
    found: Pins = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([a-z0-9-]+)==(\S+)( ; .*?)?((?: +--hash=sha256:[0-9a-f]{64})+) *", line)
        assert match, f"not a pin with hashes: {line[:80]}"
        found[match[1], (match[3] or "").strip()] = [match[2], *match[4].split()]
    return found


def run_install(directory: Path, path: Path, venv: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": f"{path}:/usr/bin:/bin", "HOME": str(directory), **environment}
    return subprocess.run(
        ["/bin/sh", INSTALL, venv], cwd=directory, env=clean, capture_output=True, text=True, check=False, timeout=400
    )


def write_command(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("options", [ALL, *IMAGE, PEERS, FUZZ], ids=" ".join)
def test_every_exported_pin_has_hashes_and_names_no_host(options: tuple[str, ...]) -> None:
    text = exported(*options)
    assert pins_in(text)
    assert "://" not in text


def test_the_lock_names_no_registry_but_the_public_one() -> None:
    text = (REPOSITORY / "uv.lock").read_text("utf-8")
    assert set(re.findall(r"https?://[^/\"]+", text)) == {"https://pypi.org", "https://files.pythonhosted.org"}


def test_the_lock_is_that_of_the_declared_dependencies() -> None:
    (locked,) = [one for one in LOCK["package"] if one["name"] == "spotsieve"]
    groups = {
        name: {re.split(r"[><=~!;\[ ]", line)[0] for line in lines if isinstance(line, str)}
        for name, lines in PROJECT["dependency-groups"].items()
    }
    of_lock = {name: {one["name"] for one in ones} for name, ones in locked["metadata"]["requires-dev"].items()}
    assert {name: packages - of_lock[name] for name, packages in groups.items()} == {name: set() for name in groups}


def test_uv_itself_is_installed_by_hash() -> None:
    found = pins_in((REPOSITORY / "deploy" / "uv.txt").read_text("utf-8"))
    assert [package for package, _ in found] == ["uv"]


@pytest.mark.parametrize("options", IMAGE, ids=" ".join)
def test_the_image_gets_the_versions_that_are_tested(options: tuple[str, ...]) -> None:
    tested = {(package, pin[0]) for (package, _), pin in pins(ALL).items()}
    assert {(package, pin[0]) for (package, _), pin in pins(options).items()} <= tested


def test_the_locks_hold_every_declared_dependency() -> None:
    project = PROJECT
    run = {re.split(r"[><=~!;\[ ]", line)[0] for line in project["project"]["dependencies"]}
    everything = run | {
        re.split(r"[><=~!;\[ ]", line)[0]
        for line in [
            *(line for extra in project["project"]["optional-dependencies"].values() for line in extra),
            *project["dependency-groups"]["dev"],
        ]
        if isinstance(line, str)
    }
    assert run <= {package for package, _ in pins(RUN)}
    assert everything <= {package for package, _ in pins(ALL)}


def test_the_export_of_peers_holds_the_peers_and_changes_no_version_that_is_tested() -> None:
    project = PROJECT
    peers = {package: pin[0] for (package, _), pin in pins(PEERS).items()}
    assert {re.split(r"[><=~!;\[ ]", line)[0] for line in project["dependency-groups"]["peers"]} <= set(peers)
    tested = pins(ALL)
    shared = {key: pin[0] for key, pin in pins(PEERS).items() if key in tested}
    assert shared
    assert shared == {key: tested[key][0] for key in shared}


def test_the_size_that_is_named_before_the_download_is_that_of_the_lock() -> None:
    rank = {tag: number for number, tag in enumerate(sys_tags())}
    locked = {(package["name"], package.get("version")): package.get("wheels", []) for package in LOCK["package"]}
    total = 0
    for (name, marker), (version, *_) in pins(ALL).items():
        if not marker or Marker(marker.removeprefix("; ")).evaluate():
            wheels = [(unquote(wheel["url"].rpartition("/")[2]), wheel["size"]) for wheel in locked[name, version]]
            fitting = [
                (min((rank[tag] for tag in parse_wheel_filename(file)[3] if tag in rank), default=len(rank)), size)
                for file, size in wheels
            ]
            total += min(fitting, default=(0, 0))[1]
    (named,) = re.findall(r"fetching (\d+) MB of locked packages", INSTALL.read_text("utf-8"))
    assert int(named) == pytest.approx(total / 1e6, rel=0.1)


@pytest.mark.parametrize("version", ["(3, 10, 14)", "(3, 15, 0)"])
def test_a_machine_without_a_supported_python_is_told_so_in_one_line(version: str, tmp_path: Path) -> None:
    script = f"""shift; exec {sys.executable} -c "import sys; sys.version_info = {version}; exec(sys.argv[1])" "$1" """
    write_command(tmp_path / "bin/python-other", script)
    done = run_install(tmp_path, tmp_path / "bin", tmp_path / "venv", PYTHON="python-other")
    assert done.returncode == 1
    assert re.fullmatch(r"spotsieve set-up: needs Python 3\.11 to 3\.14.*\n", done.stderr)


def test_the_lock_is_for_the_pythons_that_the_installer_takes() -> None:
    most = re.findall(r"version_info < \((\d+), (\d+)\)", INSTALL.read_text("utf-8"))
    assert len(most) == 1
    newest = f"python_full_version < '{'.'.join(most[0])}'"
    assert all(newest in marker for marker in LOCK["supported-markers"])


def test_a_machine_without_the_venv_module_is_told_so_in_one_line(tmp_path: Path) -> None:
    script = (
        '[ "$1" = -c ] && exit 0\necho "The virtual environment was not created: ensurepip is not available"\nexit 1'
    )
    write_command(tmp_path / "bin/python-bare", script)
    done = run_install(tmp_path, tmp_path / "bin", tmp_path / "venv", PYTHON="python-bare")
    assert done.returncode == 1
    assert re.fullmatch(r"spotsieve set-up: needs Python's venv module.*python3-venv\n", done.stderr)


@pytest.mark.parametrize(
    ("pip_says", "message"),
    [
        ("NewConnectionError: Failed to establish a new connection", "the package registry cannot be reached"),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE",
            "does not match uv.lock",
        ),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: No matching distribution found for numba==0.0", "pip could not install the locked packages"),
    ],
)
def test_a_failed_installation_is_explained_in_one_line(tmp_path: Path, pip_says: str, message: str) -> None:
    write_command(tmp_path / "venv/bin/python", f'[ "$1" = -c ] && exit 0\necho "{pip_says}"\nexit 1')
    done = run_install(tmp_path, tmp_path / "bin", tmp_path / "venv")
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "venv/.installed").exists()


def test_no_network_is_said_with_the_next_step_when_kafka_is_not_cached_yet(tmp_path: Path) -> None:
    environment = os.environ | {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
        "https_proxy": "127.0.0.1:9",
        "HTTPS_PROXY": "127.0.0.1:9",
    }
    command = [sys.executable, "-m", "spotsieve.stream.demo.localkafka", "--prepare"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert "must be fetched once" in done.stderr.splitlines()[-1]
    assert "run the same command again" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
