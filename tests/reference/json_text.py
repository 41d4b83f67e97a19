"""The text of a key at the top of a JSON object, by plain Python (stream/sign/intake/json_text.py)."""

import re

_TEXT = rb'"((?:[^"\\]|\\.)*)"'
_TOKEN = re.compile(_TEXT + rb"|[{}\[\]]", re.DOTALL)
_COLON = re.compile(rb"[ \n\r\t]*:[ \n\r\t]*")
_PIECE = re.compile(r'[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def taken_text(message: bytes, key: bytes) -> tuple[bytes, bytes] | None:
    """The text in UTF-8, and the message with an empty text in its place; None if a parser must read the whole."""
    depth, place, found = 0, 0, None
    while token := _next_token(message, place):
        place = token.end()
        if token[1] is None:
            depth += 1 if token[0] in b"{[" else -1
            continue
        colon = _COLON.match(message, place)
        if depth != 1 or not colon:
            continue
        if b"\\" in token[1]:
            return None
        if token[1] == key:
            value = re.compile(_TEXT, re.DOTALL).match(message, colon.end())
            text = _unescaped(value[1]) if value else None
            if found or value is None or text is None:
                return None
            found = text, message[: value.start(1)] + message[value.end(1) :]
            place = value.end()
    return None if b'"' in message[place:] else found


def _next_token(message: bytes, place: int) -> re.Match[bytes] | None:
    """The next text or bracket; None at the end, or before a text without an end."""
    quote, token = message.find(b'"', place), _TOKEN.search(message, place)
    return None if token is None or 0 <= quote < token.start() else token


def _unescaped(raw: bytes) -> bytes | None:
    """The text between quotation marks as UTF-8; None if it has a mistake or half a surrogate pair."""
    try:
        text = raw.decode()
        pieces = _PIECE.findall(text)
        if "".join(pieces) != text:
            return None
        units = b"".join(_character(piece).encode("utf-16-le", "surrogatepass") for piece in pieces)
        return units.decode("utf-16-le").encode()
    except UnicodeDecodeError:
        return None


def _character(piece: str) -> str:
    if piece[0] != "\\":
        return piece
    kind, digits = piece[1], f"0x{piece[2:]}"
    return chr(int(digits, 0)) if kind == "u" else _SIMPLE.get(kind, kind)
