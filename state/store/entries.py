"""Owns entries as read from a store: their bytes, decoded as far as they are asked for."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format import layouts as formats
from spotsieve.stream.errors import CorruptRecord
from spotsieve.stream.signature import Compared, Entry


def page_ids(
    keys: Sequence[bytes], values: Sequence[bytes | None], sources: Sequence[str]
) -> list[tuple[str, int, int] | None]:
    """(source, partition, offset) of each entry, None where it is gone or was forgotten. Raises CorruptRecord."""
    found = list[tuple[str, int, int] | None]()
    for key, value in zip(keys, values, strict=True):
        if value is None or value == formats.FORGOTTEN:
            found.append(None)
        else:
            entry = formats.decode_entry(key, value, sources)
            found.append((entry.source, entry.partition, entry.offset))
    return found


class ReadEntries:
    """The values of e entries. keys: for messages  sources: texts by number."""

    def __init__(self, keys: Sequence[bytes], values: Sequence[bytes | None], sources: Sequence[str]) -> None:
        """Raises CorruptRecord where an entry is missing."""
        if None in values:
            raise CorruptRecord("entries", keys[values.index(None)], "is missing although a bucket refers to it")
        self._keys = keys
        self._values = cast("Sequence[bytes]", values)
        self._sources = sources

    def compared(self, with_features: bool) -> Compared:
        """What a scheme confirms candidates by, of all e. Raises CorruptRecord."""
        return formats.decode_compared(self._keys, self._values, with_features)

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """places: int64[a] -> the filed pages. Raises CorruptRecord."""
        keys, values, sources = self._keys, self._values, self._sources
        return [formats.decode_entry(keys[place], values[place], sources) for place in places.tolist()]
