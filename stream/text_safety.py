"""Owns how foreign text is made safe to show: in logs, on terminals and in headers."""

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


def escape_control_characters(text: str) -> str:
    """A text that cannot move a terminal's cursor or start a new log line, whatever a page's URL holds."""
    return text.translate(_ESCAPES)
