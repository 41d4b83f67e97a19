"""Reads a state that does not change meanwhile, a checkpoint or a snapshot, family by family and without owning it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rocksdict import Rdict, ReadOptions

from spotsieve.state.format.meta import Identity, Progress
from spotsieve.state.format.sources import decode_source
from spotsieve.state.horizon import Clock
from spotsieve.state.identity import check_whole
from spotsieve.state.index import Heard, State
from spotsieve.state.snapshot.asking import checkpoint_of
from spotsieve.state.snapshot.manifest import MANIFEST_FILE
from spotsieve.state.store.directory import INDEX_FOLDER
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.state.store.rocks_options import column_families
from spotsieve.state.store.rocks_reading import keys_and_values, opened_secondary, read_meta
from spotsieve.stream.progress import OnProgress, ignore_progress

_READAHEAD_BYTES = 2**21


@dataclass(frozen=True, slots=True)
class StillState:
    """A state as it was at one position of its log.

    identity: what it belongs to  progress, clock: how far it had come  sources: texts by number
    heard: the outcome that the state of a shard was last filed by
    """

    directory: Path
    identity: Identity
    progress: Progress
    sources: list[str]
    families: dict[str, Rdict]
    clock: Clock
    heard: Heard | None = None

    def items(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Give every key and value of a family, in order. Raises CorruptRecord."""
        with rocks_errors(self.directory, "read"):
            yield from keys_and_values(self.families[family], _whole_pass())

    def values(self, family: str) -> Iterator[bytes]:
        """Give every value of a family, in the order of the keys: five times as fast as items().

        It ends without a word at a block that cannot be read: count what it gives.
        """
        with rocks_errors(self.directory, "read"):
            yield from self.families[family].values(read_opt=_whole_pass())

    def estimated_keys(self, family: str) -> int:
        """Return about how many keys a family has."""
        return self.families[family].property_int_value("rocksdb.estimate-num-keys") or 0


def _whole_pass() -> ReadOptions:
    """How a whole family is read. Its blocks are read once, so they stay out of the cache, which halves the time."""
    options = ReadOptions()
    options.set_readahead_size(_READAHEAD_BYTES)
    options.fill_cache(False)  # type: ignore[call-arg]  # its stub has no argument, the function takes one
    return options


@contextmanager
def still_state(
    directory: Path,
    timeout_s: float = 300.0,
    on_progress: OnProgress = ignore_progress,
    *,
    hold: bool = True,
    part: bool = False,
) -> Iterator[StillState]:
    """Read a snapshot, or a state directory by a checkpoint. A process that works on the state makes it and goes on.

    hold: False: the checkpoint goes as soon as RocksDB has all its files open, so that whoever reads for long keeps
    nobody else from asking; its space on disk is free when the reading ends
    part: read the state of a shard too, which is refused else
    Raises StateError: there is no state, the owner does not answer in time, or somebody else asks; CorruptRecord.
    """
    with ExitStack() as asking, ExitStack() as closing:
        if (directory / MANIFEST_FILE).exists():
            path = directory / INDEX_FOLDER
        else:
            path = asking.enter_context(checkpoint_of(directory, timeout_s, on_progress))
        state = closing.enter_context(_read(directory, path, part=part))
        if not hold:
            asking.close()
        yield state


@contextmanager
def own_still_state(state: State, directory: Path) -> Iterator[StillState]:
    """Read a state that this process works on, as it is now, by a checkpoint in its directory.

    Raises StateError, CorruptRecord.
    """
    with TemporaryDirectory(prefix="checkpoint-", dir=directory) as made:
        path = Path(made) / INDEX_FOLDER
        state.checkpoint(path)
        with _read(directory, path) as still:
            yield still


@contextmanager
def _read(directory: Path, path: Path, *, part: bool = False) -> Iterator[StillState]:
    """Open an index that nobody writes. directory: of the state that it is of, for messages"""
    with ExitStack() as closing:
        database = closing.enter_context(opened_secondary(directory, path))
        families = {}
        for name in column_families(None):
            families[name] = database.get_column_family(name)
            closing.callback(families[name].close)
        with rocks_errors(directory, "read"):
            sources = [decode_source(key, value) for key, value in keys_and_values(families["sources"])]
        meta = read_meta(directory, database)
        if not part:
            check_whole(str(directory), meta.identity)
        yield StillState(directory, meta.identity, meta.progress, sources, families, meta.clock, meta.heard)
