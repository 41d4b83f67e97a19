"""Measures `spotsieve filter --against` with three states against `filter` without, over the same pages.

The pages of some JSONL files are dealt to STATES states and one file that is filtered, so the states have pages of the
same hosts and copies of some of the pages.
"""

import json
import lzma
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STATES = 3
SETS = tuple(f"../shared/data/{name}/pages.jsonl.xz" for name in ("news", "docs", "catalogue"))


def measure_against(files: Sequence[str], rounds: int = 5) -> dict[str, float]:
    """Medians of alternating rounds. files: JSONL, or JSONL in xz

    filter_pages_per_s, against_pages_per_s: without the start of the command  ratio: of the second to the first
    """
    found = list[dict[str, float]]()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        parts = [folder / f"{number}.jsonl" for number in range(STATES + 1)]
        pages = [page for file in files for page in _pages(Path(file))]
        for number, part in enumerate(parts):
            part.write_bytes(b"".join(pages[number :: len(parts)]))
        states = [str(folder / f"state{number}") for number in range(STATES)]
        for number, state in enumerate(states):
            _filter(parts[number], "--state", state, *(("--salt-from", states[0]) if number else ()))
        for _ in range(rounds):
            paces = dict[str, float]()
            for name, against in (("filter", ()), ("against", ("--against", *states))):
                place = folder / "outputs"
                place.mkdir()
                outputs = ("--out", str(place / "novel.jsonl"), "--state", str(place / "state"))
                paces[f"{name}_pages_per_s"] = float(_filter(parts[-1], *outputs, *against)["pages_per_second"])
                shutil.rmtree(place)
            found.append(paces | {"ratio": paces["against_pages_per_s"] / paces["filter_pages_per_s"]})
            print(found[-1], file=sys.stderr)
    return {name: round(statistics.median(one[name] for one in found), 3) for name in found[0]}


def _pages(file: Path) -> list[bytes]:
    """The lines of a file, each with its end."""
    stored = file.read_bytes()
    return (lzma.decompress(stored) if file.suffix == ".xz" else stored).splitlines(keepends=True)


def _filter(file: Path, *arguments: str) -> dict[str, Any]:
    """The summary of `spotsieve filter`."""
    command = [sys.executable, "-m", "spotsieve.stream", "filter", str(file), *arguments, "--json"]
    summary: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return summary


if __name__ == "__main__":
    print(json.dumps(measure_against(sys.argv[1:] or SETS), indent=2))
