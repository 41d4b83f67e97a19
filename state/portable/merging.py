"""Merges the states of all shards into one state with all entries, or splits them into the states of other shards.

All states must have the same position in the log. resharding.py assigns what they hold to the new states.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from spotsieve.state.directory import (
    INDEX_FOLDER,
    MANIFEST_FILE,
    check_free,
    check_new,
    close_files,
    made_beside,
    made_whole,
    make_directory,
    put_in_place,
    sync_directory,
)
from spotsieve.state.format.meta import MAX_SHARDS, LogIdentity, StatePart
from spotsieve.state.identity import check_identity, check_log_of_snapshots, check_parts
from spotsieve.state.index import OutcomeRef
from spotsieve.state.portable.importing import NewState
from spotsieve.state.portable.resharding import Redistribution, StateCounts
from spotsieve.state.snapshot.snapshots import check_snapshot
from spotsieve.state.still.reading import read_only_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.progress import OnProgress, ignore_progress

PARTIAL, SPLIT_PARTIAL = ".merge-partial", ".split-partial"
MOST_OPEN = 8
"""How many new states one pass over the parts writes: each takes some 100 MB for its write buffers."""
_LEVEL = (
    "take snapshots of all shards after one outcome (spotsieve state snapshot --after-outcome), and name these; or "
    "stop the workers, wait until no round is open (spotsieve shards status), and repeat this then"
)


def merge_states(
    directories: Sequence[Path], target: Path, timeout_s: float = 300.0, on_progress: OnProgress = ignore_progress
) -> StateCounts:
    """Merge the states of all shards, in any order, into the directory target. Return the counts of the merged state.

    directories: state directories or snapshots; a running shard makes a checkpoint and goes on
    Raises StateError if parts are missing, do not belong together or have different positions, or if target holds a
    state; CorruptRecord. Then target has no state.
    """
    check_free(target)
    with _opened(directories, timeout_s, on_progress) as parts, made_beside(target, PARTIAL) as partial:
        with NewState(partial) as state:
            (merged,) = Redistribution(parts, {0: state}, None, on_progress).run()
        sync_directory(partial)
        put_in_place(partial, target)
    return merged


def split_states(
    directories: Sequence[Path],
    shards: int,
    target: Path,
    timeout_s: float = 300.0,
    on_progress: OnProgress = ignore_progress,
) -> list[StateCounts]:
    """Split the states of all shards, in any order, into those of `shards` shards. Return the counts of each new state.

    target: a new directory, in which shard-0, shard-1 ... become state directories
    directories: state directories or snapshots; a running shard makes a checkpoint and goes on
    Raises SettingError, and StateError and CorruptRecord as merge_states does, or if target exists. Then there is no
    target.
    """
    if not 1 <= shards <= MAX_SHARDS:
        raise SettingError("--shards", f"must be 1 to {MAX_SHARDS}", shards, "choose another number")
    check_new("--out", target)
    split = list[StateCounts]()
    with _opened(directories, timeout_s, on_progress) as parts, made_whole("--out", target) as partial:
        for first in range(0, shards, MOST_OPEN):
            numbers = range(first, min(first + MOST_OPEN, shards))
            folders = {number: partial / f"shard-{number}" / INDEX_FOLDER for number in numbers}
            with ExitStack() as writing:
                for folder in folders.values():
                    make_directory(folder.parent)
                    make_directory(folder)
                states = {number: writing.enter_context(NewState(folder)) for number, folder in folders.items()}
                split += Redistribution(parts, states, shards, on_progress).run()
            for folder in folders.values():
                close_files(folder)
                sync_directory(folder)
                sync_directory(folder.parent)
        sync_directory(partial)
    return split


def split_off(
    snapshots: Sequence[Path],
    part: StatePart,
    settings_text: str,
    log_name: str,
    target: Path,
    log: LogIdentity | None = None,
) -> StateCounts:
    """Make the state of one new shard from snapshots of all present shards, in the directory target.

    settings_text, log_name: of the new shard, which the snapshots must have
    log: the log that the snapshots must be of; None: not known
    Raises SettingsMismatch, and StateError and CorruptRecord as split_states does. Then target has no state.
    """
    for snapshot in snapshots:
        check_snapshot(snapshot)
    with _opened(snapshots, 0.0, ignore_progress) as parts, made_beside(target, SPLIT_PARTIAL) as partial:
        first = parts[0]
        check_identity(str(first.directory), first.identity, settings_text, log_name, first.identity.part)
        check_log_of_snapshots(first.directory, first.identity.log_identity, log)
        with NewState(partial) as state:
            (counts,) = Redistribution(parts, {part.number: state}, part.shards, ignore_progress).run()
        sync_directory(partial)
        put_in_place(partial, target)
    return counts


def place_of_snapshots(snapshots: Sequence[Path], log: LogIdentity | None = None) -> tuple[int, OutcomeRef | None]:
    """The place of snapshots of all shards: the next log offset, and the last outcome.

    log: the log that the snapshots must be of; None: not known  Raises as split_off does.
    """
    with _opened(snapshots, 0.0, ignore_progress) as parts:
        first = parts[0]
        check_log_of_snapshots(first.directory, first.identity.log_identity, log)
        return first.position, first.last_outcome


def snapshots_in(folder: Path) -> list[Path]:
    """The snapshots in a folder; none if there is no such folder. Raises StateError if a part of it cannot be read."""
    found = list[Path]()
    try:
        for path in sorted(folder.iterdir()):
            with suppress(FileNotFoundError, NotADirectoryError):  # neither is a snapshot
                (path / MANIFEST_FILE).stat()
                found.append(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(
            f"cluster.snapshots {folder}",
            f"must be a directory that can be read with all its snapshots: {error.strerror} ({error.filename})",
            None,
            "check the permissions there, or name another directory",
        ) from None
    return found


@contextmanager
def _opened(directories: Sequence[Path], timeout_s: float, on_progress: OnProgress) -> Iterator[list[State]]:
    """Open the states of all shards, by shard number. Raises StateError unless all have the same position."""
    with ExitStack() as closing:
        states = [
            closing.enter_context(read_only_state(directory, timeout_s, on_progress, part=True))
            for directory in directories
        ]
        yield _in_order(states)


def _in_order(states: Sequence[State]) -> list[State]:
    """Return the states by shard number. Raises StateError unless all have the same position."""
    check_parts([(str(state.directory), state.identity) for state in states])
    parts = sorted(states, key=lambda state: state.identity.part or (0, 0))
    furthest = max(parts, key=lambda state: (state.progress.position, state.progress.pages_applied))
    for state in parts:
        if state_place(state) != state_place(furthest):
            raise StateError(
                f"state {state.directory}",
                f"must stand where {furthest.directory} does, {_position_text(furthest)}, "
                f"and stands {_position_text(state)}",
                None,
                _LEVEL,
            )
    return parts


def state_place(state: State) -> tuple[object, ...]:
    """The place of a state in the log. States can be merged or split if theirs are equal."""
    return *state.progress[:5], state.clock, state.last_outcome


def _position_text(state: State) -> str:
    last_outcome = "no outcome" if state.last_outcome is None else f"outcome {state.last_outcome.offset}"
    return f"at record {state.progress.position}:{state.progress.pages_applied} of the log after {last_outcome}"
