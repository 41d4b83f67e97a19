"""Reads public data sets in their published layouts: NEWS-COPY and CORE.

NEWS-COPY (Silcock, D'Amico-Wong, Yang, Dell 2023, "Noise-robust de-duplication at scale") has articles of American
newspapers of one day, read by OCR, in clusters of reprints. Two layouts are published:

    *.parquet             rows with headline, byline, article, id and cluster (the hub, chenghao/NEWS-COPY-eval)
    *_inf_data.json       {id: {headline, byline, article, ...}}, with *_gt.json: [[id, id], ...], the reprints (the
                          authors' archives test_sets.zip and evaluation_set.zip, unpacked)

CORE (Gyawali, Anastasiou, Knoth 2020, "Deduplication of scholarly documents") has 100,000 titles and abstracts:

    *.jsonl               {core_id, original_title, original_abstract, cat, labelled_duplicates: [core_id, ...], ...}
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from spotsieve.stream.base.errors import InputError


@dataclass(frozen=True, slots=True)
class PublicText:
    """A text of a data set. kind: as the data set names it"""

    name: str
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class PublicTexts:
    """The texts of a data set in their order, and the pairs of copies by name."""

    texts: Sequence[PublicText]
    pairs: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A data set. hub: its name and the pattern of its files there  about: one phrase for the page"""

    hub: tuple[str, str]
    about: str
    read: Callable[[Path], PublicTexts]


def read_news_copy(folder: Path) -> PublicTexts:
    """The articles of a folder in one of the two layouts. Raises InputError for a folder that has neither."""
    if tables := sorted(folder.glob("*.parquet")):
        rows = [row for table in tables for row in pq.read_table(table).to_pylist()]
        clusters = dict[int, list[str]]()
        for row in rows:
            clusters.setdefault(row["cluster"], []).append(str(row["id"]))
        sizes = {name: len(names) for names in clusters.values() for name in names}
        pairs = frozenset(pair for names in clusters.values() for pair in combinations(names, 2))
        return PublicTexts([_article(str(row["id"]), row, sizes[str(row["id"])] > 1) for row in rows], pairs)
    articles, reprints = sorted(folder.glob("*_inf_data.json")), sorted(folder.glob("*_gt.json"))
    if not articles or not reprints:
        rule = "has no articles: *.parquet, or *_inf_data.json with *_gt.json"
        raise InputError(str(folder), rule, None, "put the files of NEWS-COPY there")
    named: Mapping[str, Mapping[str, Any]] = {
        name: row for file in articles for name, row in orjson.loads(file.read_bytes()).items()
    }
    listed = (pair for file in reprints for pair in orjson.loads(file.read_bytes()))
    pairs = frozenset((one, other) for one, other in listed if one in named and other in named)
    reprinted = {name for pair in pairs for name in pair}
    return PublicTexts([_article(name, row, name in reprinted) for name, row in named.items()], pairs)


def _article(name: str, row: Mapping[str, Any], is_reprinted: bool) -> PublicText:
    text = "\n".join(row.get(field) or "" for field in ("headline", "byline", "article"))
    return PublicText(name, text.strip(), "reprint" if is_reprinted else "single")


def read_core(folder: Path) -> PublicTexts:
    """The documents of a folder. Raises InputError for a folder without them."""
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise InputError(str(folder), "has no file *.jsonl", None, "put the file of CORE there")
    texts, duplicates = list[PublicText](), dict[str, Sequence[str]]()
    for row in _lines(files):
        name = str(row["core_id"])
        text = f"{row.get('original_title') or ''}\n{row.get('original_abstract') or ''}"
        texts.append(PublicText(name, text.strip(), str(row["cat"])))
        duplicates[name] = [str(other) for other in row["labelled_duplicates"] or ()]
    pairs = ((name, other) for name, others in duplicates.items() for other in others)
    return PublicTexts(texts, frozenset((one, other) for one, other in pairs if other in duplicates and one != other))


def _lines(files: Sequence[Path]) -> Iterator[Mapping[str, Any]]:
    for file in files:
        with file.open("rb") as lines:
            yield from map(json.loads, lines)


PUBLIC: Mapping[str, PublicSet] = {
    "news-copy": PublicSet(
        ("chenghao/NEWS-COPY-eval", "data/test-*.parquet"), "newspaper articles read by OCR", read_news_copy
    ),
    "core": PublicSet(
        ("pinecone/core-2020-05-10-deduplication", "*.jsonl"), "titles and abstracts of papers", read_core
    ),
}
