"""Owns compiling: every kernel runs once on pages of our own before the first real page, and is cached on disk.

    python -m spotsieve.stream.warm [SCHEME ...]

compiles those of the schemes that are named, of all without a name, into numba's cache: an image is built with it.
"""

import json
import lzma
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import decode_buckets, encode_buckets
from spotsieve.state.index import Buckets
from spotsieve.state.log.record import decode, encode
from spotsieve.state.store.memory import MemoryState
from spotsieve.stream.engine import Engine
from spotsieve.stream.errors import EXIT_OK, SpotsieveError
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.settings.model import IndexSettings, Settings
from spotsieve.stream.signature import compared_pages
from spotsieve.stream.text_safety import show

_STORY = (
    "<p>The quick fox at the river was seen by a keeper of the old mill, and it ran to the hill.</p>"
    "<p>It is not known to whom it was going, but the letter that it had in its mouth will be read in the town.</p>"
    "<p>A council of the elders has been called for the night, and there will be bread and a fire in the yard.</p>"
) * 4
_EDITED = _STORY + "<p>What the elders said was put down by a scribe, and can be had at the office for a coin.</p>"
_NO_SETTINGS = bytes(16)


class _StoredState(MemoryState):
    """A state in memory whose buckets take the way of stored ones: as bytes."""

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """keys: uint64[u] -> their postings."""
        found = super().buckets(keys)
        sizes = np.diff(found.bounds).tolist()
        stored = zip(encode_buckets(keys, found), sizes, strict=True)
        return decode_buckets(keys, [value if size else None for value, size in stored])


def compile_kernels(scheme: Scheme) -> None:
    """Run pages of every kind through signing, storing and judging.

    Markup and plain text, a copy, an edited copy in the same record and one of a filed page (both are confirmed by
    schemes that confirm), an empty page, no text; then all of them again.
    """
    first = [
        _page(0, _STORY),
        _page(1, _STORY),
        _page(2, _EDITED),
        _page(3, _STORY, markup=False),
        _page(4, ""),
        Page("warm", 0, 5, "", b"\x89PNG", False, 0, judgeable=False),
    ]
    engine = Engine(scheme, _StoredState(), IndexSettings(), _NO_SETTINGS, "warm")
    for offset, pages in enumerate((first, [_page(6, _EDITED + _STORY[: len(_STORY) // 4])], first)):
        engine.apply(encode(scheme.sign(pages), bytes(16), offset, _NO_SETTINGS), offset)
    # Of a scheme with a model our pages may have no term that the model knows, and so no candidates.
    rows = compared_pages(
        decode(encode(scheme.sign(first), bytes(16), 0, _NO_SETTINGS)).signatures, scheme.compares_features
    )
    scheme.confirm(rows, rows)


def compile_named(names: Sequence[str]) -> None:
    """The kernels of schemes by name, under their defaults; those that need a model have one of our own pages.

    Raises SettingError for a name that no scheme has.
    """
    # Only here: a service and a filter know their scheme, and read no models of others.
    from spotsieve.stream.evaluation.choices import with_model
    from spotsieve.stream.evaluation.set_models import build_models
    from spotsieve.stream.evaluation.trial import PAGES_FILE
    from spotsieve.stream.schemes.registry import scheme_of
    from spotsieve.stream.settings.load import unknown_scheme
    from spotsieve.stream.settings.schemes import SCHEME_SETTINGS

    for name in names:
        if name not in SCHEME_SETTINGS:
            raise unknown_scheme("SCHEME", name)
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps({"url": "https://warm.example/", "body": body}) for body in (_STORY, _EDITED, _STORY[:400])]
        (Path(folder) / PAGES_FILE).write_bytes(lzma.compress("\n".join(lines).encode()))
        for name in names:
            given = SCHEME_SETTINGS[name]()
            models = build_models(Path(folder), Settings(), [given], Path(folder), lambda *_: None)
            compile_kernels(scheme_of(with_model(given, models)))


def _page(number: int, body: str, *, markup: bool = True) -> Page:
    return Page("warm", 0, number, f"https://{number}.example/", body.encode(), markup, 0)


def main(arguments: Sequence[str]) -> int:
    """Compile, say which one is at it; the exit code."""
    from spotsieve.stream.settings.schemes import SCHEME_SETTINGS

    try:
        for name in arguments or list(SCHEME_SETTINGS):
            show(f"compiling the kernels of {name}", to=sys.stderr)
            compile_named([name])
    except SpotsieveError as error:
        show(f"spotsieve: {error}", to=sys.stderr)
        return error.exit_code
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
