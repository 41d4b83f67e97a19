"""A run says at its end which Debian packages were missing, and the one line that installs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.worlds.debian import needs_debian, said_of_skipped

TESTS = """
from tests.conftest import pytest_terminal_summary
from tests.worlds.debian import needs_debian
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_a(number: int) -> None: needs_debian("prometheus", program="no-promtool")
def test_b() -> None: needs_debian("openssl", program="no-openssl")
def test_c() -> None: pytest.skip("needs something else")
def test_d() -> None: needs_debian("coreutils", program="ls")
"""


def test_a_missing_program_skips_the_test_by_a_reason_that_names_the_package() -> None:
    with pytest.raises(pytest.skip.Exception, match="needs Debian's prometheus, for no-promtool"):
        needs_debian("prometheus", program="no-promtool")


def test_nothing_is_said_where_nothing_is_missing() -> None:
    assert said_of_skipped(["Skipped: needs the labelled data"]) == []


@pytest.mark.parametrize("spread", [(), ("-n", "2")])
def test_the_end_of_a_run_names_the_packages_and_its_closing_line_stays_last(
    tmp_path: Path, spread: tuple[str, ...]
) -> None:
    (tmp_path / "test_some.py").write_text(TESTS, "utf-8")
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_terminal_summary\n", "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-p", "no:cacheprovider", *spread]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    at = lines.index("1 test skipped for want of Debian's openssl")
    assert lines[at + 1 : at + 3] == [
        "2 tests skipped for want of Debian's prometheus",
        "install with: apt-get install --no-install-recommends openssl prometheus",
    ]
    assert "1 passed, 4 skipped" in lines[-1]
