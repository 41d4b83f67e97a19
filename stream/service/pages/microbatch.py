"""A micro-batch in the pipeline: its messages, its slices by partition, and the results of the stages."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import numpy as np
from aiokafka.structs import ConsumerRecord, TopicPartition
from numpy.typing import NDArray

from spotsieve.stream.base.batches import batches
from spotsieve.stream.base.errors import ENVIRONMENT_ERRORS, PageError, isolate
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.service.pages.ownership import OwnedPartition
from spotsieve.stream.sign.intake import Decoder, Message
from spotsieve.stream.sign.schemes import Scheme

TOMBSTONE = -1
REJECTED = -2
POISON = -3


@dataclass(frozen=True, slots=True)
class Slice:
    """The messages of one partition in a micro-batch: first..end - 1, fetched in this epoch of the partition.

    size: bytes of the messages, about the bytes of their outputs
    """

    owned: OwnedPartition
    epoch: int
    first: int
    end: int
    next_offset: int
    size: int

    @property
    def current(self) -> bool:
        """False once the partition was revoked or reopened."""
        return self.owned.epoch == self.epoch


@dataclass(frozen=True, slots=True)
class PageFault:
    """A defect that one page triggers. step: decode, sign or judge"""

    step: str
    error: Exception


@dataclass(slots=True)
class MicroBatch:
    """Messages that were fetched together, and the results of the stages.

    rows: int64[len(messages)], row of each message in signatures and verdicts, or TOMBSTONE, REJECTED or POISON
    rejections: by message number, the reason why it is not a page
    faults: by message number, the defect that decoding or signing it triggered
    future_times: number of pages whose fetch time was later than their message's time, and was set back to it
    repaired_utf8: number of pages with invalid UTF-8 that was replaced by U+FFFD
    without_rank: number of pages without a rank, if input.rank_from is set
    signatures, verdicts: None if no message is a page
    """

    messages: list[ConsumerRecord]
    slices: list[Slice]
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rejections: dict[int, PageError] = field(default_factory=dict)
    faults: dict[int, PageFault] = field(default_factory=dict)
    future_times: int = 0
    repaired_utf8: int = 0
    without_rank: int = 0
    signatures: Signatures | None = None
    verdicts: Verdicts | None = None
    open_slices: int = 0

    def __post_init__(self) -> None:
        self.open_slices = len(self.slices)

    @property
    def size(self) -> int:
        """Bytes of the messages."""
        return sum(part.size for part in self.slices)

    def end_slice(self, part: Slice) -> bool:
        """Count a slice that was committed or dropped. Returns True for the last slice."""
        part.owned.end_slice()
        self.open_slices -= 1
        return not self.open_slices


JudgedSlice = tuple[MicroBatch, Slice]
"""A micro-batch with verdicts, and one of its slices."""


def message_bytes(message: ConsumerRecord) -> int:
    """Bytes of a message's key, value and headers."""
    size = len(message.key or b"") + len(message.value or b"")
    return size + sum(len(name) + len(content or b"") for name, content in message.headers)


def micro_batches(
    fetched: Mapping[TopicPartition, Sequence[ConsumerRecord]],
    owners: Mapping[TopicPartition, OwnedPartition],
    most_pages: int,
    most_bytes: int,
) -> list[MicroBatch]:
    """Cut the messages of one fetch into micro-batches of at most most_pages and most_bytes.

    A message that exceeds most_bytes gets a micro-batch of its own.
    """
    # Keys and headers count too: tombstones may have keys of a megabyte, and many of them could not be sent in time.
    sized = (
        (owners[partition], record, message_bytes(record))
        for partition, records in fetched.items()
        for record in records
    )
    return [_micro_batch(batch) for batch in batches(sized, most_pages, most_bytes, itemgetter(2))]


def _micro_batch(sized: Sequence[tuple[OwnedPartition, ConsumerRecord, int]]) -> MicroBatch:
    """Make a micro-batch. sized: (owner, message, bytes), grouped by partition"""
    slices, first = list[Slice](), 0
    for owned, group in groupby(sized, itemgetter(0)):
        members = list(group)
        owned.begin_slice()
        end, size = first + len(members), sum(length for *_, length in members)
        slices.append(Slice(owned, owned.epoch, first, end, members[-1][1].offset + 1, size))
        first = end
    return MicroBatch([message for _, message, _ in sized], slices)


def input_message(record: ConsumerRecord, now_ms: int) -> Message:
    """The message to decode.

    A message without a time (-1) gets the time of reading. Otherwise the deduplication window would never move if no
    message has a time.
    """
    written_ms = record.timestamp if record.timestamp >= 0 else now_ms
    return Message(record.key, record.value, record.headers, record.topic, record.partition, record.offset, written_ms)


def sign(
    batch: MicroBatch,
    decoder: Decoder,
    scheme: Scheme,
    undeliverable: Callable[[ConsumerRecord], PageError | None] = lambda _: None,
) -> None:
    """Decode all messages and sign their pages: sets rows, rejections, faults and signatures of the micro-batch.

    undeliverable(message): the error of a page that the output cannot hold; it is rejected
    Raises spotsieve.stream.base.errors.ENVIRONMENT_ERRORS except PageError, because they are not the fault of a page.
    """
    pages: dict[int, Page] = {}
    rows = np.empty(len(batch.messages), np.int64)
    now_ms = int(time.time() * 1000)
    for number, record in enumerate(batch.messages):
        if record.value is None:
            rows[number] = TOMBSTONE
            continue
        rejection: PageError | None
        try:
            page, rejection = decoder.decode(input_message(record, now_ms)), undeliverable(record)
        except PageError as error:
            rejection = error
        except ENVIRONMENT_ERRORS:
            raise
        except Exception as error:
            batch.faults[number] = PageFault("decode", error)
            continue
        if rejection is not None:
            rows[number] = REJECTED
            batch.rejections[number] = rejection
            continue
        pages[number] = page
        batch.future_times += page.future_time
        batch.repaired_utf8 += page.repaired
        batch.without_rank += decoder.ranks and page.rank is None
    batch.signatures, faults = sign_pages(pages, scheme)
    batch.faults |= faults
    rows[[number for number in pages if number not in faults]] = np.arange(len(pages) - len(faults))
    rows[list(batch.faults)] = POISON
    batch.rows = rows


def sign_pages(pages: Mapping[int, Page], scheme: Scheme) -> tuple[Signatures | None, dict[int, PageFault]]:
    """Sign the pages, isolating poison pages.

    Returns the signatures of the other pages, and the faults by message number.
    """
    numbers = list(pages)

    def sign_without(rows: Collection[int]) -> Signatures | None:
        rest = [page for row, page in enumerate(pages.values()) if row not in rows]
        return scheme.sign(rest) if rest else None

    signatures, poison = isolate(sign_without, len(numbers))
    return signatures, {numbers[row]: PageFault("sign", error) for row, error in poison.items()}
