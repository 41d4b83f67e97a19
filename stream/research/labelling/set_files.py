"""Writes a labelled set for `spotsieve score`: the pages, the label of each page, and every similar pair.

    pages.jsonl.xz = {"id", "url", "fetched_at", "content_type", "body"} per page, in stream order
    pairs.tsv.gz   = header, (id_a, id_b, similarity, kind) per pair, id_a earlier
    truth.tsv.gz   = header, (id, kind, group, template, host, words) per page, in stream order

A similarity is the Jaccard resemblance of the distinctive texts by shingles of three words. If neither page of a pair
is a planted copy and their texts differ, it is unknown whether they are copies. Then the similarity is at most UNKNOWN,
and the pair does not count.
"""

import gzip
import lzma
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.urls import host_of
from spotsieve.stream.files.outputs import write_whole
from spotsieve.stream.files.verdict_lines import page_line
from spotsieve.stream.research.evaluation.trial import PAGES_FILE
from spotsieve.stream.research.labelling.distinctive_text import OwnPage, Shingles
from spotsieve.stream.research.labelling.planting import PAGE, PlantedEdit, SetPage
from spotsieve.stream.research.scoring.truth import NEGATIVE, PAIRS_FILE, TRUTH_FILE

EXACT, NATURAL = "exact-text", "natural"
UNKNOWN = 0.59
"""The greatest similarity of a pair that may or may not be copies, just below that of a positive pair."""
_XZ_PRESET = 1
_MOST_PAGES = 200
"""A shingle on more pages than this leads to no pair: it is a common phrase or template text."""
_RANKS = {PAGE: 0, **{kind.value: number for number, kind in enumerate(PlantedEdit, 1)}}
PairRow = tuple[int, int, float, str]
"""(earlier, later, similarity, kind), by places in the stream."""


def pairs_of(stream: Sequence[SetPage], pages: Sequence[OwnPage]) -> list[PairRow]:
    """Every pair of pages whose distinctive texts have at least the similarity NEGATIVE, ordered by the later page."""
    numbering = Shingles()
    shingles = [numbering.of(one.texts) for one in stream]
    places = defaultdict[int, list[int]](list)
    for place, own in enumerate(shingles):
        for shingle in own:
            places[shingle].append(place)
    pairs = list[PairRow]()
    for later, own in enumerate(shingles):
        rare = (places[shingle] for shingle in own if len(places[shingle]) <= _MOST_PAGES)
        shared = Counter(earlier for pages_with in rare for earlier in pages_with if earlier < later)
        for earlier in sorted(shared):
            together = len(own & shingles[earlier])
            similarity = together / (len(own) + len(shingles[earlier]) - together)
            if similarity >= NEGATIVE:
                pairs.append((earlier, later, *_label(stream[earlier], stream[later], pages, similarity)))
    return pairs


def write_set(folder: Path, stream: Sequence[SetPage], pairs: Sequence[PairRow]) -> None:
    """Write the three files. Raises InputError if they cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(folder), f"cannot be created: {error.strerror}", None, "choose another path") from None
    write_whole(folder / PAGES_FILE, lzma.compress(b"".join(map(_page_line, stream)), preset=_XZ_PRESET))
    names = [_cell(one.name) for one in stream]
    truth = [("id", "kind", "group", "template", "host", "words"), *(_truth_row(one) for one in stream)]
    similar = [(names[earlier], names[later], f"{share:.4f}", kind) for earlier, later, share, kind in pairs]
    for name, rows in ((TRUTH_FILE, truth), (PAIRS_FILE, [("id_a", "id_b", "similarity", "kind"), *similar])):
        text = "".join("\t".join(row) + "\n" for row in rows)
        write_whole(folder / name, gzip.compress(text.encode(), 6, mtime=0))


def _label(one: SetPage, other: SetPage, pages: Sequence[OwnPage], similarity: float) -> tuple[float, str]:
    """The similarity and kind of a pair. Two pages with the same original have the kind of the heavier edit."""
    if one.of == other.of:
        return similarity, max(one.kind, other.kind, key=_RANKS.__getitem__)
    if pages[one.of].digest == pages[other.of].digest:
        heavier = max(one.kind, other.kind, key=_RANKS.__getitem__)
        return similarity, EXACT if heavier == PAGE else heavier
    return min(similarity, UNKNOWN), NATURAL


def _page_line(one: SetPage) -> bytes:
    return page_line(_cell(one.name), one.url, one.time_ms, one.markup, one.body) + b"\n"


def _truth_row(one: SetPage) -> tuple[str, ...]:
    words = sum(len(text.split()) for text in one.texts)
    return (_cell(one.name), one.kind, str(one.of), _cell(one.template), host_of(one.url), str(words))


def _cell(text: str) -> str:
    """The text without tabs and line ends, which would separate cells and rows."""
    return " ".join(text.split())


def count_kinds(stream: Sequence[SetPage], pairs: Sequence[PairRow]) -> Iterator[tuple[str, int]]:
    """The number of planted copies by kind, and of pages with the same text as an earlier page."""
    kinds = Counter(one.kind for one in stream)
    for kind in PlantedEdit:
        if kinds[kind]:
            yield kind.value, kinds[kind]
    exact = {later for _, later, _, kind in pairs if kind == EXACT}
    if exact:
        yield EXACT, len(exact)
