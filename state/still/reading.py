"""Owns reading what lies still of a state: a checkpoint or a snapshot, family by family, without owning it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rocksdict import AccessType, Rdict, ReadOptions

from spotsieve.state.format import layouts as formats
from spotsieve.state.horizon import Clock
from spotsieve.state.snapshot.manifest import FILE_NAME
from spotsieve.state.snapshot.take import Told, checkpoint_of
from spotsieve.state.store.rocks import DIRECTORY, IDENTITY, MARKS, PROGRESS, keys_and_values
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.stream.errors import StateError

_READAHEAD_BYTES = 2**21


@dataclass(frozen=True, slots=True)
class StillState:
    """A state as it was at one position of its log.

    identity: (state format, settings text, log name)  progress, clock: how far it had come  sources: texts by number
    """

    directory: Path
    identity: tuple[int, str, str]
    progress: formats.Progress
    sources: list[str]
    families: dict[str, Rdict]
    clock: Clock

    def items(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Every key and value of buckets, entries or sources, in order. Raises CorruptRecord."""
        options = ReadOptions()
        options.set_readahead_size(_READAHEAD_BYTES)
        with rocks_errors(self.directory, "read"):
            yield from keys_and_values(self.families[family], options)

    def estimated_keys(self, family: str) -> int:
        """How many keys there are, about."""
        return self.families[family].property_int_value("rocksdb.estimate-num-keys") or 0


@contextmanager
def still_state(directory: Path, timeout_s: float = 300.0, told: Told = lambda *_: None) -> Iterator[StillState]:
    """Read a snapshot, or a state directory by a checkpoint of it: a process that works on it is asked and goes on.

    Raises StateError: no state, the owner does not answer in time, another one asks; CorruptRecord.
    """
    with ExitStack() as closing:
        if (directory / FILE_NAME).exists():
            path = directory / DIRECTORY
        else:
            path = closing.enter_context(checkpoint_of(directory, timeout_s, told))
        # As a secondary: it writes nothing there, and reading only ends the process (facebook/rocksdb issue 13235).
        scratch = closing.enter_context(TemporaryDirectory(prefix="spotsieve-"))
        with rocks_errors(directory, "read"):
            database = Rdict(str(path), database_options(), column_families(None), AccessType.secondary(scratch))
        closing.callback(database.close)
        families = {}
        for name in column_families(None):
            families[name] = database.get_column_family(name)
            closing.callback(families[name].close)
        with rocks_errors(directory, "read"):
            identity, progress, marks = (database.get(name) for name in (IDENTITY, PROGRESS, MARKS))
            sources = [formats.decode_source(key, value) for key, value in keys_and_values(families["sources"])]
        if not isinstance(identity, bytes) or not isinstance(progress, bytes):
            raise StateError(
                "--state", "holds no identity: its first start did not finish", str(directory), "start it once more"
            )
        decoded = formats.decode_progress(progress)
        clock = formats.decode_clock(decoded, marks if isinstance(marks, bytes) else None)
        yield StillState(directory, formats.decode_identity(identity), decoded, sources, families, clock)
