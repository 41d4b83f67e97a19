"""Measures other programs' extracts of the main content of pages; stores them only in a folder that is named."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.peers.extractors import EXTRACTORS
from bench.quality.sets import LabelledSet


@dataclass(frozen=True, slots=True)
class Extract:
    """Texts of a set's pages ("" if nothing was found), and the CPU seconds for all of them."""

    texts: tuple[str, ...]
    cpu_s: float


class Extracts:
    """Extracts pages, or reads extracts of an earlier run. cache: their folder; None measures and stores nothing."""

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache

    def main_content(self, labelled: LabelledSet, extractor: str) -> Extract:
        """The text of every page by one of EXTRACTORS; plain text is returned unchanged, for free."""
        count, (package, made) = len(labelled.pages), EXTRACTORS[extractor]
        kept = self._cache and self._cache / f"{labelled.name}-{count}-{extractor}-{version(package)}.json"
        if kept and kept.exists():
            stored = json.loads(kept.read_text("utf-8"))
            return Extract(tuple(stored["texts"]), stored["cpu_s"])
        extract = extract_all(labelled.documents, made)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"texts": extract.texts, "cpu_s": extract.cpu_s}), "utf-8")
        return extract


def extract_all(documents: Sequence[tuple[str, bool]], extractor: Callable[[], Callable[[str], str]]) -> Extract:
    """The extractor: (text, is HTML) of a document -> its main content."""
    extract = extractor()
    before = time.thread_time()
    texts = tuple(extract(text) if markup else text for text, markup in documents)
    return Extract(texts, time.thread_time() - before)
