"""Queries read-only states: one (`spotsieve query`), or several before a run's own state (`--against`).

With --against only pages that no state contains go on. The states are queried in the given order, each by its own
entries, host memories, common text and clock, so a page gets the verdict of `spotsieve query`. The first state that
contains a page gives its verdict. The run's own state judges the pages that go on, and neither logs nor counts the
others. `spotsieve filter --against A B` therefore emits what `query --state A --pages`, `query --state B --pages` and
`filter` emit one after the other.

It differs from a query in one point: a page that a state has judged itself is contained in it, as every other copy.

A page on which a query fails (a poison page) goes on to the later states and to the run's own state. It is dropped if
one of them contains it. Otherwise it is unchecked (INTERNAL_ERROR), because the state of the query may contain it.
"""

import logging
import os
import shutil
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.directory import DIRECTORY_MODE, INDEX_FOLDER, has_index, is_snapshot, make_directory
from spotsieve.state.format.meta import LogIdentity
from spotsieve.state.horizon import Clock, step_of
from spotsieve.state.identity import check_whole
from spotsieve.state.index import LiveView, StateView
from spotsieve.state.snapshot.checkpoints import checkpoint_of
from spotsieve.state.still.reading import TIMEOUT_S, identity_of, linked_index, read_only_state, salt_from
from spotsieve.state.store.opening import checkpoint_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import SettingError, SettingsMismatch, StateError, isolate, write_advice
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.base.settings.digest import describe_difference, verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts, concatenate, marks_of_pages
from spotsieve.stream.judge import Match, Policy, as_empty, entry_of, find_matches, judge_alone, mark_poison, policy_of
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import salted, scheme_in_scope

LOGGER = logging.getLogger("spotsieve")
MOST_NAMED = 10
"""The number of poison pages that a line names."""
_COPY_THAT_IS_KEPT = np.array([Reason.LONGER, Reason.BETTER, Reason.RECRAWL], np.uint8)
"""Reasons of copies that are novel."""
_YIELDING = np.array([Reason.NO_MATCH, *_COPY_THAT_IS_KEPT], np.uint8)
"""Reasons by which a later state leaves the verdict of an earlier state on such a copy as it is."""
_YIELDING_OWN = np.array([Reason.NO_MATCH, Reason.RECRAWL], np.uint8)
"""Reasons by which the run's own state does. It reports a page of the run that is replaced, and a first attempt."""


class StateQuery:
    """Judges pages against a read-only state, by the scheme of its settings. passes: passes over the state so far"""

    def __init__(self, state: State, settings: Settings) -> None:
        """Raises SettingError if the parameters of the scheme contradict each other."""
        self.settings = settings
        self.scheme: Scheme = salted(scheme_in_scope(settings), state.salt)
        self._state = state
        self._clock = state.clock
        self._policy = policy_of(settings)
        self.passes = 0

    @property
    def entries(self) -> int:
        """The number of pages in the state."""
        return self._state.entry_count - self._clock.floor

    def answer(self, parts: Sequence[Signatures], matches: bool) -> Iterator[tuple[Verdicts, list[list[Match]]]]:
        """The verdicts of consecutive pages, run by run, each with the matches of its pages.

        matches: whether to find all matches of a page; if not, the lists are empty
        Raises StateError.
        """
        keys = [np.empty(0, np.uint64), *(self.scheme.probe(part).keys for part in parts)]
        self.passes += self._state.load_buckets(np.unique(np.concatenate(keys)))
        for part in parts:
            for run, view, verdicts in query_each(
                part, self.scheme, self._state, self._clock, self.settings.index, self._policy
            ):
                yield verdicts, find_matches(run, self.scheme, view, self._policy) if matches else []

    def judge(self, signatures: Signatures) -> Verdicts:
        """The verdicts of a micro-batch, at least one page. Its buckets are read by key. Raises StateError."""
        return query_all(signatures, self.scheme, self._state, self._clock, self.settings.index, self._policy)


def query_each(
    part: Signatures, scheme: Scheme, view: StateView, clock: Clock, limits: IndexSettings, policy: Policy
) -> Iterator[tuple[Signatures, StateView, Verdicts]]:
    """The verdict of each page if it came next, in runs of pages that see the same part of a state.

    clock: the state's event time; a page with a later time would move the floor of the deduplication window
    """
    for run, run_view in _runs(part, view, clock, step_of(limits.horizon_hours)):
        yield run, run_view, judge_alone(run, scheme, run_view, limits.candidate_limit, policy)


def query_all(
    part: Signatures, scheme: Scheme, view: StateView, clock: Clock, limits: IndexSettings, policy: Policy
) -> Verdicts:
    """The verdicts of query_each, joined."""
    return concatenate([verdicts for _, _, verdicts in query_each(part, scheme, view, clock, limits, policy)])


def _runs(part: Signatures, view: StateView, clock: Clock, step_ms: int) -> Iterator[tuple[Signatures, StateView]]:
    """Cut the pages into runs that see the same part of the state. A time later than the state's moves the floor."""
    if not step_ms or not len(part):
        yield part, view
        return
    times, places = np.unique(np.maximum(part.event_time_ms, clock.watermark_ms), return_inverse=True)
    floors = np.array([clock.moved(time, step_ms, view.entry_count).floor for time in times.tolist()])[places]
    cuts = (np.flatnonzero(np.diff(floors)) + 1).tolist()
    for start, end in zip([0, *cuts], [*cuts, len(part)], strict=True):
        yield part.part(start, end), LiveView(view, int(floors[start]))


class StateVerdicts(NamedTuple):
    """The verdicts of n pages by other states.

    rest: int64[r], the pages that no state contains  poison: the errors of poison pages of the queries, by page
    """

    verdicts: Verdicts
    rest: NDArray[np.int64]
    poison: Mapping[int, Exception]

    @property
    def dropped(self) -> int:
        """The number of pages that a state contains."""
        return len(self.verdicts) - len(self.rest)

    def rest_of(self, signatures: Signatures) -> Signatures:
        """The signatures of the pages that no state contains. signatures: of all n pages"""
        return signatures.take(self.rest)

    def with_own(self, own: Verdicts) -> Verdicts:
        """The verdicts of all n pages. own: of the r pages that no state contains, by the run's own state"""
        return _overwritten(self.verdicts, self.rest, own, _YIELDING_OWN)


class OtherStates:
    """Read-only states that pages are compared with. Use it as a context; its thread ends with it."""

    def __init__(self, queries: Sequence[StateQuery]) -> None:
        """queries: of at least one state, in the order of precedence"""
        self._queries = queries
        self._thread = ThreadPoolExecutor(1, "spotsieve-against")

    def begin(self, signatures: Signatures) -> Future[StateVerdicts]:
        """Find the verdicts of pages in a thread. Its result raises StateError."""
        return self._thread.submit(self.find, signatures)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def find(self, signatures: Signatures) -> StateVerdicts:
        """The verdicts of pages by the states alone. Raises StateError."""
        # No stored page has an empty source, so no page is taken for one that a state has judged itself.
        asked = replace(signatures, sources=("",) * len(signatures.sources))
        rest, verdicts, poison = np.arange(len(signatures)), None, dict[int, Exception]()
        for query in self._queries:
            if verdicts is not None and not len(rest):
                break
            answered, errors = _answer(query, asked.take(rest))
            poison |= {int(rest[row]): error for row, error in errors.items()}
            verdicts = answered if verdicts is None else _overwritten(verdicts, rest, answered, _YIELDING)
            rest = rest[answered.kind != Kind.DUPLICATE]
        assert verdicts is not None
        return StateVerdicts(verdicts, rest, poison)


def _answer(query: StateQuery, signatures: Signatures) -> tuple[Verdicts, Mapping[int, Exception]]:
    """The verdicts of a query, and the errors of its poison pages by row."""

    def judge(rows: Collection[int]) -> Verdicts:
        return query.judge(as_empty(signatures, rows) if rows else signatures)

    verdicts, poison = isolate(judge, len(signatures))
    mark_poison(verdicts, poison)
    return verdicts, poison


def log_poison_pages(signatures: Signatures, errors: Mapping[int, Exception], *, of_query: bool) -> None:
    """Log poison pages, if there are any, with the traceback of the first. The parameters are those of poison_notice"""
    if errors:
        error = errors[min(errors)]
        error.__suppress_context__ = True  # The same error for larger parts of the batch.
        LOGGER.error("%s", poison_notice(signatures, errors, of_query=of_query), exc_info=error)


def poison_notice(signatures: Signatures, errors: Mapping[int, Exception], *, of_query: bool) -> str:
    """A line for people about poison pages, at least one.

    errors: by row  of_query: whether the query of another state failed, and not the judging by the run's own state
    """
    work, unless = ("the query of another state", ", unless another state contains it") if of_query else ("judging", "")
    rows = sorted(errors)
    error = errors[rows[0]]
    text = traceback.format_exception_only(error)[-1].strip()
    pages = ", ".join(entry_of(signatures, row).id for row in rows[:MOST_NAMED])
    more = f" and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else ""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return escape_control_characters(
        f"{work} failed with an internal error ({text}{place}) for {pages}{more}: each is "
        f"emitted unchecked{unless}; please report the error"
    )


def _overwritten(verdicts: Verdicts, rows: NDArray[np.int64], later: Verdicts, yielding: NDArray[np.uint8]) -> Verdicts:
    """Verdicts with those of r pages replaced by later ones. rows: int64[r]

    yielding: reasons of later verdicts that leave an earlier verdict on a copy that is kept as it is
    The verdict on a poison page stays too, unless a later state contains the page.
    """
    earlier_reason = verdicts.reason[rows]
    stays = np.isin(earlier_reason, _COPY_THAT_IS_KEPT) & np.isin(later.reason, yielding)
    stays |= (earlier_reason == Reason.INTERNAL_ERROR) & (later.kind != Kind.DUPLICATE)
    taken = np.flatnonzero(~stays)
    at = rows[taken]
    columns = {name: getattr(verdicts, name).copy() for name in ("kind", "reason", "score", "found_by")}
    for name, column in columns.items():
        column[at] = getattr(later, name)[taken]
    originals, replaces = list(verdicts.originals), list(verdicts.replaces)
    is_novel = (later.kind == Kind.NOVEL)[taken].tolist()
    for row, one, novel in zip(at.tolist(), taken.tolist(), is_novel, strict=True):
        # A novel page still replaces the page of an earlier state.
        earlier = replaces[row] if novel else None
        originals[row], replaces[row] = later.originals[one], later.replaces[one] or earlier
    candidates, cut = verdicts.candidates.copy(), verdicts.cut.copy()
    candidates[rows] += later.candidates
    cut[rows] |= later.cut
    marks: list[NDArray[np.bool_] | None] = [None] * len(verdicts)
    if later.marks is not None:
        for one, row in enumerate(rows.tolist()):
            marks[row] = later.marks.of_page(one)
    return Verdicts(
        **columns,
        originals=tuple(originals),
        candidates=candidates,
        cut=cut,
        replaces=tuple(replaces),
        marks=None if later.marks is None else marks_of_pages(marks),
    )


@contextmanager
def open_states(
    directories: Sequence[Path],
    settings: Settings,
    timeout_s: float = TIMEOUT_S,
    on_progress: OnProgress = ignore_progress,
) -> Iterator[OtherStates | None]:
    """Open states read-only; None if there are none. The process that owns a state makes a checkpoint of it.

    directories, settings: from check_states  Raises StateError.
    """
    with ExitStack() as closing:
        states = [
            closing.enter_context(read_only_state(directory, timeout_s, on_progress)) for directory in directories
        ]
        yield closing.enter_context(_others(states, settings))


class Checkpoint(NamedTuple):
    """A checkpoint of a state that stays while a run needs it. directory: of the state  path: of the checkpoint"""

    directory: Path
    path: Path


@contextmanager
def open_checkpoints(checkpoints: Sequence[Checkpoint], settings: Settings) -> Iterator[OtherStates | None]:
    """Open checkpoints read-only, in any process; None if there are none. Raises StateError."""
    with ExitStack() as closing:
        linked = [closing.enter_context(linked_index(checkpoint.path)) for checkpoint in checkpoints]
        states = [
            closing.enter_context(checkpoint_state(checkpoint.directory, path))
            for checkpoint, path in zip(checkpoints, linked, strict=True)
        ]
        yield closing.enter_context(_others(states, settings))


def keep_checkpoints(directories: Sequence[Path], folder: Path, timeout_s: float = TIMEOUT_S) -> list[Checkpoint]:
    """Keep a checkpoint of each state in a folder, as hard links where possible. A snapshot is used in its place.

    The folder then holds these states for a run that is interrupted and continued, whatever their owners add.
    Raises StateError.
    """
    kept = list[Checkpoint]()
    for number, directory in enumerate(directories):
        index = _kept_index(number, directory, folder)
        if not is_snapshot(directory):
            with checkpoint_of(directory, timeout_s, ignore_progress) as made:
                _link_files(made, index)
        kept.append(Checkpoint(directory, index))
    return kept


def kept_checkpoints(directories: Sequence[Path], folder: Path) -> list[Checkpoint]:
    """The checkpoints that keep_checkpoints made for these states. Raises StateError if one is gone."""
    kept = list[Checkpoint]()
    for number, directory in enumerate(directories):
        index = _kept_index(number, directory, folder)
        if not has_index(index):
            rule = f"must keep the checkpoint of {directory} that the interrupted run made"
            raise StateError("--against", rule, str(index), "restore it, or begin with a new --state and --out")
        kept.append(Checkpoint(directory, index))
    return kept


def _kept_index(number: int, directory: Path, folder: Path) -> Path:
    """The index of a snapshot, or the place in the folder of the checkpoint of the state with this number."""
    return directory / INDEX_FOLDER if is_snapshot(directory) else folder / str(number)


def _link_files(made: Path, index: Path) -> None:
    """Link the files of a checkpoint into a new directory, or copy them to another file system. Raises StateError."""
    try:
        make_directory(index.parent)
        index.mkdir(DIRECTORY_MODE)  # Not into files that remain: they may be hard links to tables of a state.
        for file in made.iterdir():
            try:
                os.link(file, index / file.name)
            except OSError:
                shutil.copy2(file, index / file.name)
    except OSError as error:
        rule = f"cannot keep a checkpoint: {error.strerror or error}"
        raise StateError("--against", rule, str(index), f"{write_advice(error)}, or name snapshots") from None


def _others(states: Sequence[State], settings: Settings) -> AbstractContextManager[OtherStates | None]:
    return OtherStates([StateQuery(state, settings) for state in states]) if states else nullcontext()


def check_states(
    name: str, directories: Sequence[Path], settings: Settings, own: Path | None
) -> tuple[list[Path], Settings]:
    """The states, each once, and the settings by which a new own state adopts the salt of the first one.

    name: of the flag or argument, for errors  own: the directory of the run's own state, if it has one
    Raises SettingError for a path without a state, another salt or the own state, SettingsMismatch for other settings
    that change verdicts, and StateError.
    """
    places = list(dict.fromkeys(directory.resolve() for directory in directories))
    if own is not None and own.resolve() in places:
        rule = "must name other states than the one that gets the pages"
        raise SettingError(name, rule, str(own), "leave it out: pages are compared with it anyway")
    salted, holder = _salt_of(own, settings)
    adopted: Path | None = None
    for directory in places:
        found = _checked_identity(name, directory, settings)
        if found is None:
            continue  # It has read no log, so it has no pages.
        if salted is None:
            salted, holder, adopted = found.salt, str(directory), directory
        elif salted != found.salt:
            raise SettingError(
                name,
                f"must name states with the salt of {holder}, {salted:016x}, and {directory} has {found.salt:016x}",
                None,
                "filter the pages of one of them again into a new state with --salt-from",
            )
    if adopted is None:
        return places, settings
    index = settings.index.model_copy(update={"salt_from": adopted})
    return places, settings.model_copy(update={"index": index})


def log_ids_of(directories: Iterable[Path]) -> set[str]:
    """The ids of the logs of states, in hex. Raises StateError."""
    return {found.id.hex() for directory in directories if (found := identity_of(directory).log_identity) is not None}


def _salt_of(own: Path | None, settings: Settings) -> tuple[int | None, str]:
    """The salt of the run's own state, and the place that has it; None if a new state may adopt any."""
    if own is not None and has_index(own / INDEX_FOLDER):
        with suppress(StateError):  # Opening the state reports it.
            found = identity_of(own).log_identity
            return None if found is None else found.salt, str(own)
    return salt_from(settings.index), str(settings.index.salt_from)


def _checked_identity(name: str, directory: Path, settings: Settings) -> LogIdentity | None:
    """The log of a state, which has the settings of the run. Raises as check_states."""
    if not has_index(directory / INDEX_FOLDER):
        then = "name the directory of a state (--state, index.directory) or a snapshot, and files of pages before it"
        raise SettingError(name, "must name a state, and there is none", str(directory), then)
    stored = identity_of(directory)
    check_whole(str(directory), stored)
    text = verdict_settings_text(settings)
    if stored.settings != text:
        raise SettingsMismatch(
            f"{name} {directory}",
            "was written with other settings that change verdicts: "
            f"{describe_difference(stored.settings, text, 'state')}",
            None,
            "carry that state over to these settings (spotsieve migrate), or give its settings to this command",
        )
    return stored.log_identity
