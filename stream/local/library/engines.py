"""Engines behind a Deduplicator: in memory, over a state directory, or a read-only state for queries.

The owner of a state also answers other processes' requests for checkpoints. The filter and the service do so between
two batches. A program may add no page for hours, so IdleOwner does it in a thread.
"""

import contextlib
import io
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from spotsieve.state.directory import INDEX_FOLDER, has_index, is_snapshot
from spotsieve.state.identity import check_identity
from spotsieve.state.log.local import LocalLog
from spotsieve.state.still.reading import describe, identity_of, read_only_state
from spotsieve.state.store.rocks_options import too_few_open_files
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.progress import COMPILING, ProgressLine
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.judge import policy_of
from spotsieve.stream.local.against import StateQuery, check_states, open_states, query_all
from spotsieve.stream.local.engines import LocalEngine, MemoryEngine, prepare_pages
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import salted, scheme_in_scope, scheme_of

LOGGER = logging.getLogger("spotsieve")
NAME = "Deduplicator"
"""Name of the library's object in error messages."""
SettingsFor = Callable[[str | None], Settings]
"""settings_for(stored) returns the settings. stored: canonical text of the settings of an existing state, or None"""
_QUIET_S = 1.0
"""Seconds of compiling before the first line on standard error, if it is no terminal."""
Engines = LocalEngine | MemoryEngine


class _ProcessStates:
    """The states that this process has opened.

    owned: engines of the directories that it adds to. It must not open checkpoints of these: RocksDB's locks belong to
    a process, which would release its own lock (state/store/rocks_errors.py)
    lock: held while a state is opened
    """

    def __init__(self) -> None:
        self._of_parent = list[ExitStack]()
        self._forget()

    def _forget(self) -> None:
        self.owned = weakref.WeakValueDictionary[Path, LocalEngine]()
        self.lock = threading.Lock()
        self._open = weakref.WeakSet[ExitStack]()

    def closer(self, opening: ExitStack) -> Callable[[], None]:
        """Return what closes an open state. opening: the contexts that it consists of"""
        state = opening.pop_all()
        self._open.add(state)
        return state.close

    def leave_to_parent(self) -> None:
        """Forget all states in a forked process, but keep them, because collecting them would close their files.

        These are the parent's, and RocksDB would wait for threads, which a fork does not have.
        """
        self._of_parent.extend(self._open)
        self._forget()


_states = _ProcessStates()
os.register_at_fork(after_in_child=_states.leave_to_parent)


class EngineView:
    """Queries of the live state of an engine."""

    def __init__(self, engine: Engines, settings: Settings) -> None:
        self._engine = engine
        self._limits, self._policy = settings.index, policy_of(settings)

    @property
    def entry_count(self) -> int:
        """How many pages the state knows."""
        return self._engine.entry_count

    def query(self, signatures: Signatures) -> Iterator[Verdicts]:
        """Give the verdict that each page would get if it came next. Raises StateError."""
        engine = self._engine.engine

        def judge(part: Signatures) -> Verdicts:
            return query_all(part, engine.scheme, engine.state, engine.state.clock, self._limits, self._policy)

        return prepare_pages(signatures, self._engine.others).verdicts(judge)


class FixedView:
    """Queries of a read-only state."""

    def __init__(self, state: State, settings: Settings) -> None:
        self._query = StateQuery(state, settings)

    @property
    def entry_count(self) -> int:
        """How many pages the state knows."""
        return self._query.entries

    def query(self, signatures: Signatures) -> Iterator[Verdicts]:
        """Give the verdict that each page would get if it came next. Raises StateError."""
        if len(signatures):
            yield self._query.judge(signatures)


@dataclass(frozen=True, slots=True)
class OpenEngine:
    """An open state. engine: adds pages, None if it is read-only  view: answers queries  close: releases it, once"""

    settings: Settings
    scheme: Scheme
    engine: Engines | None
    view: EngineView | FixedView
    close: Callable[[], None]


def open_to_add(
    directory: Path | None,
    settings_for: SettingsFor,
    name: str = NAME,
    to_query: str = "open it with read_only=True",
    against: Sequence[Path] = (),
    with_marks: bool = False,
) -> OpenEngine:
    """Open an engine over a directory, or in memory. Raises SettingError, StateError.

    name: name of the caller for errors  to_query: advice for a state that must not be added to, for errors
    against: states whose pages are copies too; a new state has the settings of the first
    with_marks: whether verdicts mark the template text of all novel pages
    """
    stored = None if directory is None else _stored_settings(directory, name, to_query)
    if stored is None and against:
        with contextlib.suppress(StateError):  # check_states reports it.
            stored = identity_of(against[0]).settings
    settings = settings_for(stored)
    if against:
        against, settings = check_states("against", against, settings, directory)
    scheme = _ready_scheme(settings)
    if with_marks and scheme.host_thresholds is None:
        rule = "needs the scheme spotsieve, because other schemes judge no main text"
        raise SettingError("text", rule, scheme.name, 'use scheme="spotsieve", or leave out text')
    with ExitStack() as opening:
        with _states.lock:
            _check_not_owned(against)
            others = opening.enter_context(open_states(against, settings))
            if directory is None:
                engine: Engines = MemoryEngine(settings, scheme, others, with_marks)
            else:
                engine = LocalEngine(directory, settings, scheme, others=others, with_marks=with_marks)
                _states.owned[directory.resolve()] = engine
                opening.callback(_states.owned.pop, directory.resolve(), None)
            opening.callback(engine.close)
        for notice in engine.notices if isinstance(engine, LocalEngine) else ():
            LOGGER.warning("%s", notice)
        view = EngineView(engine, settings)
        return OpenEngine(settings, engine.engine.scheme, engine, view, _states.closer(opening))


@contextlib.contextmanager
def file_errors(place: Path | None) -> Iterator[None]:
    """Raise an error of the file system as a StateError. place: of the state, for errors that name no file"""
    try:
        yield
    except OSError as error:
        then = "check its name, and run the program as its owner"
        name = str(error.filename or place or "the state")
        raise StateError(NAME, f"cannot use its files: {error.strerror or error}", name, then) from None


def _check_not_owned(directories: Iterable[Path]) -> None:
    """Check that this process adds to none of these states. Raises StateError."""
    for directory in directories:
        if directory.resolve() in _states.owned:
            then = "call query() of the Deduplicator that adds, or close it first"
            raise StateError(NAME, "must not open a state read_only that this process adds to", str(directory), then)


def open_to_query(directory: Path | None, settings_for: SettingsFor) -> OpenEngine:
    """Open a snapshot, or a checkpoint of a state that another process may own. Raises SettingError, StateError."""
    if directory is None:
        raise SettingError(
            "read_only", "needs the path of a state, and there is none", None, "name a state or a snapshot"
        )
    with _states.lock, ExitStack() as opening:
        _check_not_owned([directory])
        state = opening.enter_context(read_only_state(directory))
        settings = settings_for(state.identity.settings)
        check_identity(str(directory), state.identity, verdict_settings_text(settings), state.identity.log)
        scheme = salted(_ready_scheme(settings), state.salt)
        if (warning := too_few_open_files(directory)) is not None:
            LOGGER.warning("%s", warning)
        view = FixedView(state, settings)
        return OpenEngine(settings, scheme, None, view, _states.closer(opening))


def _stored_settings(directory: Path, name: str, to_query: str) -> str | None:
    """Canonical text of the settings of the state in a directory, or None if there is no state yet.

    Raises StateError if the directory must not be added to: a file, a snapshot, or the state of a service.
    """
    if directory.exists() and not directory.is_dir():
        raise StateError(
            name,
            "must have a directory as its path, not a file",
            str(directory),
            "name another directory, or a new one",
        )
    if is_snapshot(directory):
        then = f"{to_query}, or restore it with `spotsieve state restore`"
        raise StateError(name, "must not add to a snapshot", str(directory), then)
    if not has_index(directory / INDEX_FOLDER):
        return None
    facts = describe(directory)
    if facts["log"] != LocalLog.name:
        rule = f"must not add to the state of a service, which follows the log {facts['log']!r}"
        raise StateError(name, rule, str(directory), f"{to_query}, or choose a directory of its own")
    return str(facts["verdict_settings"])


def _ready_scheme(settings: Settings) -> Scheme:
    LOGGER.info(COMPILING)
    # A library is silent, but a program that stands still for minutes looks broken.
    with contextlib.closing(ProgressLine(sys.stderr or io.StringIO(), None, quiet_s=_QUIET_S)) as line:
        compile_kernels(scheme_of(settings.scheme), lambda text: line.say(f"spotsieve: {text}"))
    return scheme_in_scope(settings)


POLL_SECONDS = 0.25


class IdleOwner:
    """A thread that answers checkpoint requests while nothing is judged. It ends with stop(), or with the engine.

    lock: held by whoever judges
    """

    def __init__(self, engine: LocalEngine, lock: threading.Lock) -> None:
        # A weak reference, so that an engine that is not closed can still be collected.
        self._engine = weakref.ref(engine)
        self._lock = lock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spotsieve-idle-owner", daemon=True)

    def start(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the thread. Call it without holding the lock, before the engine is closed."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            with self._lock:
                engine = self._engine()
                if engine is None or self._stopped.is_set():
                    return
                engine.answer_requests()
                del engine
