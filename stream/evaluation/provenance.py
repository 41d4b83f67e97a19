"""Says what figures were measured on: the machine, the release and the digests of a set's files."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import xxhash

import spotsieve
from spotsieve.stream.evaluation.trial import PAGES_FILE
from spotsieve.stream.scoring.truth import PAIRS_FILE, TRUTH_FILE

_CHUNK_BYTES = 2**20
_CPUINFO = Path("/proc/cpuinfo")


def machine() -> dict[str, str | int | None]:
    """The machine that measured the figures, without names and places."""
    model = platform.processor()
    if _CPUINFO.exists():
        models = [line for line in _CPUINFO.read_text("utf-8").splitlines() if line.startswith("model name")]
        model = models[0].partition(":")[2].strip() if models else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
    }


def measured_on(now: datetime) -> list[str]:
    """Lines for the time, the release and the machine. now: with its time zone"""
    about = machine()
    return [
        now.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        f"spotsieve {spotsieve.__version__}",
        f"{about['cpu'] or 'processor unknown'}, {about['cores']} cores, {about['system']}",
        f"Python {about['python']}, NumPy {about['numpy']}, Numba {about['numba']}",
    ]


def file_digests(folder: Path) -> dict[str, str]:
    """Name of each file of a labelled set -> its XXH3-128, 32 hex digits."""
    return {name: _digest_of(folder / name) for name in (PAGES_FILE, PAIRS_FILE, TRUTH_FILE)}


def _digest_of(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
