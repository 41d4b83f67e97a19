"""Commands start without what numba would load and no kernel of ours uses."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

PAGE = orjson.dumps({"url": "https://a.example/", "body": "The keeper of the old mill saw a fox at the river."})


@pytest.mark.parametrize("command", ["filter", "query", "backfill"])
def test_a_command_that_judges_loads_neither_scipy_nor_cffi(command: str, tmp_path: Path) -> None:
    # They take .7 s of 2.6 s, and are installed with scikit-learn.
    pages, state = tmp_path / "pages.jsonl", tmp_path / "state"
    pages.write_bytes(PAGE + b"\n")
    first = [["filter", str(pages), "--state", str(state)]] if command == "query" else []
    program = f"""
import sys
from spotsieve.stream.cli import main
for arguments in {[*first, [command, str(pages), "--state", str(state)]]!r}:
    assert main(arguments) == 0
print([name for name in ("scipy", "cffi") if name in sys.modules], "numba" in sys.modules)
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == "[] True"
