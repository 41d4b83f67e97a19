"""Keeps what shards have said of rounds, until the round is over.

Says which pages of a round break the code of a role: to the log, and as the body of a record to the other roles.
"""

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
    """The answers of S shards, of the rounds that are not over. The last word of a shard counts."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._met: dict[RoundRange, dict[int, RoundMessage]] = {}
        self._confirmed: dict[RoundRange, dict[int, dict[int, RoundMessage]]] = {}
        self._resolution: dict[RoundRange, dict[int, list[RoundMessage]]] = {}
        self._too_large: set[RoundRange] = set()
        self._broken: dict[RoundRange, dict[int, str]] = {}

    def add(self, heard: RoundMessage) -> None:
        """Keep an answer. Who answers as one of another number of shards says nothing here."""
        told = heard.told
        if told.share.shards != self._shards:
            return
        if told.kind == KIND_CANDIDATES:
            self._met.setdefault(told.range, {})[told.share.number] = heard
        elif told.kind == KIND_CONFIRMATIONS:
            of_range = self._confirmed.setdefault(told.range, {})
            of_range.setdefault(read_combined_checksum(told.body), {})[told.share.number] = heard
        elif told.kind == KIND_RESOLUTIONS:
            self._resolution.setdefault(told.range, {}).setdefault(told.share.number, []).append(heard)
        elif told.kind == KIND_TOO_LARGE:
            self._too_large.add(told.range)
        elif told.kind == KIND_POISON_ROWS:
            self._broken.setdefault(told.range, {}).update(heard.broken().errors)

    def met(self, range_: RoundRange) -> list[RoundMessage] | None:
        """What all shards met, in their order; None while one of them has not answered."""
        return _of_all(self._met.get(range_, {}), self._shards)

    def confirmed(self, range_: RoundRange) -> list[RoundMessage] | None:
        """What all shards say of the entries that were met, in their order; None while one of them has not said it.

        Who has heard other answers than we has confirmed others; it hears ours too, and says more.
        """
        return _of_all(self._confirmed_by(range_), self._shards)

    def _confirmed_by(self, range_: RoundRange) -> dict[int, RoundMessage]:
        """By shard, what it says of the entries that were met."""
        met = self.met(range_)
        return self._confirmed.get(range_, {}).get(combined_checksum(met), {}) if met else {}

    def resolution(self, range_: RoundRange) -> dict[int, list[RoundMessage]]:
        """By shard, what it found under one guess after the other."""
        return self._resolution.get(range_, {})

    def too_large(self, range_: RoundRange) -> bool:
        """Whether a shard's answer would be larger than a message may be."""
        return range_ in self._too_large

    def broken(self, range_: RoundRange) -> dict[int, str]:
        """The pages that break the code of a shard, by row, with the text of the error."""
        return self._broken.get(range_, {})

    def missing(self, range_: RoundRange, confirms: bool) -> list[int]:
        """The shards that have not answered, or, once all have, not confirmed. confirms: whether shards do so at all"""
        said = set(self._met.get(range_, {}))
        if confirms and len(said) == self._shards:
            said = set(self._confirmed_by(range_))
        return sorted(set(range(self._shards)) - said)

    def forget_walks(self, range_: RoundRange) -> None:
        """Let go of what shards found under guesses that count no longer: a round may have many of them."""
        self._resolution.pop(range_, None)

    def forget_too_large(self, range_: RoundRange) -> None:
        """Wait for answers that are smaller."""
        self._too_large.discard(range_)

    def forget_before(self, range_: RoundRange) -> None:
        """Let go of what was said of rounds before this one."""
        for kept in (self._met, self._confirmed, self._resolution, self._broken):
            for one in [one for one in kept if one.start < range_.start]:
                del kept[one]
        self._too_large = {one for one in self._too_large if one.start >= range_.start}


def confirmed_candidates(answers: Sequence[RoundMessage], confirmed: Sequence[RoundMessage]) -> list[ShardCandidates]:
    """What all shards met, with what the holders of the entries say of it. Both in the order of the shards."""
    return apply_confirmations([one.shard_candidates for one in answers], [one.confirms for one in confirmed])


def combined_checksum(answers: Sequence[RoundMessage]) -> int:
    """A word that tells the answers of all shards from others: 64 bits of their checksums."""
    return xxhash.xxh3_64_intdigest(b"".join(one.checksum.to_bytes(8, "little") for one in answers))


def _of_all(by_shard: dict[int, RoundMessage], shards: int) -> list[RoundMessage] | None:
    return [by_shard[number] for number in range(shards)] if len(by_shard) == shards else None


MOST_NAMED = 10
"""Pages that a line names; their worker names and keeps all of them."""


def find_poison_pages(round_: Round, errors: Mapping[int, Exception]) -> dict[int, str]:
    """Log pages of a round that break the code, nearly always one; -> the texts of their errors, by row."""
    rows = sorted(errors)
    named = page_ids_at(round_.signatures, np.array(rows[:MOST_NAMED]))
    logger().error(
        "pages break Spotsieve's own code: their round goes on without them; please report it with what a worker keeps",
        pages=[f"{source}/{partition}/{offset}" for source, partition, offset in named],
        number=len(rows),
        exc_info=errors[rows[0]],
    )
    return error_texts(errors)


def poison_body(round_: Round, errors: Mapping[int, str]) -> bytes:
    """The body of kind 10. errors: texts by row"""
    return write_poison_rows(PoisonRows(len(round_.signatures), errors))
