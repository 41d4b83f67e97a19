"""The class that programs call: one engine, in memory, over a state directory, or reading a state that others write.

What the library says of a page: one frozen verdict, with the names that verdict lines of the filter have.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from spotsieve.stream.base.batches import batches
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.load import load_chosen, stored_values
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Entry, Signatures
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.local.library.engines import NAME, IdleOwner, OpenEngine, open_to_add, open_to_ask
from spotsieve.stream.local.library.pages import CrawledPage, PageMaker

VerdictKind = Literal["novel", "duplicate", "unchecked"]

_KINDS: dict[int, VerdictKind] = {Kind.NOVEL: "novel", Kind.DUPLICATE: "duplicate", Kind.UNCHECKED: "unchecked"}
_REASONS = {int(reason): reason.label for reason in Reason}


@dataclass(frozen=True, slots=True)
class Original:
    """A page that was let through. id: as it was added, or as the filter wrote it"""

    id: str
    url: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a page is.

    id: as it was given, as text  url: as it was given
    kind: novel (no page that was let through is an original of it), duplicate (of `original`), or unchecked (nothing
    can be said of it, as of an empty page)
    reason: why, in the words of docs/guide.md: no_match, near, exact, ...
    original: the page that it is a copy of; None where it is no duplicate
    score: similarity to the original, 0 to 1; None where it is no duplicate
    replaces: where policy.keep is not first, the page let through that this copy is kept in place of; else None
    """

    id: str
    url: str
    kind: VerdictKind
    reason: str
    original: Original | None = None
    score: float | None = None
    replaces: Original | None = None

    @property
    def is_duplicate(self) -> bool:
        """Whether the page is a copy. Keep those that are not: novel pages, and those that nothing can be said of."""
        return self.kind == "duplicate"


def verdicts_of(ids: Sequence[str], pages: Sequence[Page], parts: Iterable[Verdicts]) -> Iterator[Verdict]:
    """The verdicts of consecutive parts of these pages. ids: of the pages, in the same order"""
    first = 0
    for part in parts:
        columns = zip(
            ids[first : first + len(part)],
            pages[first : first + len(part)],
            part.kind.tolist(),
            part.reason.tolist(),
            part.score.tolist(),
            part.originals,
            part.replaces,
            strict=True,
        )
        for name, page, kind, reason, score, original, replaced in columns:
            yield Verdict(
                name,
                page.url,
                _KINDS[kind],
                _REASONS[reason],
                _named(original),
                None if math.isnan(score) else score,
                _named(replaced),
            )
        first += len(part)


def _named(entry: Entry | None) -> Original | None:
    return None if entry is None else Original(entry.id, entry.url)


GivenPage = CrawledPage | tuple[str | int, str, str | bytes]
"""What add_many and query_many take: an (id, url, body), or with what else a CrawledPage says."""
_Batch = Sequence[tuple[str, Page]]
"""Pages with their ids as text."""


class Deduplicator:
    """Says of each page whether it is a copy of one that came before. Use it as a context, or call close().

        with Deduplicator("seen") as seen:
            verdict = seen.add("page 7", "https://example.org/7", "<h1>...</h1>")

    path: None: in memory, forgotten at the end; a directory: a state, made if it is not there, that
    `spotsieve filter --state` opens too (one process at a time)
    read_only: ask the state and change nothing. path is then a snapshot, or the state of a filter or service, which may
    be at work on it: what it files later is not seen
    config: a TOML file of settings  scheme, threshold: as of `spotsieve filter`
    settings: any others, with two underscores below each section: index__horizon_hours=24. The environment is not read
    clock: seconds since the epoch, the time of pages that have none

    A state is asked under the settings that it was made with, where none are given; other ones are refused.

    Threads: any thread may call any method at any time. Pages are signed side by side, without the GIL; one lock lets
    one batch after the other be judged, and their order is that in which they got the lock. An iterator that add_many
    or query_many returned belongs to one thread. In asyncio, call `await asyncio.to_thread(seen.add, ...)`.
    Processes: one owns a directory; others open it read_only. Do not carry an open one over a fork.

    The first use on a machine compiles the kernels, which takes half a minute; the logger "spotsieve" says so.

    Raises SettingError for wrong settings, StateError for a state that cannot be used: StateLockedError if another
    process
    owns it, SettingsMismatch if it was made with other settings, CorruptRecord if it is damaged.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
        config: str | os.PathLike[str] | None = None,
        scheme: str | None = None,
        threshold: float | None = None,
        clock: Callable[[], float] = time.time,
        **settings: object,
    ) -> None:
        file = None if config is None else Path(config)
        given = dict(_dotted(settings))

        def settings_for(stored: str | None) -> Settings:
            values = stored_values(stored) if stored is not None and file is None else None
            return load_chosen(file, {}, given, scheme, threshold, values)

        if path is not None and not str(path).strip():
            raise SettingError("path", "must not be empty", None, "is a variable unset? None keeps pages in memory")
        opened = (open_to_ask if read_only else open_to_add)(None if path is None else Path(path), settings_for)
        self._stand_on(opened, clock)

    @classmethod
    def over(cls, opened: OpenEngine, clock: Callable[[], float] = time.time) -> Self:
        """One over what is open already, for commands whose settings come from the environment and from flags too."""
        made = cls.__new__(cls)
        made._stand_on(opened, clock)
        return made

    def _stand_on(self, opened: OpenEngine, clock: Callable[[], float]) -> None:
        self._settings, self._scheme = opened.settings, opened.scheme
        self._index_update, self._asking, self._release = opened.index_update, opened.asking, opened.close
        self._maker = PageMaker(opened.settings.input, clock)
        self._lock = threading.Lock()
        self._open, self._failed = True, False
        self._idle = (
            IdleOwner(self._index_update, self._lock).start() if isinstance(self._index_update, LocalEngine) else None
        )

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._settings

    @property
    def known_pages(self) -> int:
        """How many pages can be originals: those that were let through, within the horizon."""
        with self._lock:
            self._check_open()
            return self._asking.entry_count

    def add(
        self,
        id: str | int,  # noqa: A002 - what every program calls it
        url: str,
        body: str | bytes,
        *,
        content_type: str | None = None,
        status: int | None = None,
        fetched_at: datetime | str | float | None = None,
        rank: datetime | str | float | None = None,
    ) -> Verdict:
        """Judge a page, and remember it if it is no copy. The arguments are those of CrawledPage.

        A page that was added before, the same id with the same body, has the verdict that it had (a novel one the
        reason first_attempt). The same id with another body is another page, and can be a copy of the first.
        Raises PageError if there is no page in what was given, StateError (disk full, damage, or read_only).
        """
        self._check_files()
        (verdict,) = self._judge([self._maker.make(CrawledPage(id, url, body, content_type, status, fetched_at, rank))])
        return verdict

    def add_many(self, pages: Iterable[GivenPage]) -> Iterator[Verdict]:
        """Judge pages in their order, and remember those that are no copies: the verdict of each, in the same order.

        This is the fast way: pages are judged in batches (service__batch_pages=512, service__batch_bytes), in a thread
        beside the one that takes the next ones from `pages`. So verdicts come two batches later than their pages are
        taken, and nothing is added unless the iterator is used; to add alone: `for _ in seen.add_many(pages): pass`.
        Batches change no verdict. If `pages` raises, or holds something that is no page, those before it are judged and
        given first.
        Raises PageError, StateError as add().
        """
        self._check_files()
        return self._in_batches(pages, self._judge)

    def query(
        self,
        id: str | int,  # noqa: A002 - as of add()
        url: str,
        body: str | bytes,
        *,
        content_type: str | None = None,
        status: int | None = None,
        fetched_at: datetime | str | float | None = None,
        rank: datetime | str | float | None = None,
    ) -> Verdict:
        """Give the verdict that add() would give now, and remember nothing."""
        given = CrawledPage(id, url, body, content_type, status, fetched_at, rank)
        (verdict,) = self._ask([self._maker.make(given)])
        return verdict

    def query_many(self, pages: Iterable[GivenPage]) -> Iterator[Verdict]:
        """Give the verdict that each page would get if it came next, by itself: they do not meet each other."""
        return self._in_batches(pages, self._ask)

    def add_batch(self, pages: Iterable[GivenPage]) -> list[Verdict]:
        """Judge the pages in hand as one batch, in the thread that calls: for servers, which collect what arrives.

        Raises PageError before anything is judged, StateError as add().
        """
        self._check_files()
        return self._in_one_batch(pages, self._judge)

    def query_batch(self, pages: Iterable[GivenPage]) -> list[Verdict]:
        """Ask about the pages in hand as one batch, as add_batch adds them; they do not meet each other."""
        return self._in_one_batch(pages, self._ask)

    def close(self) -> None:
        """Write what is buffered, and let go of the directory. Closing twice does nothing. Raises StateError."""
        with self._lock:
            was_open, self._open = self._open, False
        if was_open:
            if self._idle is not None:
                self._idle.stop()
            with self._lock:
                self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _judge(self, batch: _Batch) -> Iterator[Verdict]:
        assert self._index_update is not None
        signatures = self._sign(batch)
        with self._lock:
            self._check_open()
            if self._failed:
                then = "close it and open it again: what had a verdict is kept on disk"
                raise StateError(NAME, "was stopped amid a batch, and adds nothing more", None, then)
            # A record that is in the log and not in the state must be applied before the next one: opening does that.
            self._failed = True
            parts = list(self._index_update.judge_signed(signatures))
            self._failed = False
        return _verdicts_of_batch(batch, parts)

    def _ask(self, batch: _Batch) -> Iterator[Verdict]:
        signatures = self._sign(batch)
        with self._lock:
            self._check_open()
            parts = list(self._asking.answer(signatures))
        return _verdicts_of_batch(batch, parts)

    def _sign(self, batch: _Batch) -> Signatures:
        return self._scheme.sign([page for _, page in batch])

    def _in_one_batch(self, pages: Iterable[GivenPage], act: Callable[[_Batch], Iterator[Verdict]]) -> list[Verdict]:
        batch = [self._maker.make_of(given) for given in pages]
        return list(act(batch)) if batch else []

    def _in_batches(self, pages: Iterable[GivenPage], act: Callable[[_Batch], Iterator[Verdict]]) -> Iterator[Verdict]:
        """Take pages in the thread that asks, and act on the batch before in another one, as the filter does."""
        cut = self._batches(pages)
        with ThreadPoolExecutor(1, "spotsieve-batches") as worker:
            before: Future[Iterator[Verdict]] | None = None
            while True:
                batch, fault = None, None
                try:
                    batch = next(cut, None)
                except Exception as error:  # raised again behind the verdicts of the pages before it
                    fault = error
                ready, before = before, None if batch is None else worker.submit(act, batch)
                if ready is not None:
                    yield from ready.result()
                if fault is not None:
                    raise fault
                if batch is None:
                    return

    def _batches(self, pages: Iterable[GivenPage]) -> Iterator[_Batch]:
        """Cut pages into batches. What stands before an error comes before it."""
        most, made = self._settings.service, (self._maker.make_of(given) for given in pages)
        return batches(made, most.batch_pages, most.batch_bytes, lambda one: len(one[1].body))

    def _check_open(self) -> None:
        if not self._open:
            raise ValueError("the Deduplicator is closed; open another one")

    def _check_files(self) -> None:
        if self._index_update is None:
            raise StateError(NAME, "is read_only, and adds nothing", None, "call query(), or open the state")


def _verdicts_of_batch(batch: _Batch, parts: Iterable[Verdicts]) -> Iterator[Verdict]:
    return verdicts_of([name for name, _ in batch], [page for _, page in batch], parts)


def _dotted(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    """The settings by dotted names, of index__scope="host" and of index={"scope": "host"} alike."""
    for name, value in settings.items():
        path = above + name.replace("__", ".")
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{path}.")
        else:
            yield path, value
