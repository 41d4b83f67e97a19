"""The list of peers: each reads a file of pages and gives a verdict for every page. And the commands that run them."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.peers.batch import PageVerdict, datatrove, exact_hash
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


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
