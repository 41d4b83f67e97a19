"""Owns how foreign text is made safe to show: in logs, on terminals and in headers. Nothing else prints (ruff T20)."""

import sys
from typing import TextIO

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
# Line and paragraph separators begin a new line in some viewers; the others turn the direction of the text after them.
_LINES_AND_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x2070))
# What Python makes of file names and variables that are not UTF-8; no encoding takes it.
_SURROGATES = range(0xD800, 0xE000)
_ESCAPES = {
    **{code: f"\\x{code:02x}" for code in _CONTROLS},
    **{code: f"\\u{code:04x}" for code in (*_LINES_AND_DIRECTIONS, *_SURROGATES)},
}


def escape_control_characters(text: str) -> str:
    """A text that cannot move a terminal's cursor, start a line or run backwards, whatever a page's URL holds."""
    return text.translate(_ESCAPES)


def show(*lines: str, to: TextIO | None = None) -> None:
    """Print lines for a person (to: standard output), each on one line of its own, whatever foreign text it holds.

    A text of several lines is given as show(*text.splitlines()): then the foreign text within it must be
    escaped already, or it could begin a line.
    """
    stream = sys.stdout if to is None else to
    text = "".join(f"{escape_control_characters(line)}\n" for line in lines)
    # A terminal of another character set shows what it lacks by number; it is no reason to fail.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
