"""Hashed requirements as uv exports them from uv.lock, for an installation, the image or a make target."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY


def exported(*options: str) -> str:
    """The requirements of these extras and groups. Works offline."""
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "export", "--quiet", "--frozen", "--offline", "--no-emit-project", "--no-header", "--no-annotate"]
    return subprocess.run([*command, *options], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
