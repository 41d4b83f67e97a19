"""Writes the frozen tables of the text kernel from the running Python's Unicode data.

Run `python -m spotsieve.stream.sign.text.generate_tables` by hand for a newer Unicode version. Tokens and verdicts may
then change; the digests in stream/sign/text/characters.py prevent an accidental change.

    characters.txt   = header lines "# ...", then one line "FIRST-LAST CLASS DELTA" per range: code points in hex, all
                       of one class, each read as `code point + DELTA`. All other code points separate tokens. A mark
                       has two more columns: its canonical combining class, and the class letters of the characters
                       with which it may compose, "-" for none. Class e has, instead of DELTA, the code points as which
                       the character is read.
    compositions.txt = header lines "# ...", then one line "COMPOSITE FIRST SECOND" per canonical composition
    entities.txt     = header lines "# ...", then one line "NAME CODEPOINT [CODEPOINT]" per entity; NAME without '&',
                       with ';' if it needs one.

CLASS is w for a word character (letter or number), j for a word character that may compose with the one before it, m
for a mark, i for a letter of a script without spaces, which is a token by itself, o for such a letter that may compose
with a mark after it, e for a character that is read as several, and x for an ignored character. A mark after an i or o
letter is dropped unless they compose: Thai, Lao, Khmer and Burmese are counted by letters, without their vowel signs
and tones.

Characters are read as NFKC_Casefold reads them (Unicode 14, sec. 5.18 and annex 44), with these exceptions:

- The dot above an i is dropped, because Turkish writes the capital of i with a dot, and other languages do not.
- An iota subscript (U+0345) becomes an iota only within a word, after its marks are ordered. Elsewhere it is dropped,
  as any mark is.
- Format characters that are visible (Cf, such as U+0600) are ignored as the invisible ones are.
"""

import hashlib
import html.entities
import sys
import unicodedata
from functools import cache
from pathlib import Path

from spotsieve.stream.base.terminal import show

FOLDER = Path(__file__).parent
_ALONE = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "HIRAGANA ",
    "KATAKANA ",
    "KATAKANA-HIRAGANA ",
    "HALFWIDTH KATAKANA",
    "HENTAIGANA",
    "IDEOGRAPHIC ITERATION MARK",
    "IDEOGRAPHIC NUMBER ZERO",
    "VERTICAL IDEOGRAPHIC ITERATION MARK",
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
    "NEW TAI LUE ",
    "TAI LE ",
    "TAI THAM ",
    "TAI VIET ",
)
"""Prefixes of the names of letters that are tokens by themselves. Digits of these scripts form numbers, as in all
others."""
_IGNORABLE = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
"""Ranges of Default_Ignorable_Code_Point (DerivedCoreProperties.txt), which unicodedata does not have."""
_IOTA_SUBSCRIPT = "\u0345"
_PLACEHOLDER = "\ue345"
"""Stands for an iota subscript while a text is composed: a private character composes with no other."""
_DOT_ABOVE = "\u0307"


def folding(code_point: int) -> str:
    """What a code point is read as: NFKC_Casefold with the exceptions above."""
    folded = chr(code_point)
    before = ""
    while folded != before:
        before = folded
        folded = unicodedata.normalize("NFKD", before)
        folded = "".join(one if one == _IOTA_SUBSCRIPT else one.casefold() for one in folded if not _ignorable(one))
        folded = unicodedata.normalize("NFKD", folded)
    folded = folded.replace("i" + _DOT_ABOVE, "i").replace(_IOTA_SUBSCRIPT, _PLACEHOLDER)
    return unicodedata.normalize("NFC", folded).replace(_PLACEHOLDER, _IOTA_SUBSCRIPT)


def _ignorable(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _IGNORABLE)


@cache
def compositions() -> dict[int, tuple[int, int]]:
    """The two parts of each canonical composite of folded characters, Hangul syllables excepted."""
    parts = {}
    for code_point in range(sys.maxunicode + 1):
        character = chr(code_point)
        fields = unicodedata.decomposition(character).split()
        if len(fields) != 2 or "<" in fields[0] or plain_class(code_point) is None:
            continue
        if unicodedata.normalize("NFC", character) == character == folding(code_point):
            parts[code_point] = (int(fields[0], 16), int(fields[1], 16))
    return parts


@cache
def _seconds() -> dict[int, str]:
    """The class letters of the characters with which a code point composes, for each second part."""
    found: dict[int, set[str]] = {}
    for first, second in compositions().values():
        found.setdefault(second, set()).add(plain_class(first) or "-")
    found[ord(_IOTA_SUBSCRIPT)] = {"w"}
    return {second: "".join(sorted(kinds)) for second, kinds in found.items()}


@cache
def _firsts() -> frozenset[int]:
    return frozenset(first for first, _ in compositions().values())


def plain_class(code_point: int) -> str | None:
    """The class of a folded code point before compositions are considered, None for a separator."""
    character = chr(code_point)
    category = unicodedata.category(character)
    if _ignorable(character) or category == "Cf":
        return "x"
    if category[0] in "LN":
        return "i" if category not in ("Nd", "No") and unicodedata.name(character, "").startswith(_ALONE) else "w"
    return "m" if category[0] == "M" else None


def character_class(code_point: int) -> str | None:
    """The class of a code point, None for a separator."""
    if unicodedata.category(chr(code_point)) in ("Cn", "Co", "Cs"):
        return "x" if _ignorable(chr(code_point)) else None
    folded = folding(code_point)
    if len(folded) != 1:
        kinds = [plain_class(ord(one)) for one in folded]
        # After a separator, a mark is dropped.
        only_separators = all(kind is None or (kind == "m" and kinds[0] is None) for kind in kinds)
        return "x" if not folded else (None if only_separators else "e")
    kind = plain_class(ord(folded))
    if kind == "i" and ord(folded) in _firsts():
        return "o"
    return "j" if kind == "w" and (ord(folded) in _seconds() or _is_trailing_jamo(ord(folded))) else kind


def _is_trailing_jamo(code_point: int) -> bool:
    return 0x1161 <= code_point <= 0x1175 or 0x11A8 <= code_point <= 0x11C2


def character_columns(code_point: int) -> str | None:
    """The class and the further columns of a code point in characters.txt, None for a separator."""
    kind = character_class(code_point)
    if kind is None or kind == "x":
        return kind and "x 0"
    folded = folding(code_point)
    if kind == "e":
        return " ".join(["e", *(f"{ord(one):04X}" for one in folded)])
    delta = f"{kind} {ord(folded) - code_point}"
    if kind != "m":
        return delta
    return f"{delta} {unicodedata.combining(folded)} {_seconds().get(ord(folded), '-')}"


def character_lines() -> list[str]:
    """The body of characters.txt."""
    ranges: list[tuple[int, int, str]] = []
    for code_point in range(sys.maxunicode + 1):
        columns = character_columns(code_point)
        if columns is not None and ranges and ranges[-1][1:] == (code_point - 1, columns):
            ranges[-1] = (ranges[-1][0], code_point, columns)
        elif columns is not None:
            ranges.append((code_point, code_point, columns))
    return [f"{first:04X}-{last:04X} {columns}" for first, last, columns in ranges]


def composition_lines() -> list[str]:
    """The body of compositions.txt."""
    return [f"{composite:04X} {first:04X} {second:04X}" for composite, (first, second) in compositions().items()]


def entity_lines() -> list[str]:
    """The body of entities.txt."""
    return [
        " ".join([name, *(f"{ord(character):04X}" for character in characters)])
        for name, characters in sorted(html.entities.html5.items())
    ]


def main() -> None:
    """Write the files and print the digests for stream/sign/text/characters.py."""
    headers = {
        "characters.txt": [f"# Character classes and foldings, Unicode {unicodedata.unidata_version}"],
        "compositions.txt": [f"# Canonical compositions, Unicode {unicodedata.unidata_version}"],
        "entities.txt": ["# HTML named character references, the list of the HTML standard"],
    }
    bodies = {
        "characters.txt": character_lines(),
        "compositions.txt": composition_lines(),
        "entities.txt": entity_lines(),
    }
    for name, header in headers.items():
        written = "\n".join([*header, *bodies[name], ""]).encode("ascii")
        (FOLDER / name).write_bytes(written)
        show(f"{name} {hashlib.sha256(written).hexdigest()}")


if __name__ == "__main__":
    main()
