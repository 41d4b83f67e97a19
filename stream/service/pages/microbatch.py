"""Holds a micro-batch on its way through the service: its messages, their outcomes, and its slices by partition."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import numpy as np
from aiokafka.structs import ConsumerRecord, TopicPartition
from numpy.typing import NDArray

from spotsieve.stream.base.batches import batches
from spotsieve.stream.base.errors import PageError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.poison import ENVIRONMENT_ERRORS, isolate
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts
from spotsieve.stream.service.pages.ownership import OwnedPartition
from spotsieve.stream.sign.intake import Decoder, Message
from spotsieve.stream.sign.schemes import Scheme

TOMBSTONE = -1
REJECTED = -2
BROKEN = -3


@dataclass(frozen=True, slots=True)
class Slice:
    """The messages of one partition: a range of the micro-batch, and the epoch in which they were fetched.

    size: bytes of the messages, about as many as the outputs have
    """

    owned: OwnedPartition
    epoch: int
    first: int
    end: int
    next_offset: int
    size: int

    @property
    def current(self) -> bool:
        """False once the partition was handed over or reopened."""
        return self.owned.epoch == self.epoch


@dataclass(frozen=True, slots=True)
class PageFault:
    """An error of ours that a page led to, and in which step: decode, sign or judge."""

    step: str
    error: Exception


@dataclass(slots=True)
class MicroBatch:
    """Messages that were fetched together, and what the stages found out about them.

    rows: int64[len(messages)], the row of a message in signatures and verdicts, or TOMBSTONE, REJECTED or BROKEN
    broken: by number of the message the error of ours that decoding or signing it raised
    future_times: pages whose own time lay beyond the time of their message, and was set back to it
    without_rank: pages that have no rank, where input.rank_from asks for one
    signatures, verdicts: None where no message is a page
    """

    messages: list[ConsumerRecord]
    slices: list[Slice]
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rejections: dict[int, PageError] = field(default_factory=dict)
    broken: dict[int, PageFault] = field(default_factory=dict)
    future_times: int = 0
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
        """A slice was committed or dropped; True where it was the last one."""
        part.owned.end_slice()
        self.open_slices -= 1
        return not self.open_slices


JudgedSlice = tuple[MicroBatch, Slice]
"""A slice with known verdicts, and its micro-batch."""


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
    """Cut the messages of one fetch into micro-batches of at most so many pages and bytes; a larger one is alone."""
    # Keys and headers count too: tombstones may have keys of a megabyte, and a batch of them could not be sent in time.
    sized = (
        (owners[partition], record, message_bytes(record))
        for partition, records in fetched.items()
        for record in records
    )
    return [_micro_batch(batch) for batch in batches(sized, most_pages, most_bytes, itemgetter(2))]


def _micro_batch(sized: Sequence[tuple[OwnedPartition, ConsumerRecord, int]]) -> MicroBatch:
    """A micro-batch of messages, with the owner and the bytes of each; those of one partition stand together."""
    slices, first = list[Slice](), 0
    for owned, group in groupby(sized, itemgetter(0)):
        of_one = list(group)
        owned.begin_slice()
        end, size = first + len(of_one), sum(length for *_, length in of_one)
        slices.append(Slice(owned, owned.epoch, first, end, of_one[-1][1].offset + 1, size))
        first = end
    return MicroBatch([message for _, message, _ in sized], slices)


def sign(batch: MicroBatch, decoder: Decoder, scheme: Scheme) -> None:
    """Decode every message and sign the pages: fill rows, rejections and signatures.

    Raises spotsieve.stream.base.poison.ENVIRONMENT_ERRORS, except PageError: no page of the batch is to blame.
    """
    pages: dict[int, Page] = {}
    rows = np.empty(len(batch.messages), np.int64)
    now_ms = int(time.time() * 1000)
    for number, record in enumerate(batch.messages):
        if record.value is None:
            rows[number] = TOMBSTONE
            continue
        # A message may come without a time (-1). It counts as written when it is read: otherwise a horizon would never
        # move where all messages are such.
        written_ms = record.timestamp if record.timestamp >= 0 else now_ms
        message = Message(
            record.key, record.value, record.headers, record.topic, record.partition, record.offset, written_ms
        )
        try:
            page = decoder.decode(message)
        except PageError as error:
            rows[number] = REJECTED
            batch.rejections[number] = error
            continue
        except ENVIRONMENT_ERRORS:
            raise
        except Exception as error:
            batch.broken[number] = PageFault("decode", error)
            continue
        pages[number] = page
        batch.future_times += page.future_time
        batch.without_rank += decoder.ranks and page.rank is None
    batch.signatures, broken = sign_pages(pages, scheme)
    batch.broken |= broken
    rows[[number for number in pages if number not in broken]] = np.arange(len(pages) - len(broken))
    rows[list(batch.broken)] = BROKEN
    batch.rows = rows


def sign_pages(pages: Mapping[int, Page], scheme: Scheme) -> tuple[Signatures | None, dict[int, PageFault]]:
    """The signatures of the pages without poison pages, and the errors of these by number of the message."""
    numbers = list(pages)

    def sign_without(rows: Collection[int]) -> Signatures | None:
        rest = [page for row, page in enumerate(pages.values()) if row not in rows]
        return scheme.sign(rest) if rest else None

    signatures, poison = isolate(sign_without, len(numbers))
    return signatures, {numbers[row]: PageFault("sign", error) for row, error in poison.items()}
