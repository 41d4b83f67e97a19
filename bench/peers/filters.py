"""The list of peers: each reads a file of pages and gives a verdict for every page. It also runs filters in turn."""

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from bench.peers.batch import PageVerdict, datatrove, exact_hash
from bench.peers.cost import CommandCost, measure
from bench.peers.extractors import EXTRACTORS
from bench.peers.methods import METHODS, stream_through
from bench.peers.pages import texts_of


@dataclass(frozen=True, slots=True)
class Peer:
    """A filter. packages: the public packages that it needs  run: the verdicts of a file, in the order of its pages"""

    packages: tuple[str, ...]
    run: Callable[[Path], Iterator[PageVerdict]]

    @property
    def versions(self) -> Mapping[str, str | None]:
        """The version of each package; None for a package that is not installed."""
        return {package: _version(package) for package in self.packages}

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [package for package, found in self.versions.items() if found is None]


def stream(file: Path, extractor: str, method: str, threshold: str) -> Iterator[PageVerdict]:
    """The verdicts of a method of METHODS over texts by one of EXTRACTORS, a page at a time."""
    made, names = METHODS[method](), list[str]()

    def sketches() -> Iterator[object]:
        for name, text in texts_of(file, extractor):
            names.append(name)
            yield made.sketch(text)

    for place, original in enumerate(stream_through(sketches(), made.indexes[threshold]())):
        yield names[place], None if original is None else names[original]


def _streaming(extractor: str, method: str) -> tuple[str, Peer]:
    """The filter of an extractor and a method at the threshold that finds more on most sets."""
    packages = (EXTRACTORS[extractor][0], method)
    return f"{extractor} + {method}", Peer(
        packages, partial(stream, extractor=extractor, method=method, threshold=">= 0.5")
    )


PEERS: Mapping[str, Peer] = {
    "exact hash (Polars)": Peer(("polars",), exact_hash),
    **dict(
        _streaming(extractor, method)
        for extractor, method in (
            ("selectolax", "rensa"),
            ("selectolax", "gaoya"),
            ("visible text", "rensa"),
            ("resiliparse", "rensa"),
            ("trafilatura", "datasketch"),
        )
    ),
    "resiliparse + datatrove": Peer(
        ("resiliparse", "datatrove", "spacy", "tokenizers"), partial(datatrove, extractor="resiliparse")
    ),
}
"""Each by its name, the cheapest first."""

OURS = "spotsieve"


def command_of(name: str, file: Path, out: Path) -> list[str]:
    """The command that writes the verdicts of a peer, or of our filter, over a file of pages."""
    if name == OURS:
        return [sys.executable, "-m", "spotsieve.stream", "filter", str(file), "--verdicts", str(out), "--force"]
    return [sys.executable, "-m", "bench.peers", name, str(file), str(out)]


class CommandRuns(NamedTuple):
    """The runs of a filter. starts: over one page  wholes: over all pages"""

    starts: list[CommandCost]
    wholes: list[CommandCost]

    @property
    def start_s(self) -> float:
        """Median of the CPU over one page."""
        return statistics.median(cost.cpu_s for cost in self.starts)

    @property
    def cpu_s(self) -> float:
        """Median of the CPU over all pages."""
        return statistics.median(cost.cpu_s for cost in self.wholes)


def run_in_turn(
    names: Iterable[str],
    lines: Sequence[bytes],
    rounds: int,
    on_run: Callable[[str, CommandRuns, Path], None],
    slow_s: float = math.inf,
) -> dict[str, CommandRuns]:
    """Run filters over the same file of pages. Every round runs all of them, one after the other.

    lines: the pages as JSON, each with its line feed  on_run: gets the file of verdicts after each run
    slow_s: CPU of the first round above which a filter is not run again
    """
    runs = {name: CommandRuns([], []) for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        whole, one, out = (Path(scratch) / name for name in ("pages.jsonl", "page.jsonl", "verdicts.jsonl"))
        whole.write_bytes(b"".join(lines))
        one.write_bytes(lines[0])
        for _ in range(rounds):
            for name, of_filter in runs.items():
                if of_filter.wholes and of_filter.wholes[0].cpu_s > slow_s:
                    continue
                of_filter.starts.append(measure(command_of(name, one, out)))
                of_filter.wholes.append(measure(command_of(name, whole, out)))
                on_run(name, of_filter, out)
    return runs


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
