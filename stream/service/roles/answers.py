"""Keeps what shards have said of rounds, until the round is over."""

from collections.abc import Sequence

import xxhash

from spotsieve.stream.service.roles.told import Heard
from spotsieve.stream.sharding.confirming import with_confirms
from spotsieve.stream.sharding.meetings import Meetings
from spotsieve.stream.sharding.records.confirms import confirmed_answers
from spotsieve.stream.sharding.records.frame import (
    KIND_BROKEN,
    KIND_CONFIRMS,
    KIND_MEETINGS,
    KIND_TOO_LARGE,
    KIND_WALKS,
    Range,
)


class Answers:
    """The answers of S shards, of the rounds that are not over. The last word of a shard counts."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._met: dict[Range, dict[int, Heard]] = {}
        self._confirmed: dict[Range, dict[int, dict[int, Heard]]] = {}
        self._walked: dict[Range, dict[int, list[Heard]]] = {}
        self._too_large: set[Range] = set()
        self._broken: dict[Range, dict[int, str]] = {}

    def add(self, heard: Heard) -> None:
        """Keep an answer. Who answers as one of another number of shards says nothing here."""
        told = heard.told
        if told.share.shards != self._shards:
            return
        if told.kind == KIND_MEETINGS:
            self._met.setdefault(told.range, {})[told.share.number] = heard
        elif told.kind == KIND_CONFIRMS:
            of_range = self._confirmed.setdefault(told.range, {})
            of_range.setdefault(confirmed_answers(told.body), {})[told.share.number] = heard
        elif told.kind == KIND_WALKS:
            self._walked.setdefault(told.range, {}).setdefault(told.share.number, []).append(heard)
        elif told.kind == KIND_TOO_LARGE:
            self._too_large.add(told.range)
        elif told.kind == KIND_BROKEN:
            self._broken.setdefault(told.range, {}).update(heard.broken().errors)

    def met(self, range_: Range) -> list[Heard] | None:
        """What all shards met, in their order; None while one of them has not answered."""
        return _of_all(self._met.get(range_, {}), self._shards)

    def confirmed(self, range_: Range) -> list[Heard] | None:
        """What all shards say of the entries that were met, in their order; None while one of them has not said it.

        Who has heard other answers than we has confirmed others; it hears ours too, and says more.
        """
        return _of_all(self._confirmed_by(range_), self._shards)

    def _confirmed_by(self, range_: Range) -> dict[int, Heard]:
        """By shard, what it says of the entries that were met."""
        met = self.met(range_)
        return self._confirmed.get(range_, {}).get(word_of(met), {}) if met else {}

    def walked(self, range_: Range) -> dict[int, list[Heard]]:
        """By shard, what it found under one guess after the other."""
        return self._walked.get(range_, {})

    def too_large(self, range_: Range) -> bool:
        """Whether a shard's answer would be larger than a message may be."""
        return range_ in self._too_large

    def broken(self, range_: Range) -> dict[int, str]:
        """The pages that break the code of a shard, by row, with the text of the error."""
        return self._broken.get(range_, {})

    def missing(self, range_: Range, confirms: bool) -> list[int]:
        """The shards that have not answered, or, once all have, not confirmed. confirms: whether shards do so at all"""
        said = set(self._met.get(range_, {}))
        if confirms and len(said) == self._shards:
            said = set(self._confirmed_by(range_))
        return sorted(set(range(self._shards)) - said)

    def forget_walks(self, range_: Range) -> None:
        """Let go of what shards found under guesses that count no longer: a round may have many of them."""
        self._walked.pop(range_, None)

    def forget_too_large(self, range_: Range) -> None:
        """Wait for answers that are smaller."""
        self._too_large.discard(range_)

    def forget_before(self, range_: Range) -> None:
        """Let go of what was said of rounds before this one."""
        for kept in (self._met, self._confirmed, self._walked, self._broken):
            for one in [one for one in kept if one.start < range_.start]:
                del kept[one]
        self._too_large = {one for one in self._too_large if one.start >= range_.start}


def confirmed_of(answers: Sequence[Heard], confirmed: Sequence[Heard]) -> list[Meetings]:
    """What all shards met, with what the holders of the entries say of it. Both in the order of the shards."""
    return with_confirms([one.meetings for one in answers], [one.confirms for one in confirmed])


def word_of(answers: Sequence[Heard]) -> int:
    """A word that tells the answers of all shards from others: 64 bits of their checksums."""
    return xxhash.xxh3_64_intdigest(b"".join(one.checksum.to_bytes(8, "little") for one in answers))


def _of_all(by_shard: dict[int, Heard], shards: int) -> list[Heard] | None:
    return [by_shard[number] for number in range(shards)] if len(by_shard) == shards else None
