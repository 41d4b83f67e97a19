"""Owns how foreign text is made safe to show: in logs, on terminals and in headers."""

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
# Line and paragraph separators begin a new line in some viewers; the others turn the direction of the text after them.
_LINES_AND_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_ESCAPES = {
    **{code: f"\\x{code:02x}" for code in _CONTROLS},
    **{code: f"\\u{code:04x}" for code in _LINES_AND_DIRECTIONS},
}


def escape_control_characters(text: str) -> str:
    """A text that cannot move a terminal's cursor, start a line or run backwards, whatever a page's URL holds."""
    return text.translate(_ESCAPES)
