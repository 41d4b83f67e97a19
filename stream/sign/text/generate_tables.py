"""Writes characters.txt and entities.txt, the frozen tables of the text kernel, from the running Python's Unicode data.

Run `python -m spotsieve.stream.sign.text.generate_tables` by hand for a newer Unicode version. Tokens and verdicts may
then change; the digests in stream/sign/text/characters.py prevent an accidental change.

    characters.txt = header lines "# ...", then one line "FIRST-LAST CLASS DELTA" per range: code points in hex, all of
                     one class, with the lower case `code point + DELTA`. All other code points separate tokens.
    entities.txt   = header lines "# ...", then one line "NAME CODEPOINT [CODEPOINT]" per entity; NAME without '&', with
                     ';' if it needs one.

CLASS is w for a word character (letter or number), m for a mark, i for a letter of a script without spaces, which is a
token by itself, and x for an ignored character. A mark after an i letter is dropped: Thai, Lao, Khmer and Burmese are
counted by letters, without their vowel signs and tones.
"""

import hashlib
import html.entities
import sys
import unicodedata
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
_ZERO_WIDTH_SPACE = 0x200B
_FINAL_SIGMA, _SIGMA = 0x3C2, 0x3C3
_CAPITAL_I_WITH_DOT = 0x130


def character_class(code_point: int) -> str | None:
    """The class of a code point, None for a separator."""
    character = chr(code_point)
    category = unicodedata.category(character)
    if category[0] in "LN":
        return "i" if category not in ("Nd", "No") and unicodedata.name(character, "").startswith(_ALONE) else "w"
    if category[0] == "M":
        return "m"
    return "x" if category == "Cf" and code_point != _ZERO_WIDTH_SPACE else None


def lower_delta(code_point: int) -> int:
    """The difference between the lower case of a code point and the code point.

    The lower case is always one code point. A final sigma becomes a sigma, because its form depends on its position.
    """
    if code_point == _CAPITAL_I_WITH_DOT:
        return ord("i") - code_point
    if code_point == _FINAL_SIGMA:
        return _SIGMA - _FINAL_SIGMA
    lower = chr(code_point).lower()
    return ord(lower) - code_point if len(lower) == 1 else 0


def character_lines() -> list[str]:
    """The body of characters.txt."""
    ranges: list[list[object]] = []
    previous: tuple[str, int] | None = None
    for code_point in range(sys.maxunicode + 1):
        kind = character_class(code_point)
        entry = None if kind is None else (kind, lower_delta(code_point))
        if entry is not None and entry == previous:
            ranges[-1][1] = code_point
        elif entry is not None:
            ranges.append([code_point, code_point, *entry])
        previous = entry
    return [f"{first:04X}-{last:04X} {kind} {delta}" for first, last, kind, delta in ranges]


def entity_lines() -> list[str]:
    """The body of entities.txt."""
    return [
        " ".join([name, *(f"{ord(character):04X}" for character in characters)])
        for name, characters in sorted(html.entities.html5.items())
    ]


def main() -> None:
    """Write both files and print the digests for stream/sign/text/characters.py."""
    headers = {
        "characters.txt": [f"# Character classes and lower case, Unicode {unicodedata.unidata_version}"],
        "entities.txt": ["# HTML named character references, the list of the HTML standard"],
    }
    bodies = {"characters.txt": character_lines(), "entities.txt": entity_lines()}
    for name, header in headers.items():
        written = "\n".join([*header, *bodies[name], ""]).encode("ascii")
        (FOLDER / name).write_bytes(written)
        show(f"{name} {hashlib.sha256(written).hexdigest()}")


if __name__ == "__main__":
    main()
