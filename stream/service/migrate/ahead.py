"""Reads what the new log has already, as a migration left it that was interrupted."""

from collections.abc import AsyncIterator

from spotsieve.stream.migration.moving import Migration
from spotsieve.stream.service.log.skipping import log_records
from spotsieve.stream.settings.model import Settings


class NewLogRecords:
    """The records of the new log from the journal's place on, as the log was when this was opened.

    ended: whether all of them were given
    """

    def __init__(self, settings: Settings, migration: Migration) -> None:
        self._settings = settings
        self._migration = migration
        self._records: AsyncIterator[tuple[int, bytes]] | None = None
        self._next: tuple[int, bytes] | None = None
        self.ended = False

    async def open(self) -> None:
        """Begin to read. Raises StateError where others have written, BrokerError, BrokerTrouble."""
        self._records = log_records(self._settings, self._migration.journal.offset, None)
        await self._step()

    async def up_to(self, origin: int) -> list[tuple[int, bytes]]:
        """The next records, as long as they come from this old record, from none or from earlier ones."""
        found = list[tuple[int, bytes]]()
        while self._next is not None and self._migration.origin(*self._next) <= origin:
            found.append(self._next)
            # What workers have written behind the opening is none of the migration's.
            self.ended = self._migration.opens(*self._next)
            await self._step()
        return found

    async def _step(self) -> None:
        assert self._records is not None
        self._next = None if self.ended else await anext(self._records, None)
        self.ended = self._next is None
