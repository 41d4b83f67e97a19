"""Makes the records of the new log from one record of the old log."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from spotsieve.state.index import State
from spotsieve.state.log.bodies import Origin, split_pages
from spotsieve.state.log.record import FRAME_BYTES, NO_PAGES, LogRecord, encode, encode_forget, split
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.still.finding import PageQuery, file_places, find_entries
from spotsieve.state.still.reading import own_read_only_state
from spotsieve.stream.engine import Engine
from spotsieve.stream.signature import Signatures, page_id_text


class Translator:
    """Writes records for the new log, by one writer, each with its origin in the old one."""

    def __init__(self, engine: Engine, writer: bytes, most_bytes: int) -> None:
        """engine: of the new log  most_bytes: of one record"""
        self._engine = engine
        self._writer = writer
        self._most_bytes = most_bytes

    def of_pages(self, offset: int, record: LogRecord, signatures: Signatures, written: int) -> list[bytes]:
        """The records for one of pages. offset: of the old record  written: how many of them the new log has already"""
        if not len(signatures):
            again = written or not record.committed
            return [] if again else [self._encoded(offset, 0, NO_PAGES, record)]
        parts = enumerate(split(signatures, self._most_bytes, record.committed))
        return [self._encoded(offset, number, part, record) for number, part in parts if number >= written]

    def of_forgotten(self, offset: int, pages: Sequence[ForgottenPage], written: int) -> list[bytes]:
        """The records that forget these pages, which are filed in the new state."""
        parts = enumerate(split_pages(pages, self._most_bytes - FRAME_BYTES), written)
        return [
            encode_forget(part, self._writer, Origin(offset, number).sequence, self._engine.settings_digest)
            for number, part in parts
        ]

    def _encoded(self, offset: int, number: int, part: Signatures, record: LogRecord) -> bytes:
        marks = () if number else record.committed
        sequence = Origin(offset, number).sequence
        return encode(part, self._writer, sequence, self._engine.settings_digest, marks)


def translate_forgotten(pages: Sequence[ForgottenPage], state: State, folder: Path) -> list[ForgottenPage]:
    """The pages that the old log forgets, as the new state has filed them: by other numbers, under other keys.

    A walk over the new state finds them, as `state forget` does. One that it has not filed is passed over. Raises
    CorruptRecord, StateError.  folder: for the checkpoint
    """
    with_host = {page.page_id: page.with_host for page in pages}
    names = frozenset(page_id_text(*page_id) for page_id in with_host)
    with own_read_only_state(state, folder) as still:
        found = find_entries(still, PageQuery(ids=names))
        # A page's own name may be another one's id.
        found.pages = {
            number: entry
            for number, entry in found.pages.items()
            if (entry.source, entry.partition, entry.offset) in with_host
        }
        places = file_places(still, found) if found.pages else []
    return [page._replace(with_host=with_host[page.page_id]) for page in places]


def unsent_pages(signatures: Signatures, rows: Sequence[int], engine: Engine) -> Iterator[ForgottenPage]:
    """Of these rows of pages that were just judged, those that are filed. Raises CorruptRecord, StateError."""
    if not rows:
        return
    probes = engine.scheme.probe(signatures)
    for row in rows:
        keys = np.unique(probes.keys[probes.bounds[row] : probes.bounds[row + 1]])
        page = (
            signatures.sources[signatures.source[row]],
            int(signatures.partition[row]),
            int(signatures.offset[row]),
        )
        numbers = np.unique(engine.state.buckets(keys).numbers)
        for number, page_id in zip(numbers.tolist(), engine.state.page_ids(numbers), strict=True):
            if page_id == page:
                yield ForgottenPage(number, *page, tuple(keys.tolist()))
