"""`spotsieve serve` verifies the private names of uvicorn that it uses, before it listens."""

import os
import subprocess
import sys
import tomllib

import pytest

from spotsieve.stream.base.errors import EXIT_SETTING
from spotsieve.stream.local.serve import EXPECTED, TESTED
from tests.conftest import REPOSITORY

SERVE = """
import sys
{change}
from spotsieve.stream.cli import main
sys.exit(main(["serve", "--state", "/nonexistent"]))
"""


def serve(change: str) -> subprocess.CompletedProcess[str]:
    """Start `spotsieve serve` in a process in which something was changed before."""
    command = [sys.executable, "-c", SERVE.format(change=change)]
    return subprocess.run(command, cwd=REPOSITORY, env=os.environ, capture_output=True, text=True, check=False)


def test_every_name_fits_the_installed_release_and_a_difference_is_a_fault() -> None:
    for expected in EXPECTED:
        assert expected.fault() is None
        renamed = expected._replace(name=f"{expected.name}_renamed")
        assert renamed.fault() == f"{renamed.name} does not exist"
        if expected.signature:
            assert expected._replace(signature="(other)").fault() is not None
        if expected.uses:
            assert expected._replace(uses=("not_there",)).fault() == f"{expected.name} does not use not_there"


def test_the_tested_releases_are_those_that_are_installed() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert f"uvicorn{TESTED}" in extras["serve"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            "import uvicorn.server; del uvicorn.server.Server.capture_signals",
            "uvicorn.server:Server.capture_signals does not exist",
        ),
        (
            "from uvicorn.protocols.http import httptools_impl; del httptools_impl.STATUS_LINE",
            "uvicorn.protocols.http.httptools_impl:STATUS_LINE does not exist",
        ),
    ],
)
def test_serve_does_not_start_on_a_release_that_does_not_fit(change: str, fault: str) -> None:
    ended = serve(change)
    assert ended.returncode == EXIT_SETTING, ended.stderr
    assert fault in ended.stderr
    assert f"install a release that works: pip install 'uvicorn{TESTED}'" in ended.stderr


@pytest.mark.parametrize("package", ["uvicorn", "httptools"])
def test_a_missing_package_is_named_with_the_extra_that_has_it(package: str) -> None:
    ended = serve(f'sys.modules["{package}"] = None')
    assert ended.returncode == EXIT_SETTING, ended.stderr
    assert f"needs the Python package {package}; run: pip install 'spotsieve[serve]'" in ended.stderr
