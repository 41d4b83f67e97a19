"""Measures `spotsieve backfill` on the cores of this machine against `spotsieve filter`, over the same files."""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from bench.speed.pages import bench_messages

FILES = 8
_COMMAND = sys.executable, "-m", "spotsieve.stream"


def measure_backfill(
    rounds: int = 3, pages: int = 40_000, progress: Callable[[str], None] = print
) -> dict[str, float | int]:
    """Medians of alternating rounds over files of JSON pages of 20 KB; both write novel pages and a state on disk.

    filter_s, backfill_s: of the whole command, with its start and that of Ray; filter_pages_per_s,
    backfill_pages_per_s: without; ratio: filter over backfill, by the whole commands; pace_ratio: without their starts
    """
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = _write_files(folder, pages)
        # Under another salt, other blocks have the same digest of numbers: one page in some 10,000 has another verdict.
        salt = str(folder / "salt")
        subprocess.run([*_COMMAND, "filter", files[0], "--state", salt, "--json"], check=True, capture_output=True)
        for number in range(rounds):
            seconds, paces, dropped = dict[str, float](), dict[str, float](), set[int]()
            for command, out in (("filter", "novel.jsonl"), ("backfill", "novel")):
                place = folder / "outputs"
                place.mkdir()
                given = [command, *files, "--out", str(place / out), "--state", str(place / "state"), "--json"]
                given += ["--salt-from", salt]
                began = time.monotonic()
                done = subprocess.run([*_COMMAND, *given], check=True, capture_output=True)
                seconds[command] = time.monotonic() - began
                summary = json.loads(done.stdout)
                paces[command] = float(summary["pages_per_second"])
                dropped.add(summary["duplicate"])
                shutil.rmtree(place)
            if len(dropped) > 1:
                raise RuntimeError("backfill and filter must drop the same pages")
            figures = {f"{name}_s": value for name, value in seconds.items()}
            figures |= {f"{name}_pages_per_s": value for name, value in paces.items()}
            figures["ratio"] = seconds["filter"] / seconds["backfill"]
            figures["pace_ratio"] = paces["backfill"] / paces["filter"]
            found.append(figures)
            progress(f"  round {number + 1}: " + ", ".join(f"{name} {value:.2f}" for name, value in figures.items()))
    return {**{name: round(statistics.median(one[name] for one in found), 3) for name in found[0]}, "pages": pages}


def _write_files(folder: Path, pages: int) -> Sequence[str]:
    """FILES files with the same number of pages each, in order."""
    messages, files = bench_messages(pages, 1), [folder / f"pages-{number}.jsonl" for number in range(FILES)]
    for file in files:
        with file.open("wb") as writing:
            writing.writelines(value + b"\n" for _, value in islice(messages, pages // FILES))
    return list(map(str, files))
