"""Reads the text of every page that fresh text is measured in (stream/research/scoring/fresh_text.py).

A labelled set may have this text:

    texts.jsonl.xz = {"id", "text"} per page: its own text, without boilerplate

The text of any other page is its distinctive text: the blocks that the default scheme takes for main text, without
template text. A block is template text if it is in the main text of many different pages of its host. Words come from
the filter's own scanner, 1.4 ms per page of 60 KB. Memory: 20 bytes per word.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.urls import host_of
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.verdict_lines import line_id, read_objects
from spotsieve.stream.research.evaluation.trial import pages_file
from spotsieve.stream.research.labelling.distinctive_text import HOST_PAGES, HOST_SHARE
from spotsieve.stream.research.models.term_counter import batches_of
from spotsieve.stream.research.scoring.fresh_text import UNSPACED, PageGrams, digests_of, words_of
from spotsieve.stream.sign.features.sieve import blocks_of

TEXTS_FILE = "texts.jsonl.xz"
_BETWEEN_CHARACTERS = re.compile(f"(?<=[{UNSPACED}]) (?=[{UNSPACED}])")
"""The scanner makes a word of every character of a script without spaces."""


class CrawlTexts(NamedTuple):
    """The ids and texts of all text pages of some files, in their order."""

    ids: list[str]
    texts: list[PageGrams]


class _MainText(NamedTuple):
    """The main text of a page. words: uint64[n], digests; bounds, digests: of its blocks of words; host: a number"""

    words: NDArray[np.uint64]
    bounds: "array[int]"
    digests: "array[int]"
    host: int


def set_texts(folder: Path, ids: Sequence[str], settings: Settings) -> list[PageGrams]:
    """The texts of the pages of a labelled set: of its file of texts, or of its pages. A page without a text is empty.

    ids: the ids of the pages
    Raises InputError for a file that cannot be read.
    """
    path = folder / TEXTS_FILE
    if path.exists():
        texts = dict(_texts_in(path))
    else:
        found = crawl_texts([pages_file(folder)], settings)
        texts = dict(zip(found.ids, found.texts, strict=True))
    empty = PageGrams.of([])
    return [texts.get(page, empty) for page in ids]


def crawl_texts(inputs: Sequence[Input], settings: Settings) -> CrawlTexts:
    """The distinctive texts of all text pages of the files. Raises InputError for a file that cannot be read."""
    ids, hosts, pages = list[str](), dict[str, int](), list[_MainText]()
    for batch, _ in batches_of(inputs, settings):
        for page in batch:
            ids.append(line_id(page))
            pages.append(_main_text(page, hosts.setdefault(host_of(page.url), len(hosts))))
    different = {(main.host, xxhash.xxh3_64_intdigest(main.words.tobytes())): main for main in pages}.values()
    pages_of_host = Counter(main.host for main in different)
    pages_with = Counter((main.host, digest) for main in different for digest in set(main.digests))
    texts = list[PageGrams]()
    for main in pages:
        most = max(HOST_PAGES, HOST_SHARE * pages_of_host[main.host])
        blocks = zip(pairwise(main.bounds), main.digests, strict=True)
        own = [main.words[start:end] for (start, end), digest in blocks if pages_with[main.host, digest] <= most]
        texts.append(PageGrams.of_digests(np.concatenate([main.words[:0], *own])))
    return CrawlTexts(ids, texts)


def _main_text(page: Page, host: int) -> _MainText:
    parts, bounds, digests = [np.empty(0, np.uint64)], array("q", [0]), array("Q")
    for block in blocks_of(page.body, page.markup):
        if block.kept and block.tokens:
            words = digests_of(words_of(_BETWEEN_CHARACTERS.sub("", " ".join(block.tokens))))
            parts.append(words)
            bounds.append(bounds[-1] + len(words))
            digests.append(xxhash.xxh3_64_intdigest(words.tobytes()))
    return _MainText(np.concatenate(parts), bounds, digests, host)


def _texts_in(path: Path) -> Iterator[tuple[str, PageGrams]]:
    for number, line in read_objects(path, "texts"):
        page, text = line.get("id"), line.get("text")
        if not isinstance(page, str) or not isinstance(text, str):
            raise InputError(f"{path} line {number}", "must have an id and a text", None, "correct the line")
        yield page, PageGrams.of(words_of(text))
