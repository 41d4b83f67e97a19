"""Edits the own text of a page, by a known size: as other sites and later fetches change what they print again."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from random import Random

from spotsieve.stream.explain.shown_text import words_of

CUT = (0.65, 0.92)
"""The share of the words that a cut leaves."""
EXTENDED = (0.08, 0.4)
"""What is added, as a share of the words."""
NUMBERS_SHARE = 1 / 25
"""At most this share of the words is a changed number."""
_READ_MORE = "Read more"


class PlantedEdit(StrEnum):
    """How a copy differs from its original, from the lightest edit to the heaviest."""

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
    PlantedEdit.NUMBERS: "fetched again: up to one word in 25 is another number",
    PlantedEdit.REORDERED: "paragraphs in another order",
    PlantedEdit.EXTENDED: "8 to 40 % of another page's text is added",
    PlantedEdit.CUT: 'cut after 65 to 92 %, "Read more"',
    PlantedEdit.WORDS_2: "2 % of the words are others",
    PlantedEdit.WORDS_5: "5 % of the words are others",
    PlantedEdit.WORDS_10: "10 % of the words are others",
}


def edited(texts: Sequence[str], edit: PlantedEdit, other: Sequence[str], random: Random) -> list[str] | None:
    """The paragraphs after an edit; None where the text has nothing to be edited in this way.

    other: paragraphs of another page, whose words and text are taken over
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
    found = changes[edit]()
    return None if found == list(texts) else found


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
    """Another number of as many digits."""
    digits = [str(random.randint(place == 0, 9)) for place in range(len(number))]
    digits[-1] = random.choice([digit for digit in "123456789" if digit != number[-1]])
    return "".join(digits)


def _reordered(texts: Sequence[str], random: Random) -> list[str] | None:
    """All paragraphs but the first, which is mostly a headline, in another order."""
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
    """The first words of a text."""
    taken = list[str]()
    for text in texts:
        found = words_of(text)
        if len(found) >= words:
            return [*taken, text[: found[words - 1].end]] if words else taken
        taken.append(text)
        words -= len(found)
    return taken


def _words(texts: Sequence[str], share: float, other: Sequence[str], random: Random) -> list[str] | None:
    """Words of letters replaced by such words of another page."""
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
    """changes: (paragraph, start, end, new text), which do not overlap"""
    found = list(texts)
    for number, start, end, new in sorted(changes, reverse=True):
        found[number] = found[number][:start] + new + found[number][end:]
    return [re.sub(r"\s+", " ", text) for text in found]
