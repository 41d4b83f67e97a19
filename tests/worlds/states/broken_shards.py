"""Runs shards and a resolver over a log while poison pages break their code, in one process, without a broker."""

import random
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

import pytest

from spotsieve.state.horizon import step_of
from spotsieve.state.log.record import decode
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.stream import engine
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import Signatures, SignatureStatus, page_ids_of
from spotsieve.stream.base.verdict import Verdicts, concatenate
from spotsieve.stream.service.roles.resolver import work as of_resolver
from spotsieve.stream.service.roles.resolver.work import ResolveResult, ResolverWork
from spotsieve.stream.service.roles.responses import poison_body
from spotsieve.stream.service.roles.round_messages import RoundMessage
from spotsieve.stream.service.roles.shard import work as of_shard
from spotsieve.stream.service.roles.shard.work import ShardResponse, ShardWork
from spotsieve.stream.sharding.isolation import exclude_pages
from spotsieve.stream.sharding.keys import ShardReads
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RESOLUTIONS,
    decode_round_record,
    encode_round_record,
    range_of,
)
from spotsieve.stream.sharding.records.resolver import error_texts
from spotsieve.stream.sharding.rounds import Round, next_round
from spotsieve.stream.sharding.shares import Share
from tests.worlds.states.shards import DIGEST, OneProcess

OF_SHARD, OF_RESOLVER = (
    ("find_shard_candidates", "confirm", "resolve_hosts"),
    ("resolve", "check_speculation", "merge_resolutions"),
)
Places = Sequence[tuple[ModuleType, Sequence[str]]]
OF_ROLES: Places = ((of_shard, OF_SHARD), (of_resolver, OF_RESOLVER))
STEPS, STEPS_WITH_HOSTS = (
    ("find_shard_candidates", "resolve"),
    ("find_shard_candidates", "confirm", "resolve_hosts", "check_speculation", "merge_resolutions"),
)
"""The steps of a round that raise errors here; schemes with host memories have more."""


class Defect(RuntimeError):
    """An unforeseen error."""


class Breaking:
    """Poison pages and the step that each one breaks. Steps of shards break in one shard, others in the resolver."""

    def __init__(self, pages: Mapping[PageId, tuple[str, int]]) -> None:
        """pages: id -> (name of the step, number of the shard)"""
        self.pages = pages

    def patch(self, patch: pytest.MonkeyPatch, places: Places = OF_ROLES) -> None:
        """Break the steps of shards and resolver, and the single-process judge, on all of these pages.

        places: the modules that call these steps
        """
        for module, steps in places:
            for step in steps:
                patch.setattr(module, step, self._broken(step, getattr(module, step)))

        whole = vars(engine)["judge_record"]

        def judge_record(signatures: Signatures, *arguments: Any, **named: Any) -> Any:
            self._look(signatures, lambda _step, _shard: True)
            return whole(signatures, *arguments, **named)

        patch.setattr(engine, "judge_record", judge_record)

    def _broken(self, step: str, whole: Callable[..., Any]) -> Callable[..., Any]:
        def broken(*arguments: Any) -> Any:
            signatures = arguments[0].signatures if isinstance(arguments[0], Round) else arguments[0]
            shares = [one for one in arguments if isinstance(one, Share)]
            here = shares[0] if shares else Share(0, 1)
            self._look(signatures, lambda at, shard: at == step and shard % here.shards == here.number)
            return whole(*arguments)

        return broken

    def _look(self, signatures: Signatures, breaks: Callable[[str, int], bool]) -> None:
        for page_id, status in zip(page_ids_of(signatures), signatures.status.tolist(), strict=True):
            if status != SignatureStatus.EMPTY and page_id in self.pages and breaks(*self.pages[page_id]):
                raise Defect(f"{page_id[2]}: {self.pages[page_id]}")


class WorkingShards:
    """S shards and a resolver, with the work of their roles. Some responses from before a page broke are kept."""

    def __init__(self, one: OneProcess, shards: int, dice: random.Random) -> None:
        self._one, self._dice = one, dice
        self._shares = [Share(number, shards) for number in range(shards)]
        self.states, self._works = self._anew()
        self._resolver = ResolverWork(one.settings, one.scheme)
        self._clock, self._next_number = self.states[0].clock, 0
        self._history: list[tuple[Round, RoundMessage]] = []
        self.sparings = 0

    def apply(self, log: Sequence[bytes], sizes: Sequence[int]) -> Verdicts:
        """Judge and index a log of pages in rounds of any of these sizes."""
        records = [(offset, decode(record)) for offset, record in enumerate(log)]
        step_ms = step_of(self._one.settings.index.horizon_hours)
        at, page, found = 0, 0, list[Verdicts]()
        while at < len(records):
            most = self._dice.choice(sizes)
            round_ = next_round(records[at:], page, self._clock, self._next_number, step_ms, most)
            outcome, round_, held = self._judge(round_)
            for work, one in zip(self._works, held, strict=True):
                work.file(round_, one, outcome)
            resolved = outcome.outcome()
            self._history.append((round_, outcome))
            self._clock, self._next_number = round_.clock, resolved.next_number
            found.append(resolved.verdicts)
            at, page = round_.end
        return concatenate(found)

    def rebuilt(self) -> list[State]:
        """The states of shards that file all rounds without judging."""
        states, works = self._anew()
        for round_, outcome in self._history:
            for work in works:
                work.file(round_, None, outcome)
        return states

    def _anew(self) -> tuple[list[State], list[ShardWork]]:
        states = [memory_state() for _ in self._shares]
        pairs = zip(states, self._shares, strict=True)
        return states, [
            ShardWork(self._one.settings, self._one.scheme, cast("Any", one), share) for one, share in pairs
        ]

    def _judge(self, round_: Round) -> tuple[RoundMessage, Round, list[ShardReads]]:
        """Try again after each defect, each time without more pages."""
        kept: dict[int, tuple[ShardReads, RoundMessage]] = {}
        while True:
            outcome, broken, held = self._attempt(round_, kept)
            if outcome is not None:
                return self._told(round_, KIND_OUTCOME, self._shares[0], outcome.body), round_, held
            # All others read what the resolver publishes about it.
            said = self._told(
                round_, KIND_POISON_ROWS, self._shares[0], poison_body(round_, error_texts(broken))
            ).broken()
            assert all("Defect" in text for text in said.errors.values())
            assert not set(said.errors) & set(round_.excluded), "no page is spared twice"
            round_, self.sparings = exclude_pages(round_, said.errors), self.sparings + 1
            # A shard may respond that has responded before: its old response for that page must not count.
            kept = {number: one for number, one in kept.items() if self._dice.random() < 0.5}

    def _attempt(
        self, round_: Round, kept: dict[int, tuple[ShardReads, RoundMessage]]
    ) -> tuple[ResolveResult | None, Mapping[int, Exception], list[ShardReads]]:
        """The outcome, or the errors of the poison pages; and the buckets that the shards have read for it."""
        for work, share in zip(self._works, self._shares, strict=True):
            if share.number not in kept:
                said = work.answer(round_)
                if said.broken:
                    return None, said.broken, []
                kept[share.number] = said.held, self._told(round_, KIND_CANDIDATES, share, said.body)
        answers = [kept[share.number][1] for share in self._shares]
        # A shard that responds again reads its part of the round again.
        held = [work.answer(round_).held if round_.excluded else kept[n][0] for n, work in enumerate(self._works)]
        confirmed = list[RoundMessage]()
        for work, share, one in zip(self._works, self._shares, held if self._resolver.walks else (), strict=False):
            confirm = work.confirm(round_, one, answers)
            if confirm.broken:
                return None, confirm.broken, []
            confirmed.append(self._told(round_, KIND_CONFIRMATIONS, share, confirm.body))
        shard_candidates = self._resolver.shard_candidates(round_, answers, confirmed or None)
        if not self._resolver.walks:
            outcome = self._resolver.resolve(round_, shard_candidates)
            return (None, outcome.broken, []) if outcome.broken else (outcome, {}, held)
        speculation = self._resolver.first_speculation(round_, shard_candidates)
        while True:
            resolution: dict[int, list[RoundMessage]] = {}
            for work, share, one in zip(self._works, self._shares, held, strict=True):
                walk: ShardResponse = work.walk(round_, one, answers, confirmed, speculation)
                if walk.broken:
                    return None, walk.broken, []
                resolution[share.number] = [self._told(round_, KIND_RESOLUTIONS, share, walk.body)]
            of_all = self._resolver.resolution(round_, resolution, speculation)
            walks = [of_all[share.number] for share in self._shares]
            outcome = self._resolver.resolve_walks(round_, shard_candidates, walks, speculation)
            if outcome.broken:
                return None, outcome.broken, []
            if outcome.speculation is None:
                return outcome, {}, held
            speculation = outcome.speculation

    def _told(self, round_: Round, kind: int, share: Share, body: bytes) -> RoundMessage:
        record = encode_round_record(kind, DIGEST, share, range_of(round_), body)
        told = decode_round_record(record, DIGEST, len(self._shares), "topic", 0)
        return RoundMessage(told, "topic", len(self._history), int.from_bytes(record[-8:], "little"))
