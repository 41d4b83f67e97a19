"""Measures other programs' extracts of the main content of pages; stores them only in a folder that is named."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

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
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    before = time.thread_time()
    texts = tuple(extract(text) if markup else text for text, markup in documents)
    return Extract(texts, time.thread_time() - before)


def trafilatura() -> Callable[[str], str]:
    """trafilatura.extract with its defaults, comments left out."""
    from trafilatura import extract

    def main_content(html: str) -> str:
        return extract(html, include_comments=False) or ""

    return main_content


def resiliparse() -> Callable[[str], str]:
    """The extract_plain_text of resiliparse, main content only."""
    from resiliparse.extract.html2text import extract_plain_text

    def main_content(html: str) -> str:
        return str(extract_plain_text(html, main_content=True))

    return main_content


def whole_page() -> Callable[[str], str]:
    """The extract_plain_text of resiliparse over the whole visible page."""
    from resiliparse.extract.html2text import extract_plain_text

    def visible_text(html: str) -> str:
        return str(extract_plain_text(html, main_content=False))

    return visible_text


def justext() -> Callable[[str], str]:
    """JusText with the stop words of all its languages together, since the language of a page is not known."""
    from justext import get_stoplist, get_stoplists
    from justext import justext as paragraphs_of
    from lxml.etree import LxmlError

    words = frozenset().union(*map(get_stoplist, get_stoplists()))

    def main_content(html: str) -> str:
        try:
            paragraphs = paragraphs_of(html.encode(), words, encoding="utf-8") if html.strip() else []
        except (LxmlError, ValueError):
            return ""
        return "\n".join(paragraph.text for paragraph in paragraphs if not paragraph.is_boilerplate)

    return main_content


EXTRACTORS: Mapping[str, tuple[str, Callable[[], Callable[[str], str]]]] = {
    "trafilatura": ("trafilatura", trafilatura),
    "resiliparse": ("resiliparse", resiliparse),
    "jusText": ("justext", justext),
    "visible text": ("resiliparse", whole_page),
}
"""Each with the package that provides it."""
