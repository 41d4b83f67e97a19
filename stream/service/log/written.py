"""Keeps the records that this worker wrote until they come back, so that it need not decode them."""

from spotsieve.state.log.record import LogRecord, checksum_of


class RecordCache:
    """Records on their way through the log, by their bytes."""

    def __init__(self) -> None:
        self._records: dict[int, tuple[bytes, LogRecord]] = {}

    def keep(self, value: bytes, record: LogRecord) -> None:
        """Keep what stands in the bytes of a record until these come back."""
        self._records[checksum_of(value)] = value, record

    def take(self, value: bytes) -> LogRecord | bytes:
        """What stands in these bytes where they are, one for one, of a record that is kept; else the bytes."""
        kept, record = self._records.pop(checksum_of(value), (b"", None))
        return value if record is None or kept != value else record
