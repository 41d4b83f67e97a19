"""Compiles the kernels of one scheme: each runs once on built-in pages, before the first page of the input.

numba caches compiled kernels on disk, so later processes only load them.
`python -m spotsieve.stream.warm` fills the cache.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
from numba.core import event

from spotsieve.state.format.common_text import read_common_text
from spotsieve.state.format.meta import STATE_FORMAT, Identity
from spotsieve.state.log.record import encode
from spotsieve.state.store.buckets import StoredBuckets
from spotsieve.state.store.entry_cache import EntryCache
from spotsieve.state.store.memory import MemoryBackend, memory_state
from spotsieve.state.store.state import State, begin_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.progress import duration
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.signature import candidate_columns
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import find_matches, judge_alone
from spotsieve.stream.sign.intake.json_text import compile_take_text
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.text.script_text import find_scripts

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


SHARES = MappingProxyType(
    {
        "spotsieve.stream.sign.features.sieve._sieve_batch": 0.43,
        "spotsieve.stream.judge.by_host.resolution._resolve_kernel": 0.25,
        "spotsieve.stream.judge.by_host.confirmation._confirm_kernel": 0.08,
    }
)
"""The slowest kernels of the default scheme, with their shares of the time for all its kernels."""
_OTHER_SHARE = 0.008
"""The share of each other kernel of the default scheme, on average."""
_TICK_S = 0.5


class _CompileListener(event.Listener):  # type: ignore[misc]  # numba is untyped.
    """Counts the kernels that numba compiles; it reads the others from its cache without an event.

    It reports from a thread of its own, because the compiler takes half a minute for some kernels.
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._depth = self._done = 0
        self._began = 0.0
        self._share, self._total_s = 0.0, 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._report, name="spotsieve-compiling", daemon=True)

    def on_start(self, _event: Any) -> None:
        """Begin to report with the first kernel."""
        if not self._depth and not self._done:
            self._began = self._clock()
            self._say(self.text())
            self._thread.start()
        self._depth += 1  # A kernel compiles the functions that it calls, inside its own event.

    def on_end(self, ended: Any) -> None:
        """Estimate the time for all kernels from those that are done."""
        self._depth -= 1
        if not self._depth:
            function = ended.data["dispatcher"].py_func
            self._done += 1
            self._share += SHARES.get(f"{function.__module__}.{function.__qualname__}", _OTHER_SHARE)
            if self._share >= max(SHARES.values()):
                self._total_s = (self._clock() - self._began) / min(self._share, 1.0)

    def text(self) -> str:
        """Such as "compiling the kernels, once for this machine: 12 done in 0:01:10, about 0:00:40 left"."""
        seconds = self._clock() - self._began
        left = (
            f"about {duration(max(self._total_s - seconds, 1.0))} left"
            if self._total_s
            else "one to four minutes in all"
        )
        return f"compiling the kernels, once for this machine: {self._done} done in {duration(seconds)}, {left}"

    def close(self) -> None:
        """End the reports."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _report(self) -> None:
        while not self._ended.wait(_TICK_S):
            if self._depth:
                self._say(self.text())


@contextlib.contextmanager
def announced_compiling(say: Callable[[str], None]) -> Iterator[None]:
    """Report twice a second while a kernel is compiled, with the remaining time; nothing if the cache has them all.

    say: may be called in another thread
    """
    listener = _CompileListener(say)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
        listener.close()


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
    find_scripts(np.frombuffer(bytes(64), np.uint8), 0)  # For pages with little text, before they are signed.
    first = [
        _page(0, STORY),
        _page(1, STORY),
        _page(2, EDITED),
        _page(3, STORY, markup=False),
        _page(4, ""),
        Page("warm", 0, 5, "", b"\x89PNG", False, 0, judgeable=False),
    ]
    state = _stored_state()
    # The library without a directory has a state in memory, whose buckets have kernels of their own.
    engines = [Engine(scheme, one, IndexSettings(), _NO_SETTINGS, "warm") for one in (state, memory_state())]
    for offset, pages in enumerate((first, [_page(6, EDITED_AGAIN)], first)):
        record = encode(scheme.sign(pages), bytes(16), offset, _NO_SETTINGS)
        for engine in engines:
            engine.apply(record, offset)
    read_common_text(state.scan("common"))  # Every opening of a state reads the changes of common text.
    signatures = scheme.sign(first)
    judge_alone(signatures, scheme, state, IndexSettings().candidate_limit)
    find_matches(signatures, scheme, state)
    # A model may know no term of these pages. Then there are no candidates, and the judge has confirmed nothing.
    if scheme.host_thresholds is None:
        rows = candidate_columns(signatures, scheme.compares_features)
        scheme.confirm(rows, rows)


def _page(number: int, body: str, *, markup: bool = True) -> Page:
    return Page("warm", 0, number, f"https://{number}.example/", body.encode(), markup, 0)
