"""Makes foreign text safe for logs, terminals and headers. All printing goes through here (ruff T20).

Text gets the escapes of Python, and JSON those of JSON, so that its parsed value stays the same.

It also opens the standard streams that the parent of a command closed, and says whether someone reads the output.
"""

import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from spotsieve.stream.base.errors import StateError, write_advice

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
# Line and paragraph separators start a new line in some viewers. The others change the direction of the text.
_LINES_AND_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x2070))
# Python decodes bytes of file names and variables that are not UTF-8 to these. No encoding accepts them.
_SURROGATES = range(0xD800, 0xE000)
_ESCAPES = {
    **{code: f"\\x{code:02x}" for code in _CONTROLS},
    **{code: f"\\u{code:04x}" for code in (*_LINES_AND_DIRECTIONS, *_SURROGATES)},
}


def escape_control_characters(text: str) -> str:
    """The text with escapes for characters that move the cursor, start a line or change the direction."""
    # Escaped characters are not printable, and nearly all text is. translate() takes 2 us for a short text.
    return text if text.isprintable() else text.translate(_ESCAPES)


def as_utf8(name: str) -> str:
    """A name with escapes for bytes that are not UTF-8, because page ids are UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def json_text(value: object, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """A value as JSON in ASCII, with JSON escapes for everything that escape_control_characters() escapes.

    indent, default: as of json.dumps()
    """
    # json.dumps() escapes C0 controls and everything outside ASCII, and leaves DEL.
    return json.dumps(value, indent=indent, default=default).replace("\x7f", "\\u007f")


# The UTF-8 bytes of the characters in _ESCAPES. In UTF-8 they are never a part of another character.
_JSON_CONTROLS = re.compile(
    rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2(?:\x80[\x8e\x8f\xa8-\xae]|\x81[\xa6-\xaf])"
)
_HARMLESS = bytes(byte for byte in range(256) if byte == 0x0A or not (byte < 0x20 or byte in b"\x7f\xc2\xd8\xe2"))


def escape_json(lines: bytes) -> bytes:
    """JSON in UTF-8 with JSON escapes for everything that escape_control_characters() escapes. Line feeds stay.

    The parsed values stay the same: in valid JSON, C0 controls are white space, and the others are parts of texts.
    """
    # translate() takes 10 us for 20 KB, and the expression a hundred times as long.
    return _JSON_CONTROLS.sub(_json_escape, lines) if lines.translate(None, _HARMLESS) else lines


def _json_escape(found: re.Match[bytes]) -> bytes:
    code = ord(found[0].decode())
    return b" " if code < 0x20 else b"\\u%04x" % code


_STYLES = {"": "", "bold": "1", "dim": "2", "good": "32", "bad": "31", "mark": "33"}
"""Style -> SGR code (ANSI X3.64)."""
Span = tuple[str, str]
"""A part of a line: its text and its style, a key of _STYLES."""


def show_styled(lines: Iterable[Sequence[Span]], *, colour: bool) -> None:
    """Print lines with styled parts, escaped as in show().  colour: whether to write the styles"""
    text = ""
    for line in lines:
        parts = ((escape_control_characters(part), _STYLES[style] if colour else "") for part, style in line)
        text += "".join(f"\x1b[{code}m{part}\x1b[0m" if code else part for part, code in parts) + "\n"
    _write(text, None)


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether to print in colour: on a terminal with colours, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def show(*lines: str, to: TextIO | None = None) -> None:
    """Print lines for people; each stays on one line, whatever foreign text it contains.  to: default standard output

    Print a text of several lines by show(*text.splitlines()), and escape foreign text in it first: otherwise it could
    start a line. Without lines, it writes what is buffered.
    Raises StateError if standard output cannot be written, and BrokenPipeError if its reader has gone.
    """
    _write("".join(f"{escape_control_characters(line)}\n" for line in lines), to)


def _write(text: str, to: TextIO | None) -> None:
    stream = sys.stdout if to is None else to
    # On a terminal with another character set, print the number of a missing character instead of failing.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError) or stream is not sys.stdout:
            raise
        discard_output()
        rule, then = (
            f"cannot be written: {error.strerror or error}",
            f"{write_advice(error)}, or write to another place",
        )
        raise StateError("standard output", rule, None, then) from None


def discard_output() -> None:
    """Discard the rest of standard output after an error of writing it. Python's flush at exit must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def table_lines(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """The rows of a table as lines. The first column is aligned to the left, the others to the right.

    width: the columns of the terminal. Cells of a wider table are folded. Default: the width of standard output; None
    elsewhere than on a terminal, where lines have any length.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        return _folded(rows, width)
    return [
        "  ".join(
            cell.rjust(room) if place else cell.ljust(room)
            for place, (cell, room) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _folded(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of a table that is wider than the terminal."""
    import io

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1), pad_edge=False)
    for place in range(len(rows[0])):
        table.add_column(justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, map(escape_control_characters, row)))
    console = Console(file=io.StringIO(), width=max(width, 2 * len(rows[0])), color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


_INPUT, _OUTPUT, _ERROR = range(3)


def fill_closed_streams() -> None:
    """Replace each closed standard stream (`>&-`): otherwise a file of the state would get its descriptor.

    Reading the new standard input fails, standard output is a pipe without a reader, and standard error is discarded.
    """
    for number in (_INPUT, _OUTPUT, _ERROR):
        try:
            os.fstat(number)
        except OSError:
            _fill(number)


def has_reader(stream: TextIO) -> bool:
    """Whether a file or a program gets the bytes of a stream: it is neither a terminal nor the null device."""
    if stream.isatty():
        return False
    try:
        found = os.fstat(stream.fileno())
    except OSError:
        return True  # A stream in memory, which a Python program reads.
    return not (stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev)


def _fill(number: int) -> None:
    """Open the descriptor `number`: the lowest free one, because all lower ones are open."""
    if number == _OUTPUT:
        _, writer = os.pipe()
        os.dup2(writer, number)  # This closes the reader, which has this number.
        os.close(writer)
        sys.stdout = open(number, "w", closefd=False)  # noqa: SIM115  open as long as the process
        return
    os.open(os.devnull, os.O_WRONLY)
    os.set_inheritable(number, True)
    if number == _INPUT:
        sys.stdin = open(number, closefd=False)  # noqa: SIM115  open as long as the process
    else:
        sys.stderr = open(number, "w", closefd=False)  # noqa: SIM115  open as long as the process
