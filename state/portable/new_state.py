"""Writes a state from its parts into a new folder: family by family, and the meta values when all the rest is whole."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from rocksdict import Rdict, WriteBatch, WriteOptions

from spotsieve.state.format.meta import (
    IDENTITY,
    MARKS,
    PROGRESS,
    Identity,
    Progress,
    encode_identity,
    encode_marks,
    encode_progress,
)
from spotsieve.state.horizon import Clock
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options


class NewState:
    """A new database in a folder. Use it as a context, which raises StateError where the disk does not take it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._closing = ExitStack()
        # No write-ahead log: who is cut short begins again from what it reads. The end flushes everything.
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute, whatever the stub says

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            closing.enter_context(rocks_errors(self._path, "write"))
            self._database = Rdict(str(self._path), database_options(), column_families(None))
            closing.callback(self._database.close)
            self._families = {name: self._database.get_column_family(name) for name in column_families(None)}
            for family in self._families.values():
                closing.callback(family.close)
            self._handles = {name: self._database.get_column_family_handle(name) for name in self._families}
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *raised: object) -> bool | None:
        return self._closing.__exit__(*raised)  # type: ignore[arg-type]  # the three that a context is left with

    def put(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write keys and values of a family, in any order."""
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._handles[family])
        for key, value in items:
            batch[key] = value
        self._database.write(batch, self._unlogged)

    def complete(self, identity: Identity, progress: Progress, clock: Clock) -> None:
        """Write the meta values, and all that is buffered."""
        batch = WriteBatch(raw_mode=True)
        batch[IDENTITY] = encode_identity(identity)
        if clock.marks:
            batch[MARKS] = encode_marks(clock.marks)
        batch[PROGRESS] = encode_progress(progress)
        self._database.write(batch, self._unlogged)
        for family in (self._database, *self._families.values()):
            family.flush()
