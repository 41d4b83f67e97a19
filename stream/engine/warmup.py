"""Compiles the kernels of one scheme: each runs once on built-in pages, before the first page of the input.

numba caches compiled kernels on disk, so later processes only load them.
`python -m spotsieve.stream.warm` fills the cache.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import event

from spotsieve.state.format.meta import STATE_FORMAT, Identity
from spotsieve.state.log.record import encode
from spotsieve.state.store.buckets import StoredBuckets
from spotsieve.state.store.entry_cache import EntryCache
from spotsieve.state.store.memory import MemoryBackend
from spotsieve.state.store.state import State, begin_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import candidate_columns
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import find_matches, judge_alone
from spotsieve.stream.sign.intake.json_text import compile_take_text
from spotsieve.stream.sign.schemes import Scheme

STORY = "<title>The council of the elders</title>" + 4 * (
    "<p>The quick fox at the river was seen by a keeper of the old mill, and it ran to the hill.</p>"
    "<p>It is not known to whom it was going, but the letter that it had in its mouth will be read in the town.</p>"
    "<p>A council of the elders has been called for the night, and there will be bread and a fire in the yard.</p>"
)
EDITED = STORY + "<p>What the elders said was put down by a scribe, and can be had at the office for a coin.</p>"
EDITED_AGAIN = EDITED + "<p>The keeper was not there.</p>"
_NO_SETTINGS = bytes(16)


def _stored_state() -> State:
    """A state in memory that reads its buckets and entries as one in RocksDB does, so that these kernels run too."""
    backend = MemoryBackend()
    meta = begin_state(backend, Identity(STATE_FORMAT, "{}", "warm"))
    # It is always full, so that all of its kernels run.
    return State(backend, StoredBuckets(backend), meta, entries=EntryCache(most_bytes=2, most_entries=4))


class _CompileListener(event.Listener):  # type: ignore[misc]  # numba is untyped.
    """Counts the kernels that numba compiles; it reads the others from its cache without an event."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._depth = self._done = 0

    def on_start(self, _event: Any) -> None:
        if not self._depth:  # A kernel compiles the functions that it calls, inside its own event.
            self._say(f"compiling the kernels, {self._done} done: one to four minutes, once for this version")
        self._depth += 1

    def on_end(self, _event: Any) -> None:
        self._depth -= 1
        self._done += not self._depth


@contextlib.contextmanager
def announced_compiling(say: Callable[[str], None]) -> Iterator[None]:
    """Report each kernel that is compiled, with an estimate for all of them; nothing if the cache has them."""
    listener = _CompileListener(say)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)


def compile_kernels(scheme: Scheme, say: Callable[[str], None] = lambda _: None) -> None:
    """Sign, store and judge pages of every kind. say: shows the progress, if kernels must be compiled."""
    with announced_compiling(say):
        _run_kernels(scheme)


def _run_kernels(scheme: Scheme) -> None:
    """Take a body out of a message; then sign, store and judge pages of every kind.

    The pages are markup and plain text, a copy, an edited copy in the same record, an edited copy of an indexed page,
    an empty page, and bytes that are not text; then all of them again. A scheme that confirms candidates confirms both
    edited copies. At the end the pages are queried, for their verdict alone and for all matches.
    """
    compile_take_text()
    first = [
        _page(0, STORY),
        _page(1, STORY),
        _page(2, EDITED),
        _page(3, STORY, markup=False),
        _page(4, ""),
        Page("warm", 0, 5, "", b"\x89PNG", False, 0, judgeable=False),
    ]
    state = _stored_state()
    engine = Engine(scheme, state, IndexSettings(), _NO_SETTINGS, "warm")
    for offset, pages in enumerate((first, [_page(6, EDITED_AGAIN)], first)):
        engine.apply(encode(scheme.sign(pages), bytes(16), offset, _NO_SETTINGS), offset)
    signatures = scheme.sign(first)
    judge_alone(signatures, scheme, state, IndexSettings().candidate_limit)
    find_matches(signatures, scheme, state)
    # A model may know no term of these pages. Then there are no candidates, and the judge has confirmed nothing.
    if scheme.bars is None:
        rows = candidate_columns(signatures, scheme.compares_features)
        scheme.confirm(rows, rows)


def _page(number: int, body: str, *, markup: bool = True) -> Page:
    return Page("warm", 0, number, f"https://{number}.example/", body.encode(), markup, 0)
