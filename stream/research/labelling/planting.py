"""Plants copies of a sample's pages: edits of a known size, half of them in the template of another page.

An edit changes the distinctive text of a page in the way that other sites and later fetches change a copied text.
The pages and their copies are written as a labelled set for `spotsieve score`:

    pages.jsonl.xz = {"id", "url", "fetched_at", "content_type", "body"} per page, in stream order
    pairs.tsv.gz   = header, (id_a, id_b, similarity, kind) per pair, id_a earlier
    truth.tsv.gz   = header, (id, kind, group, template, host, words) per page, in stream order

A similarity is the Jaccard resemblance of the distinctive texts by shingles of three words. If neither page of a pair
is a planted copy and their texts differ, it is unknown whether they are copies. Then the similarity is at most UNKNOWN,
and the pair does not count.
"""

import gzip
import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path
from random import Random
from urllib.parse import urlsplit, urlunsplit

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Markup
from spotsieve.stream.base.urls import host_of
from spotsieve.stream.files.outputs import write_whole
from spotsieve.stream.files.verdict_lines import line_id, page_line
from spotsieve.stream.research.evaluation.trial import PAGES_FILE
from spotsieve.stream.research.labelling.distinctive_text import OwnPage, Shingles, write_into
from spotsieve.stream.research.scoring.truth import NEGATIVE, PAIRS_FILE, TRUTH_FILE
from spotsieve.stream.sign.features.shown_text import words_of

CUT = (0.65, 0.92)
"""The range of the share of words that remain after a cut."""
EXTENDED = (0.08, 0.4)
"""The range of the share of words that are added."""
NUMBERS_SHARE = 1 / 25
"""The most changed numbers, as a share of the words."""
FEWEST_COPIED_WORDS = 40
"""The least words of distinctive text of an original: an edit of a shorter text would be a handful of words."""
PAGE, SELF = "page", ""
_READ_MORE = "Read more"


class PlantedEdit(StrEnum):
    """The kind of edit that turns an original into its copy, from the lightest to the heaviest."""

    COPY = "copy"
    NUMBERS = "numbers"
    REORDERED = "reordered"
    EXTENDED = "extended"
    CUT = "cut"
    WORDS_2 = "words-2"
    WORDS_5 = "words-5"
    WORDS_10 = "words-10"


ABOUT: Mapping[PlantedEdit, str] = {
    PlantedEdit.COPY: "the same text",
    PlantedEdit.NUMBERS: "a later fetch: up to one word in 25 is a changed number",
    PlantedEdit.REORDERED: "paragraphs in another order",
    PlantedEdit.EXTENDED: "extended by 8 to 40 % with another page's text",
    PlantedEdit.CUT: 'cut after 65 to 92 %, with "Read more"',
    PlantedEdit.WORDS_2: "2 % of the words replaced",
    PlantedEdit.WORDS_5: "5 % of the words replaced",
    PlantedEdit.WORDS_10: "10 % of the words replaced",
}


@dataclass(frozen=True, slots=True)
class SetPage:
    """A page of the set.

    name: the page id
    kind: PAGE for a page as read, or the edit of a copy
    of: the place of the original; the page's own place if it is not a copy
    texts: its distinctive text, by paragraphs
    template: the id of the page whose template it uses; SELF for its own template
    """

    name: str
    url: str
    body: str
    markup: Markup | bool
    time_ms: int
    kind: str
    of: int
    texts: Sequence[str]
    template: str


def plant(pages: Sequence[OwnPage], share: float, seed: int) -> list[SetPage]:
    """The pages, with copies of a share of them at later places. The same seed gives the same copies."""
    random = Random(seed)
    stream = [(float(place), _unedited(place, page)) for place, page in enumerate(pages)]
    fit = [place for place, page in enumerate(pages) if page.words >= FEWEST_COPIED_WORDS]
    wanted = min(len(fit), max(1, round(len(pages) * share))) if share else 0
    kinds, numbers = list(PlantedEdit), count(1)
    for place in sorted(random.sample(fit, wanted)):
        first = random.randrange(len(kinds))
        # If a page has no number, or too few paragraphs, for the first kind, try the next ones.
        for kind in kinds[first:] + kinds[:first]:
            copy = _copy(pages, place, kind, random, numbers)
            if copy is not None:
                stream.append((random.uniform(place + 0.5, len(pages)), copy))
                break
    return [page for _, page in sorted(stream, key=lambda one: one[0])]


def _unedited(place: int, page: OwnPage) -> SetPage:
    source, name = page.page, line_id(page.page)
    body, time_ms = page.shown.source, source.event_time_ms
    return SetPage(name, source.url, body, source.markup, time_ms, PAGE, place, page.texts, SELF)


def _copy(
    pages: Sequence[OwnPage], place: int, kind: PlantedEdit, random: Random, numbers: "count[int]"
) -> SetPage | None:
    original = pages[place]
    other = _other(pages, place, random)
    texts = edited(original.texts, kind, other.texts if other else (), random)
    if texts is None:
        return None
    target = original
    if kind is not PlantedEdit.NUMBERS and other is not None and other.page.markup == original.page.markup:
        target = random.choice([original, other])
    at_home = target is original
    body = write_into(target, texts, None if at_home else original.shown.title)
    number = next(numbers)
    url = original.page.url if kind is PlantedEdit.NUMBERS else _new_url(original.page.url, target.page.url, number)
    template = SELF if at_home else line_id(target.page)
    name = f"{line_id(original.page)}#{kind}"
    return SetPage(name, url, body, original.page.markup, original.page.event_time_ms, kind, place, texts, template)


def _other(pages: Sequence[OwnPage], place: int, random: Random) -> OwnPage | None:
    """Another page with another text, on another host if a few tries find one; None if they find no other text."""
    other = None
    for _ in range(20):
        candidate = pages[random.randrange(len(pages))]
        if candidate.digest != pages[place].digest:
            other = candidate
            if candidate.host != pages[place].host:
                break
    return other


def _new_url(original: str, target: str, number: int) -> str:
    """A new URL on the target's host, with the original's path and query."""
    here, there = urlsplit(original), urlsplit(target)
    return urlunsplit((there.scheme, there.netloc, f"/planted-{number}{here.path}", here.query, ""))


def edited(texts: Sequence[str], edit: PlantedEdit, other: Sequence[str], random: Random) -> list[str] | None:
    """The paragraphs after an edit; None if the text does not allow this edit.

    other: paragraphs of another page, for added text and replacing words
    """
    if edit is PlantedEdit.COPY:
        return list(texts)
    changes: Mapping[PlantedEdit, Callable[[], list[str] | None]] = {
        PlantedEdit.NUMBERS: lambda: _numbers(texts, random),
        PlantedEdit.REORDERED: lambda: _reordered(texts, random),
        PlantedEdit.EXTENDED: lambda: _extended(texts, other, random),
        PlantedEdit.CUT: lambda: _cut(texts, random),
        PlantedEdit.WORDS_2: lambda: _words(texts, 0.02, other, random),
        PlantedEdit.WORDS_5: lambda: _words(texts, 0.05, other, random),
        PlantedEdit.WORDS_10: lambda: _words(texts, 0.1, other, random),
    }
    changed = changes[edit]()
    return None if changed == list(texts) else changed


def _count(texts: Sequence[str]) -> int:
    return sum(len(words_of(text)) for text in texts)


def _numbers(texts: Sequence[str], random: Random) -> list[str] | None:
    places = [(number, word) for number, text in enumerate(texts) for word in words_of(text) if word.form.isdecimal()]
    most = int(_count(texts) * NUMBERS_SHARE)
    if not places or not most:
        return None
    chosen = random.sample(places, min(most, len(places)))
    return _replaced(
        texts, [(number, word.start, word.end, _other_number(word.form, random)) for number, word in chosen]
    )


def _other_number(number: str, random: Random) -> str:
    """Another number with the same number of digits."""
    digits = [str(random.randint(place == 0, 9)) for place in range(len(number))]
    digits[-1] = random.choice([digit for digit in "123456789" if digit != number[-1]])
    return "".join(digits)


def _reordered(texts: Sequence[str], random: Random) -> list[str] | None:
    """The paragraphs in another order, except the first, which is usually a headline."""
    first, *rest = texts
    if len(rest) < 2:
        return None
    shuffled = random.sample(rest, len(rest))
    return [first, *(rest[::-1] if shuffled == rest else shuffled)]


def _extended(texts: Sequence[str], other: Sequence[str], random: Random) -> list[str] | None:
    added = _beginning(other, round(_count(texts) * random.uniform(*EXTENDED)))
    return [*texts, *added] if added else None


def _cut(texts: Sequence[str], random: Random) -> list[str]:
    return [*_beginning(texts, round(_count(texts) * random.uniform(*CUT))), _READ_MORE]


def _beginning(texts: Sequence[str], words: int) -> list[str]:
    """The beginning of a text with this number of words."""
    beginning = list[str]()
    for text in texts:
        text_words = words_of(text)
        if len(text_words) >= words:
            return [*beginning, text[: text_words[words - 1].end]] if words else beginning
        beginning.append(text)
        words -= len(text_words)
    return beginning


def _words(texts: Sequence[str], share: float, other: Sequence[str], random: Random) -> list[str] | None:
    """The text with a share of its alphabetic words replaced by alphabetic words of another page."""
    places = [(number, word) for number, text in enumerate(texts) for word in words_of(text) if word.form.isalpha()]
    others = sorted({word.form for text in other for word in words_of(text) if word.form.isalpha()})
    wanted = max(1, round(_count(texts) * share))
    if len(places) < wanted or len(others) < 2:
        return None
    chosen = random.sample(places, wanted)
    changes = [
        (number, word.start, word.end, random.choice([one for one in random.sample(others, 2) if one != word.form]))
        for number, word in chosen
    ]
    return _replaced(texts, changes)


def _replaced(texts: Sequence[str], changes: Sequence[tuple[int, int, int, str]]) -> list[str]:
    """The texts with changes (paragraph, start, end, new text) that do not overlap."""
    replaced = list(texts)
    for number, start, end, new in sorted(changes, reverse=True):
        replaced[number] = replaced[number][:start] + new + replaced[number][end:]
    return [re.sub(r"\s+", " ", text) for text in replaced]


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
