"""Owns the signature: all that is remembered of a page, as columns over a micro-batch."""

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


class Status(enum.IntEnum):
    """Whether a page has a fingerprint, and if not, why. Stored in the log: numbers are never reused."""

    FINGERPRINTED = 0
    TOO_FEW_FEATURES = 1
    EMPTY = 2
    NOT_TEXT = 3


@dataclass(frozen=True, slots=True)
class Signatures:
    """Signatures of n pages, in the order of the micro-batch.

    source: uint16[n] (index into sources)  partition: int32[n]  offset: int64[n]  event_time_ms: int64[n]
    digest: uint64[n, 2] (XXH3-128 of the body)
    fingerprint: uint64[n] (means something only where status is FINGERPRINTED)
    status: uint8[n] (Status; a page without fingerprint matches by digest alone, an EMPTY one matches nothing)
    feature_count: uint32[n]  urls, labels: n UTF-8 byte strings (label may be b"")
    """

    sources: tuple[str, ...]
    source: NDArray[np.uint16]
    partition: NDArray[np.int32]
    offset: NDArray[np.int64]
    event_time_ms: NDArray[np.int64]
    digest: NDArray[np.uint64]
    fingerprint: NDArray[np.uint64]
    status: NDArray[np.uint8]
    feature_count: NDArray[np.uint32]
    urls: tuple[bytes, ...]
    labels: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.offset)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a verdict tells of an original: the filed page's id, address and time."""

    source: str
    partition: int
    offset: int
    event_time_ms: int
    url: str
    label: str

    @property
    def id(self) -> str:
        """The page's own label, or its page id as text."""
        return self.label or page_id_text(self.source, self.partition, self.offset)


def page_id_text(source: str, partition: int, offset: int) -> str:
    """A page id as people and JSON see it: source/partition/offset."""
    return f"{source}/{partition}/{offset}"
