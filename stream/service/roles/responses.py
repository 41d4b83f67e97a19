"""Keeps the responses of shards to open rounds, and reports poison pages of a round to the log and to other roles."""

from collections.abc import Mapping, Sequence

import numpy as np
import xxhash

from spotsieve.stream.base.signature import page_ids_at
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.service.roles.round_messages import RoundMessage
from spotsieve.stream.sharding.candidates import ShardCandidates
from spotsieve.stream.sharding.confirmation import apply_confirmations
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_POISON_ROWS,
    KIND_RESOLUTIONS,
    KIND_TOO_LARGE,
    RoundRange,
)
from spotsieve.stream.sharding.records.resolver import PoisonRows, error_texts, write_poison_rows
from spotsieve.stream.sharding.records.shard import read_combined_checksum
from spotsieve.stream.sharding.rounds import Round


class ShardResponses:
    """The responses of S shards to open rounds. A later response of a shard replaces its earlier one."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._met: dict[RoundRange, dict[int, RoundMessage]] = {}
        self._confirmed: dict[RoundRange, dict[int, dict[int, RoundMessage]]] = {}
        self._resolution: dict[RoundRange, dict[int, list[RoundMessage]]] = {}
        self._too_large: set[RoundRange] = set()
        self._broken: dict[RoundRange, dict[int, str]] = {}

    def add(self, message: RoundMessage) -> None:
        """Keep a response. Responses from a cluster with another number of shards are ignored."""
        record = message.told
        if record.share.shards != self._shards:
            return
        if record.kind == KIND_CANDIDATES:
            self._met.setdefault(record.range, {})[record.share.number] = message
        elif record.kind == KIND_CONFIRMATIONS:
            of_range = self._confirmed.setdefault(record.range, {})
            of_range.setdefault(read_combined_checksum(record.body), {})[record.share.number] = message
        elif record.kind == KIND_RESOLUTIONS:
            self._resolution.setdefault(record.range, {}).setdefault(record.share.number, []).append(message)
        elif record.kind == KIND_TOO_LARGE:
            self._too_large.add(record.range)
        elif record.kind == KIND_POISON_ROWS:
            self._broken.setdefault(record.range, {}).update(message.broken().errors)

    def met(self, range_: RoundRange) -> list[RoundMessage] | None:
        """The candidates of all shards, in shard order; None until all shards have responded."""
        return _of_all(self._met.get(range_, {}), self._shards)

    def confirmed(self, range_: RoundRange) -> list[RoundMessage] | None:
        """The confirmations of all shards for the present candidates, in shard order; None until all have responded.

        A shard that read other candidate responses has confirmed those. It reads the present ones too, and confirms
        again.
        """
        return _of_all(self._confirmed_by(range_), self._shards)

    def _confirmed_by(self, range_: RoundRange) -> dict[int, RoundMessage]:
        """By shard, its confirmations for the present candidates."""
        met = self.met(range_)
        return self._confirmed.get(range_, {}).get(combined_checksum(met), {}) if met else {}

    def resolution(self, range_: RoundRange) -> dict[int, list[RoundMessage]]:
        """By shard, its resolutions under successive speculations."""
        return self._resolution.get(range_, {})

    def too_large(self, range_: RoundRange) -> bool:
        """Whether the response of a shard exceeds the message limit."""
        return range_ in self._too_large

    def broken(self, range_: RoundRange) -> dict[int, str]:
        """The poison pages that shards reported, by row, with the text of the error."""
        return self._broken.get(range_, {})

    def missing(self, range_: RoundRange, confirms: bool) -> list[int]:
        """The shards without candidates, or, once all have sent them, without confirmations.

        confirms: whether shards send confirmations
        """
        responded = set(self._met.get(range_, {}))
        if confirms and len(responded) == self._shards:
            responded = set(self._confirmed_by(range_))
        return sorted(set(range(self._shards)) - responded)

    def forget_walks(self, range_: RoundRange) -> None:
        """Drop resolutions under superseded speculations, of which a round may have many."""
        self._resolution.pop(range_, None)

    def forget_too_large(self, range_: RoundRange) -> None:
        """Forget that a response was too large, and wait for smaller ones."""
        self._too_large.discard(range_)

    def forget_before(self, range_: RoundRange) -> None:
        """Drop the responses to rounds before this one."""
        for kept in (self._met, self._confirmed, self._resolution, self._broken):
            for one in [one for one in kept if one.start < range_.start]:
                del kept[one]
        self._too_large = {one for one in self._too_large if one.start >= range_.start}


def confirmed_candidates(answers: Sequence[RoundMessage], confirmed: Sequence[RoundMessage]) -> list[ShardCandidates]:
    """The candidates of all shards with their confirmations applied. Both parameters are in shard order."""
    return apply_confirmations([one.shard_candidates for one in answers], [one.confirms for one in confirmed])


def combined_checksum(answers: Sequence[RoundMessage]) -> int:
    """A 64-bit checksum over the checksums of all responses. It identifies this set of responses."""
    return xxhash.xxh3_64_intdigest(b"".join(one.checksum.to_bytes(8, "little") for one in answers))


def _of_all(by_shard: dict[int, RoundMessage], shards: int) -> list[RoundMessage] | None:
    return [by_shard[number] for number in range(shards)] if len(by_shard) == shards else None


MOST_NAMED = 10
"""Limit of pages that a log line names. The workers of the pages name and save all of them."""


def find_poison_pages(round_: Round, errors: Mapping[int, Exception]) -> dict[int, str]:
    """Log the poison pages of a round, nearly always one. Returns the texts of their errors by row."""
    rows = sorted(errors)
    named = page_ids_at(round_.signatures, np.array(rows[:MOST_NAMED]))
    logger().error(
        "a defect of Spotsieve stopped these pages; their round continues without them; please report the file that "
        "their worker saves",
        pages=[f"{source}/{partition}/{offset}" for source, partition, offset in named],
        number=len(rows),
        exc_info=errors[rows[0]],
    )
    return error_texts(errors)


def poison_body(round_: Round, errors: Mapping[int, str]) -> bytes:
    """Encode the body of a record of kind 10. errors: error texts by row"""
    return write_poison_rows(PoisonRows(len(round_.signatures), errors))
