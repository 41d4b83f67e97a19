"""Measures verdicts without labels, by the text that a crawl loses and the copies that it keeps.

Text is compared by 3-grams of words. A word of a page is fresh against other text if it lies in a run of RUN or more
words of the page without a 3-gram of the other text. A replaced word makes a run of at most five words, so edits are
not fresh text.

- A page is lost if it is dropped although at least SHARE of its words, and at least LEAST_WORDS words, are fresh
  against its original.
- A page is missed if it is emitted although an earlier emitted page contains it: no word is fresh against that page,
  which has at least CONTAINED of the 3-grams and is at most MAX_LENGTH times as long.
- Words gone are the fresh words of dropped pages against all emitted pages, earlier and later ones.

Pages with fewer than LEAST_JUDGED words are not judged. Containing pages are found by samples of 3-grams (bottom-k
sketches, Broder 1997), so the time is linear in the text. A 3-gram takes 12 bytes of memory.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

RUN = 10
LEAST_JUDGED = 20
SHARE = 0.4
LEAST_WORDS = 20
CONTAINED = 0.85
MAX_LENGTH = 2
ABSENT, UNKNOWN = -1, -2
"""In place of an original's place: it is not among the pages; the page has no verdict."""
PIECE = 6
"""The characters of a word in scripts without spaces. Each character begins a word, so a 3-gram spans eight."""
_GRAM = 3
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
_SAMPLE = 24
"""The 3-grams of a page that vote for pages that may contain it."""
_INDEXED = 3 * _SAMPLE
"""The 3-grams by which an emitted page is found: a containing page of twice the length has the sample among these."""
_PAGES_OF_GRAM = 64
_VERIFIED = 3
"""The pages with the most votes that are compared with all 3-grams."""
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""The characters of scripts without spaces, as a part of a character class."""
_MARKS = "".join(chr(code) for code in range(0x590, 0x2000) if unicodedata.category(chr(code)) in ("Mn", "Mc", "Sc"))
"""Vowel signs and other marks belong to the letter before them, and currency signs to words."""
_LETTER = rf"[\w{_MARKS}]"
_WORD = re.compile(rf"((?:(?={_LETTER})[{UNSPACED}])+)|(?![{UNSPACED}])\w(?:(?![{UNSPACED}]){_LETTER})*")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; in scripts without spaces, PIECE characters from every character on."""
    words = list[str]()
    for found in _WORD.finditer(text.lower()):
        if found[1] is None:
            words.append(found[0])
        else:
            words += [found[1][start : start + PIECE] for start in range(len(found[1]))]
    return words


def digests_of(words: Sequence[str]) -> NDArray[np.uint64]:
    """A digest of each word, uint64[n]."""
    encoded = (word.encode("utf-8", "surrogatepass") for word in words)
    return np.fromiter(map(xxhash.xxh3_64_intdigest, encoded), np.uint64, len(words))


@dataclass(frozen=True, slots=True, eq=False)
class PageGrams:
    """The words of a page as 3-grams.

    words: the number of words, n
    grams: uint64[d], the digests of the distinct 3-grams, ascending
    places: int32[n - 2], the place of each 3-gram of the text in grams; empty for fewer than three words
    """

    words: int
    grams: NDArray[np.uint64]
    places: NDArray[np.int32]

    @classmethod
    def of(cls, words: Sequence[str]) -> "PageGrams":
        """The text of a page with these words."""
        return cls.of_digests(digests_of(words))

    @classmethod
    def of_digests(cls, digests: NDArray[np.uint64]) -> "PageGrams":
        """The text of a page. digests: uint64[n], of its words"""
        count = max(0, len(digests) - _GRAM + 1)
        mixed = np.zeros(count, np.uint64)
        for shift, multiplier in enumerate(_MULTIPLIERS):
            mixed += digests[shift : shift + count] * np.uint64(multiplier)
        grams, places = np.unique(mixed, return_inverse=True)
        return cls(len(digests), grams, places.astype(np.int32))

    @property
    def judged(self) -> bool:
        """Whether it has enough words to be judged."""
        return self.words >= LEAST_JUDGED


class LostPage(NamedTuple):
    """A dropped page with much fresh text. page, original: places; fresh, words: the number of fresh and all words"""

    page: int
    original: int
    fresh: int
    words: int


class MissedPage(NamedTuple):
    """An emitted page that an earlier emitted page contains, by their places."""

    page: int
    earlier: int


@dataclass(frozen=True, slots=True)
class FreshText:
    """The measures of the verdicts of one crawl.

    pages, judged: the number of pages with a verdict, and of pages with enough words to be judged among them
    dropped: the number of dropped pages
    absent: the number of judged pages among them whose original is not among the pages; they are neither lost nor gone
    lost: the lost pages in their order
    missed: the missed pages in their order
    words_gone: the number of words gone
    """

    pages: int
    judged: int
    dropped: int
    absent: int
    lost: tuple[LostPage, ...]
    missed: tuple[MissedPage, ...]
    words_gone: int


def fresh_words(page: PageGrams, other: PageGrams) -> int:
    """The number of words of a page that are fresh against another page."""
    return _fresh_words(page, _among(page.grams, other.grams))


def is_lost(fresh: int, words: int) -> bool:
    """Whether a dropped page with this number of fresh words is lost. words: the number of all its words"""
    return fresh >= max(LEAST_WORDS, SHARE * words)


def contains(other: PageGrams, page: PageGrams) -> bool:
    """Whether another page contains a page: nothing is fresh, most 3-grams occur, and it is at most twice as long."""
    if other.words > MAX_LENGTH * page.words or not len(page.places):
        return False
    present = _among(page.grams, other.grams)
    return float(present[page.places].mean()) >= CONTAINED and not _fresh_words(page, present)


def measure(texts: Sequence[PageGrams], originals: Sequence[int | None]) -> FreshText:
    """The measures of verdicts.

    texts: n texts in the order of the verdicts
    originals: for each page the place of its original or ABSENT; None for an emitted page; UNKNOWN without a verdict
    """
    index = _EmittedPages(texts)
    lost, missed = list[LostPage](), list[MissedPage]()
    emitted, with_fresh = list[PageGrams](), list[PageGrams]()
    absent = dropped = 0
    for place, (text, original) in enumerate(zip(texts, originals, strict=True)):
        if original is None:
            earlier = index.containing(text) if text.judged else None
            if earlier is not None:
                missed.append(MissedPage(place, earlier))
            index.add(place)
            emitted.append(text)
        elif original == ABSENT:
            absent += text.judged
        elif original != UNKNOWN and text.judged:
            dropped += 1
            fresh = fresh_words(text, texts[original])
            if fresh or originals[original] is not None:  # text of an emitted original is not gone
                with_fresh.append(text)
            if is_lost(fresh, text.words):
                lost.append(LostPage(place, original, fresh, text.words))
    judged = absent + dropped + sum(text.judged for text in emitted)
    pages = len(originals) - sum(original == UNKNOWN for original in originals)
    all_dropped = pages - len(emitted)
    return FreshText(pages, judged, all_dropped, absent, tuple(lost), tuple(missed), _words_gone(with_fresh, emitted))


def fresh_json(fresh: FreshText) -> dict[str, Any]:
    """Every number by its JSON name."""
    return {
        "pages": fresh.pages,
        "judged": fresh.judged,
        "dropped": fresh.dropped,
        "absent": fresh.absent,
        "lost": len(fresh.lost),
        "missed": len(fresh.missed),
        "words_gone": fresh.words_gone,
    }


def fresh_line(fresh: FreshText) -> str:
    """The numbers as one line for people."""
    figures = f"lost by fresh text {len(fresh.lost):,}, missed {len(fresh.missed):,}, words gone {fresh.words_gone:,}"
    absent = f"; {fresh.absent:,} dropped pages have no original among the pages" if fresh.absent else ""
    return f"{figures}; {fresh.judged:,} of {fresh.pages:,} pages judged{absent}"


def _words_gone(dropped: Sequence[PageGrams], emitted: Sequence[PageGrams]) -> int:
    """The number of words of dropped pages that are fresh against all emitted pages together."""
    grams = np.unique(np.concatenate([np.empty(0, np.uint64), *(text.grams for text in dropped)]))
    in_emitted = np.zeros(len(grams), np.bool_)
    for text in emitted:
        in_emitted[np.searchsorted(grams, text.grams[_among(text.grams, grams)])] = True
    known = grams[in_emitted]
    return sum(_fresh_words(text, _among(text.grams, known)) for text in dropped)


class _EmittedPages:
    """Finds an emitted page that contains a given page.

    Only 3-grams that several pages have among their _INDEXED smallest are indexed, each with its first pages.
    """

    def __init__(self, texts: Sequence[PageGrams]) -> None:
        self._texts = texts
        sketches = [text.grams[:_INDEXED] for text in texts]
        grams, pages = np.unique(np.concatenate([np.empty(0, np.uint64), *sketches]), return_counts=True)
        self._shared = grams[pages > 1]
        self._places: dict[int, list[int]] = {}

    def add(self, place: int) -> None:
        """Index an emitted page."""
        for gram in self._sketch(self._texts[place], _INDEXED):
            places = self._places.setdefault(gram, [])
            if len(places) < _PAGES_OF_GRAM:
                places.append(place)

    def containing(self, text: PageGrams) -> int | None:
        """The place of an indexed page that contains a page; None if none is found."""
        votes = Counter[int]()
        for gram in self._sketch(text, _SAMPLE):
            votes.update(self._places.get(gram, ()))
        fit = [place for place in votes if self._texts[place].words <= MAX_LENGTH * text.words]
        likely = sorted(fit, key=lambda place: (-votes[place], place))[:_VERIFIED]
        return next((place for place in likely if contains(self._texts[place], text)), None)

    def _sketch(self, text: PageGrams, size: int) -> list[int]:
        smallest = text.grams[:size]
        found: list[int] = smallest[_among(smallest, self._shared)].tolist()
        return found


def _among(grams: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each 3-gram is known. known: ascending"""
    if not len(known):
        return np.zeros(len(grams), np.bool_)
    present: NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, grams), len(known) - 1)] == grams
    return present


def _fresh_words(page: PageGrams, present: NDArray[np.bool_]) -> int:
    """The number of words in runs of RUN or more without a present 3-gram. present: for each distinct 3-gram"""
    covered = np.zeros(page.words, np.bool_)
    hits = present[page.places]
    for shift in range(_GRAM):
        covered[shift : shift + len(hits)] |= hits
    edges = np.flatnonzero(np.diff(covered, prepend=True, append=True))
    lengths = edges[1::2] - edges[::2]
    return int(lengths[lengths >= RUN].sum())
