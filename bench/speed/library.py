"""Measures the library against `spotsieve filter`, over the same file: `python -m bench.speed library`."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import psutil

from bench.speed.pages import bench_messages
from spotsieve import Deduplicator

ONE_BY_ONE = 500


def measure_library(
    rounds: int = 3, pages: int = 8_000, progress: Callable[[str], None] = print
) -> dict[str, float | int]:
    """Medians of alternating rounds over one file of JSON pages of 20 KB, each in a separate process.

    filter_pages_per_s, library_pages_per_s (reading the file included, start-up left out, both with a state on disk);
    ratio: filter over library, ratio_most: the worst round's; add_us, query_us: a page at a time;
    memory_bytes_per_page: memory of a novel page
    """
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "pages.jsonl"
        with file.open("wb") as writing:
            for _, value in bench_messages(pages, 1):
                writing.write(value + b"\n")
        for number in range(rounds):
            place = Path(scratch) / str(number)
            filtered = _run("spotsieve.stream", "filter", file, "--state", f"{place}-filter", "--json")
            figures = {"filter_pages_per_s": float(filtered["pages_per_second"])}
            figures |= _run("bench.speed.library", file, f"{place}-library")
            if figures.pop("duplicates") != filtered["duplicate"]:
                raise RuntimeError("the library and the filter must drop the same pages")
            figures["ratio"] = figures["filter_pages_per_s"] / figures["library_pages_per_s"]
            found.append(figures)
            progress(f"  round {number + 1}: " + ", ".join(f"{name} {value:.2f}" for name, value in figures.items()))
    medians = {name: round(statistics.median(one[name] for one in found), 3) for name in found[0]}
    return {**medians, "ratio_most": round(max(one["ratio"] for one in found), 3), "pages": pages}


def _run(module: str, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return result


def _pages(file: Path, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines):
            fields = orjson.loads(line)
            yield f"{prefix}{number}", fields["url"], fields["body"]


def _measure_one(file: Path, directory: Path) -> dict[str, float]:
    """One round of the library, in a fresh process."""
    with Deduplicator(directory) as seen:
        began = time.perf_counter()
        kinds = [verdict.kind for verdict in seen.add_many(_pages(file))]
        figures = {"library_pages_per_s": len(kinds) / (time.perf_counter() - began)}
        figures["duplicates"] = kinds.count("duplicate")
        few = list(islice(_pages(file, "again "), ONE_BY_ONE))
        for name, act in (("query_us", seen.query), ("add_us", seen.add)):
            began = time.perf_counter()
            for page in few:
                act(*page)
            figures[name] = (time.perf_counter() - began) / len(few) * 1e6
    with Deduplicator() as seen:
        process = psutil.Process()
        for _ in seen.add_many(islice(_pages(file), len(kinds) // 4)):
            pass
        before, known = process.memory_info().rss, seen.known_pages
        for _ in seen.add_many(_pages(file)):
            pass
        figures["memory_bytes_per_page"] = (process.memory_info().rss - before) / (seen.known_pages - known)
    return figures


if __name__ == "__main__":
    print(json.dumps(_measure_one(Path(sys.argv[1]), Path(sys.argv[2]))))
