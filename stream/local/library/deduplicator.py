"""The class Deduplicator of the library, and its verdicts: an engine in memory or over a state, or queries of one."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, Unpack

from spotsieve.stream.base.batches import batches
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.load import load_chosen, stored_values
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Entry, Signatures, logged_url
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts
from spotsieve.stream.files.remote import is_url, local_name
from spotsieve.stream.local.engines import LocalEngine, mark_unsigned, page_text, sign_every_page
from spotsieve.stream.local.library.engines import NAME, IdleOwner, OpenEngine, file_errors, open_to_add, open_to_query
from spotsieve.stream.local.library.keywords import SchemeName, SettingKeywords
from spotsieve.stream.local.library.pages import CrawledPage, PageMaker
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.prepared_pages import ExtractedText

_KINDS: dict[int, Literal["novel", "unchecked"]] = {Kind.NOVEL: "novel", Kind.UNCHECKED: "unchecked"}
_REASONS = {int(reason): reason.label for reason in Reason}


@dataclass(frozen=True, slots=True)
class Original:
    """A novel page that later pages are copies of. id: as it was added, or as the filter wrote it  url: its URL"""

    id: str
    url: str


@dataclass(frozen=True, slots=True)
class EmittedVerdict:
    """The verdict of a page that a crawler keeps.

    id: the given id, as text, cut to 2,048 bytes  url: the given URL
    kind: novel (no earlier page is its original), or unchecked (it cannot be compared, like an empty page)
    reason: the reason, as docs/guide.md lists them: no_match, empty, ...
    original, score: None; only a duplicate has them
    replaces: if policy.keep is not "first": the emitted page that this copy replaces; otherwise None
    text: the text of a novel page that was added with text=True; otherwise None
    """

    id: str
    url: str
    kind: Literal["novel", "unchecked"]
    reason: str
    original: None = None
    score: None = None
    replaces: Original | None = None
    text: ExtractedText | None = None

    @property
    def is_duplicate(self) -> Literal[False]:
        """False: the page is not a copy of a page that is kept."""
        return False


@dataclass(frozen=True, slots=True)
class DuplicateVerdict:
    """The verdict of a page that a crawler drops.

    id: the given id, as text, cut to 2,048 bytes  url: the given URL
    kind: duplicate
    reason: the reason, as docs/guide.md lists them: contained, near, exact, ...
    original: the page that it is a copy of
    score: similarity to the original, 0 to 1
    replaces, text: None; a page that replaces another, or whose text is of use, is kept
    """

    id: str
    url: str
    kind: Literal["duplicate"]
    reason: str
    original: Original
    score: float
    replaces: None = None
    text: None = None

    @property
    def is_duplicate(self) -> Literal[True]:
        """True: the page is a copy."""
        return True


Verdict = EmittedVerdict | DuplicateVerdict
"""The verdict of a page. After a check of is_duplicate or kind, a type checker knows which of the two it is."""


def _verdicts_of(batch: "_Batch", parts: Iterable[Verdicts], text_by: Scheme | None = None) -> Iterator[Verdict]:
    """Verdicts of pages, from those of consecutive parts of the batch.

    text_by: the scheme that judged them, if the verdicts get the text of the pages
    """
    first = 0
    for part in parts:
        columns = zip(
            batch[first : first + len(part)],
            part.kind.tolist(),
            part.reason.tolist(),
            part.score.tolist(),
            part.originals,
            part.replaces,
            strict=True,
        )
        for row, (page, kind, reason, score, original, replaced) in enumerate(columns):
            name = logged_url(page.label)  # as the state and `original` of its copies have it
            if kind == Kind.DUPLICATE:
                assert original is not None
                yield DuplicateVerdict(name, page.url, "duplicate", _REASONS[reason], _original(original), score)
            else:
                replaces = None if replaced is None else _original(replaced)
                text = None
                if text_by is not None and kind == Kind.NOVEL and part.marks is not None:
                    text = page_text(page, text_by, part.marks.of_page(row))
                yield EmittedVerdict(name, page.url, _KINDS[kind], _REASONS[reason], replaces=replaces, text=text)
        first += len(part)


def _original(entry: Entry) -> Original:
    return Original(entry.id, entry.url)


def _path(name: str, value: object) -> Path:
    """An argument as a path. Raises SettingError, also for a URL, which to Path is a directory such as "s3:"."""
    if not isinstance(value, str | Path):
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(value, str):
            raise SettingError(name, "must be a path: text or a Path", value, "such as 'seen'")
    if isinstance(value, Path):
        return value
    if is_url(value):
        raise SettingError(name, "must be a directory of this machine", value, "states cannot be used at URLs")
    return Path(local_name(value))


PageInput = CrawledPage | tuple[str | int, str, str | bytes]
"""A page for add_many and query_many: an (id, url, body), or a longer tuple of the fields of CrawledPage."""
_Batch = Sequence[Page]
"""Pages, whose labels are their ids."""


class Deduplicator:
    """Decides for each page whether it is a copy of an earlier one. Use it as a context, or call close().

        with Deduplicator("seen") as seen:
            verdict = seen.add("page 7", "https://example.org/7", "<h1>...</h1>")

    path: a state directory, created if it does not exist, which `spotsieve filter --state` opens too (one process at a
    time); None keeps pages in memory until close()
    read_only: query the state and change nothing. path is then a snapshot, or the state of a filter or service, which
    may be running; pages that it indexes later are not seen
    config: path of a TOML file of settings
    scheme, threshold: like the flags of `spotsieve filter`
    against: states or snapshots that are only read. A page that one of them contains is a duplicate of its page there,
    by the first that contains it, and is not added. They have one salt, which a new state adopts (docs/files.md)
    text: whether the verdicts of add(), add_many() and add_batch() have the text of novel pages, as `--text` of
    `spotsieve filter` writes it
    clock: returns the time of pages without fetched_at, in seconds since the epoch
    settings: any other settings, with two underscores below each section, such as index__horizon_hours=24. A type
    checker finds misspelt ones. The environment is not read.

    Without settings, an existing state is used with the settings that it was created with. Different settings raise
    SettingsMismatch.

    Threads: any thread may call any method at any time. Pages are signed in parallel, without the GIL. One lock admits
    one batch after the other to the judge, and the order of pages is the order in which batches get the lock. An
    iterator from add_many or query_many belongs to one thread. In asyncio, use
    `await asyncio.to_thread(seen.add, ...)`.

    Processes: one process owns a directory; others open it read_only. Do not use an open Deduplicator after a fork.

    The first use without compiled kernels compiles them, which takes one to four minutes and is reported on standard
    error.

    Raises SettingError for wrong settings, and StateError for an unusable state: StateLockedError if another process
    owns it, SettingsMismatch if it was created with other settings, CorruptRecord if it is damaged.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
        config: str | os.PathLike[str] | None = None,
        scheme: SchemeName | None = None,
        threshold: float | None = None,
        against: Sequence[str | os.PathLike[str]] = (),
        text: bool = False,
        clock: Callable[[], float] = time.time,
        **settings: Unpack[SettingKeywords],
    ) -> None:
        file = None if config is None else _path("config", config)
        given = dict(_dotted(settings))
        if not isinstance(threshold, Real | None):
            raise SettingError("threshold", "must be a number", threshold, "such as 0.6")

        def settings_for(stored: str | None) -> Settings:
            values = stored_values(stored) if stored is not None and file is None else None
            return load_chosen(file, {}, given, scheme, threshold, values)

        if path is not None and not str(path).strip():
            raise SettingError("path", "must not be empty", None, "is a variable unset? None keeps pages in memory")
        if isinstance(against, str | bytes | os.PathLike) or not isinstance(against, Iterable):
            raise SettingError("against", "must be a list of paths", against, "write against=[PATH]")
        place, others = None if path is None else _path("path", path), [_path("against", one) for one in against]
        if read_only and others:
            rule = "needs a Deduplicator that adds pages, and this one is read_only"
            raise SettingError("against", rule, None, "leave out read_only, or query one state after the other")
        if read_only and text:
            rule = "needs a Deduplicator that adds pages, and this one is read_only"
            raise SettingError("text", rule, None, "leave out text or read_only")
        with file_errors(place):
            if read_only:
                opened = open_to_query(place, settings_for)
            else:
                opened = open_to_add(place, settings_for, against=others, with_marks=text)
        self._use(opened, clock, text)

    @classmethod
    def from_engine(cls, opened: OpenEngine) -> Self:
        """A Deduplicator over an open engine, for commands whose settings also come from the environment and flags."""
        deduplicator = cls.__new__(cls)
        deduplicator._use(opened, time.time)
        return deduplicator

    def _use(self, opened: OpenEngine, clock: Callable[[], float], text: bool = False) -> None:
        self._text_by = opened.scheme if text else None
        self._settings, self._scheme = opened.settings, opened.scheme
        self._engine, self._view, self._release = opened.engine, opened.view, opened.close
        self._maker = PageMaker(opened.settings.input, clock)
        self._lock = threading.Lock()
        self._open, self._failed, self._process = True, False, os.getpid()
        self._idle = IdleOwner(self._engine, self._lock).start() if isinstance(self._engine, LocalEngine) else None

    @property
    def settings(self) -> Settings:
        """The settings in use."""
        return self._settings

    @property
    def known_pages(self) -> int:
        """Number of pages that can be originals: novel pages within the deduplication window."""
        with self._usable():
            return self._view.entry_count

    def add(
        self,
        id: str | int,  # noqa: A002 - the common name
        url: str,
        body: str | bytes | list[str] | list[bytes],
        *,
        content_type: str | None = None,
        status: int | None = None,
        fetched_at: datetime | str | float | None = None,
        rank: datetime | str | float | None = None,
    ) -> Verdict:
        """Judge a page, and index it unless it is a copy. CrawledPage describes the arguments.

        Adding the same id with the same body again gives the same verdict (for a novel page with the reason
        first_attempt). The same id with another body is another page, and can be a copy of the first.

        Raises PageError for an argument of a wrong type, StateError if the disk is full, the state is damaged, or the
        Deduplicator is read_only, and ValueError after close().
        """
        self._check_adds()
        (verdict,) = self._judge([self._maker.make(CrawledPage(id, url, body, content_type, status, fetched_at, rank))])
        return verdict

    def add_many(self, pages: Iterable[PageInput]) -> Iterator[Verdict]:
        """Judge pages in order, index those that are not copies, and yield the verdict of each in the same order.

        This is the fast way: pages are judged in batches (service__batch_pages=512, service__batch_bytes), in a thread
        of their own, while the caller's thread takes the next ones from `pages`. Verdicts therefore come two batches
        later than their pages are taken. Nothing is added unless the iterator is consumed; to ignore the verdicts, use
        `for _ in seen.add_many(pages): pass`. Batches change no verdict.

        If `pages` raises, or yields something that is no page, the pages before it are judged and their verdicts
        yielded first. Raises PageError, StateError and ValueError like add().
        """
        self._check_adds()
        return self._act_in_batches(pages, self._judge)

    def query(
        self,
        id: str | int,  # noqa: A002 - like add()
        url: str,
        body: str | bytes | list[str] | list[bytes],
        *,
        content_type: str | None = None,
        status: int | None = None,
        fetched_at: datetime | str | float | None = None,
        rank: datetime | str | float | None = None,
    ) -> Verdict:
        """Return the verdict that add() would return now, and index nothing. Raises like add(), also with read_only."""
        page = CrawledPage(id, url, body, content_type, status, fetched_at, rank)
        (verdict,) = self._query([self._maker.make(page)])
        return verdict

    def query_many(self, pages: Iterable[PageInput]) -> Iterator[Verdict]:
        """Yield the verdict that each page would get if it were added next, without comparing them with each other.

        It works in batches like add_many, and raises like query().
        """
        return self._act_in_batches(pages, self._query)

    def add_batch(self, pages: Iterable[PageInput]) -> list[Verdict]:
        """Judge and index pages as one batch in the caller's thread, for servers that collect requests.

        Raises PageError before anything is judged, StateError and ValueError like add().
        """
        self._check_adds()
        return self._act_on_batch(pages, self._judge)

    def query_batch(self, pages: Iterable[PageInput]) -> list[Verdict]:
        """Return the verdicts of pages as one batch in the caller's thread, without indexing or comparing them."""
        return self._act_on_batch(pages, self._query)

    def close(self) -> None:
        """Write buffered data and release the directory. Raises StateError.

        A second call does nothing, nor does a call in a forked process: the state belongs to its parent.
        """
        if self._process != os.getpid():
            return
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
        assert self._engine is not None
        signatures, unsigned = self._sign(batch)
        with self._lock:  # Signing has checked the process.
            self._check_open()
            if self._failed:
                then = "close it and open it again; pages with a verdict are kept on disk"
                raise StateError(NAME, "was interrupted in a batch, and cannot add pages any more", None, then)
            # If judging fails, the log may be ahead of the state. Only opening the state again applies that record.
            self._failed = True
            parts = list(self._engine.judge_signed(signatures, unsigned))
            self._failed = False
        return _verdicts_of(batch, parts, self._text_by)

    def _query(self, batch: _Batch) -> Iterator[Verdict]:
        signatures, unsigned = self._sign(batch)
        with self._usable():
            parts = list(mark_unsigned(self._view.query(signatures), signatures, unsigned))
        return _verdicts_of(batch, parts)

    def _sign(self, batch: _Batch) -> tuple[Signatures, Mapping[int, Exception]]:
        self._check_process()
        return sign_every_page(self._scheme, batch)

    def _act_on_batch(self, pages: Iterable[PageInput], act: Callable[[_Batch], Iterator[Verdict]]) -> list[Verdict]:
        batch = [self._maker.make_from(page) for page in pages]
        return list(act(batch)) if batch else []

    def _act_in_batches(
        self, pages: Iterable[PageInput], act: Callable[[_Batch], Iterator[Verdict]]
    ) -> Iterator[Verdict]:
        """Take pages in the caller's thread, and act on the previous batch in another thread, like the filter."""
        batches_of_pages = self._batches(pages)
        with ThreadPoolExecutor(1, "spotsieve-batches") as worker:
            before: Future[Iterator[Verdict]] | None = None
            while True:
                batch, fault = None, None
                try:
                    batch = next(batches_of_pages, None)
                except Exception as error:  # Raised again after the verdicts of the earlier pages.
                    fault = error
                ready, before = before, None if batch is None else worker.submit(act, batch)
                if ready is not None:
                    yield from ready.result()
                if fault is not None:
                    raise fault
                if batch is None:
                    return

    def _batches(self, pages: Iterable[PageInput]) -> Iterator[_Batch]:
        """Pages in batches. Pages before an error are yielded before it is raised."""
        limits, made = self._settings.service, (self._maker.make_from(page) for page in pages)
        return batches(made, limits.batch_pages, limits.batch_bytes, lambda page: len(page.body))

    def _check_process(self) -> None:
        """Raises StateError in a fork of the process that adds to a directory."""
        if isinstance(self._engine, LocalEngine) and self._process != os.getpid():
            rule = f"must be used only by process {self._process}, which opened the state, and this is a fork of it"
            then = "open it with read_only=True here, or send the pages to that process"
            raise StateError(NAME, rule, os.getpid(), then)

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        """Hold the lock of the open state. Raises StateError in a forked process, ValueError after close()."""
        self._check_process()  # Before the lock, which a thread of the other process may hold for ever.
        with self._lock:
            self._check_open()
            yield

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: copies would write to one state."""
        raise TypeError("A Deduplicator cannot be pickled or copied. Send the pages to the process that opened it.")

    def _check_open(self) -> None:
        if not self._open:
            raise ValueError("The Deduplicator is closed. Create a new one.")

    def _check_adds(self) -> None:
        if self._engine is None:
            raise StateError(NAME, "is read_only, and cannot add pages", None, "call query(), or open the state")


def _dotted(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    """Settings by dotted names, from index__scope="host" and index={"scope": "host"} alike."""
    for name, value in settings.items():
        path = above + name.replace("__", ".")
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{path}.")
        else:
            yield path, value
