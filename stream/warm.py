"""Owns compiling: every kernel runs once on a page of our own before the first real page, and is cached on disk."""

from state.logrecord import encode
from state.memory import MemoryState
from stream.config import IndexSettings
from stream.engine import Engine
from stream.page import Page
from stream.schemes import Scheme

_ARTICLE = b"<p>The quick fox at the river was seen by a keeper of the old mill, and it ran to the hill.</p>"
_NO_SETTINGS = bytes(16)


def compile_kernels(scheme: Scheme) -> None:
    """Run pages of every kind through signing and judging: markup and plain text, a copy, an empty one, no text."""
    pages = [
        Page("warm", 0, 0, "", _ARTICLE * 20, True, 0),
        Page("warm", 0, 1, "", _ARTICLE * 20, True, 0),
        Page("warm", 0, 2, "", _ARTICLE, False, 0),
        Page("warm", 0, 3, "", b"", True, 0),
        Page("warm", 0, 4, "", b"\x89PNG", False, 0, judgeable=False),
    ]
    engine = Engine(scheme, MemoryState(), IndexSettings(), _NO_SETTINGS, "warm")
    for offset in range(2):
        engine.apply(encode(scheme.sign(pages), bytes(16), offset, _NO_SETTINGS), offset)
