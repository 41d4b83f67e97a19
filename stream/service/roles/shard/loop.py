"""Runs a shard: it responds to rounds of the resolver from its part of the state, and indexes their outcomes."""

from dataclasses import dataclass

from aiokafka.errors import KafkaError

from spotsieve.state.format.meta import StatePart
from spotsieve.state.snapshot.checkpoints import Requests
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.tasks import race
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.follower import CatchUp
from spotsieve.stream.service.log.writer import RecordWriter
from spotsieve.stream.service.roles.log_records import LogRecords, has_pages
from spotsieve.stream.service.roles.responses import ShardResponses, combined_checksum, find_poison_pages, poison_body
from spotsieve.stream.service.roles.role import Role, compile_rounds
from spotsieve.stream.service.roles.round_messages import (
    MAKE_ANEW,
    RoundMessage,
    RoundReader,
    find_end,
    response_offsets,
)
from spotsieve.stream.service.roles.shard.catch_up import FillReporter, check_wanted, go_on
from spotsieve.stream.service.roles.shard.work import ShardResponse, ShardWork
from spotsieve.stream.service.run import ProcessState
from spotsieve.stream.service.serial_executor import SerialExecutor
from spotsieve.stream.sharding.candidates import Speculation
from spotsieve.stream.sharding.isolation import exclude_pages
from spotsieve.stream.sharding.keys import ShardReads
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_OUTCOME,
    KIND_POISON_ROWS,
    KIND_RANGE,
    KIND_RESOLUTIONS,
    KIND_SPECULATION,
    KIND_TOO_LARGE,
    RoundRange,
    encode_round_record,
)
from spotsieve.stream.sharding.records.resolver import RoundAnnouncement
from spotsieve.stream.sharding.rounds import LogPlace, Round, limits_in_shards
from spotsieve.stream.sharding.shares import ClusterSize, Share
from spotsieve.stream.sign.schemes.registry import scheme_in_scope


@dataclass(slots=True)
class _OpenRound:
    """An announced round without an outcome.

    excluded: rows of poison pages, which the round continues without
    round, held: set once the shard has responded
    speculation: from the resolver, or None for the first speculation
    confirmed: combined checksum of the candidates that this shard has confirmed
    resolution: whether the shard has sent its resolution under the present speculation
    refused: the shard has reported poison pages or a response that is too large, and waits for the resolver
    """

    range: RoundRange
    named: RoundAnnouncement
    excluded: tuple[int, ...] = ()
    round: Round | None = None
    held: ShardReads | None = None
    speculation: Speculation | None = None
    confirmed: int | None = None
    resolution: bool = False
    refused: bool = False


def open_shard(settings: Settings, share: Share) -> ProcessState:
    """Open a shard over its own state directory. Raises SpotsieveError."""
    text, scheme = verdict_settings_text(settings), scheme_in_scope(settings)
    index = settings.index
    compile_rounds(scheme, limits_in_shards(settings, scheme))
    state = disk_state(index.directory, text, settings.topics.log, index, StatePart(*share))
    work = ShardWork(settings, scheme, state, share)

    def begin(_: object, metrics: Metrics, heartbeats: Heartbeats) -> ShardRole:
        shard = ShardRole(settings, share, scheme.bars is not None, state, work, metrics, heartbeats)
        metrics.role.labels("shard", str(share.number)).set_function(lambda: float(shard.works()))
        metrics.log_position.set(state.position)
        return shard

    return ProcessState(state, begin)


class ShardRole(Role):
    """One shard with one set of Kafka clients."""

    def __init__(
        self,
        settings: Settings,
        share: Share,
        walks: bool,
        state: State,
        work: ShardWork,
        metrics: Metrics,
        heartbeats: Heartbeats,
    ) -> None:
        """walks: whether shards resolve the pages of their hosts, because the scheme has a host memory"""
        super().__init__(settings, metrics)
        self._share, self._walks, self._state, self._work = share, walks, state, work
        self._digest = settings_digest(verdict_settings_text(settings))
        self._requests = Requests(settings.index.directory, state)
        self._log = LogRecords(settings, metrics, self._waits)
        self._rounds = RoundReader(settings, self._waits, share.shards)
        self._sending = RecordWriter(settings, self._waits, lambda: 0, "matches", share.number)
        self._answers = ShardResponses(share.shards)
        self._filling = FillReporter(share, self._digest, self._rounds, self._sending)
        self._cluster_size = ClusterSize()
        self._listening = False
        self._open: _OpenRound | None = None
        self._working = SerialExecutor("shard", heartbeats)

    async def _start(self) -> None:
        state = self._state
        try:
            await self._sending.start()
            await self._rounds.start()
            known = state.identity.log_identity
            found = await self._log.start(state.position, state.pages_applied, state.last_record, known)
            if found is not None:
                state.adopt(found)
            self._rounds.log = state.identity.log_identity
            await self._rounds.check_last()
            begin, end = await self._rounds.verdicts_span()
            now = (await find_end(self._rounds, self._settings.topics.verdicts)).cluster_size
        except KafkaError as error:
            raise final_error(error, self._settings, "starting the shard") from None
        check_wanted(self._share, now, state.heard is None)
        await go_on(self._rounds, state.heard, self._settings.topics.verdicts, begin, end)
        catching_up = CatchUp(state.position, await self._log.end())
        while await self._rounds.verdicts_position() < end:
            before = state.position
            await self._hear()
            catching_up.applied(state.position, state.position - before, 0)
            self.step = catching_up.text()
        catching_up.done()
        # The records after the state's position may not include the number of shards; the end of the topic does.
        self._cluster_size = self._cluster_size if self._cluster_size.shards else now
        if self._fills:
            logger().info(
                "this shard still fills its state and does not respond to rounds yet",
                shards=self._share.shards,
                answering=now.shards,
            )

    @property
    def _fills(self) -> bool:
        """Whether this shard only indexes, while other shards respond to rounds."""
        return self._cluster_size.shards not in (0, self._share.shards)

    async def _listen(self) -> None:
        """Begin to read the responses of all shards, from the first open round on that this shard responds to.

        The announcement of the round has their first offsets. From later offsets, a quick response would be missed.
        """
        opened = self._open
        if self._listening or opened is None:
            return
        self._listening, answers = True, opened.named.answers
        spans = await self._rounds.matches_spans()
        known = response_offsets(answers, spans)
        self._rounds.seek_matches([*known, *(begin for begin, _ in spans[len(known) :])])

    async def _tell_filled(self) -> None:
        state, clock = self._state, self._state.clock
        place = LogPlace(state.position, state.pages_applied)
        await self._filling.tell(RoundRange(place, place, state.entry_count, clock.floor, clock.watermark_ms))

    async def _work_on(self) -> None:
        following = self._log.follow(2 * self._settings.cluster.round_pages)
        await race(following, self._read_ahead(), self._go_through_rounds())

    async def _read_ahead(self) -> None:
        """Prefetch the buckets of log records while earlier rounds are in progress. Never returns."""
        offset = 0
        while True:
            offset, record = await self._log.first_from(offset)
            opened = self._open
            is_answered = opened is not None and opened.held is not None and offset < opened.range.end.record
            if has_pages(record) and not is_answered and not self._fills:
                with self._metrics.timed("ahead"):
                    await self._working.do(self._work.read_ahead, offset, record)
            offset += 1

    async def _go_through_rounds(self) -> None:
        while True:
            if self._fills:
                await self._tell_filled()
            else:
                await self._listen()
                await self._answer()
            before, filled = self._cluster_size, self._fills
            await self._hear()
            check_wanted(self._share, self._cluster_size, not before.shards)
            if filled and not self._fills:
                logger().info("this shard responds to rounds from now on", shards=self._share.shards)

    async def _hear(self) -> None:
        """Process the records since the last call."""
        if self._requests.waiting():
            await self._working.do(self._requests.answer)
        messages = await self._rounds.fetch()
        if messages and self._state.identity.log_identity is None:  # The log was empty when this shard started.
            await self._working.do(self._state.adopt, await self._rounds.identify())
        for message in messages:
            record = message.told
            if message.topic != self._settings.topics.verdicts:
                if record.kind != KIND_RESOLUTIONS:  # Resolutions are for the resolver.
                    self._answers.add(message)
                continue
            self._cluster_size = message.cluster_size(self._cluster_size)
            if record.kind == KIND_RANGE:
                self._open = _OpenRound(record.range, message.named())
                self._answers.forget_before(record.range)
            elif record.kind == KIND_POISON_ROWS and self._open is not None and record.range == self._open.range:
                self._open = _OpenRound(record.range, self._open.named, tuple(message.broken().errors))
            elif record.kind == KIND_SPECULATION and self._open is not None and record.range == self._open.range:
                self._open.speculation, self._open.resolution = message.speculation(), False
            elif record.kind == KIND_OUTCOME:
                await self._file(message)
                if self._fills:
                    await self._tell_filled()

    async def _answer(self) -> None:
        """Send the responses to the open round that are possible by now."""
        opened = self._open
        if opened is None or opened.refused:
            return
        if opened.held is None:
            round_ = await self._cut(opened)
            with self._metrics.timed("answer"):
                response = await self._working.do(self._work.answer, round_)
            if not await self._say(opened, round_, KIND_CANDIDATES, response):
                return
            opened.held = response.held
        answers = self._answers.met(opened.range)
        if not self._walks or answers is None or opened.round is None:
            return
        if opened.confirmed != combined_checksum(answers):
            with self._metrics.timed("confirm"):
                response = await self._working.do(self._work.confirm, opened.round, opened.held, answers)
            if not await self._say(opened, opened.round, KIND_CONFIRMATIONS, response):
                return
            opened.confirmed = combined_checksum(answers)
        confirmed = self._answers.confirmed(opened.range)
        if confirmed is not None and not opened.resolution:
            with self._metrics.timed("walk"):
                response = await self._working.do(
                    self._work.walk, opened.round, opened.held, answers, confirmed, opened.speculation
                )
            opened.resolution = True
            await self._say(opened, opened.round, KIND_RESOLUTIONS, response)

    async def _cut(self, opened: _OpenRound) -> Round:
        end = opened.range.end
        await self._log.until(end.record + (end.page > 0))
        round_ = opened.round
        if round_ is None:
            round_ = await self._working.do(self._work.cut, opened.range, opened.named, list(self._log.held))
            opened.round = round_ = exclude_pages(round_, opened.excluded)
        return round_

    async def _say(self, opened: _OpenRound, round_: Round, kind: int, response: ShardResponse) -> bool:
        """Send a response, or the reason why there is none: poison pages, or its size. Returns whether it was sent.

        The resolver then excludes the poison pages from the round, or announces a smaller round.
        """
        if response.broken:
            kind, body = KIND_POISON_ROWS, poison_body(round_, find_poison_pages(round_, response.broken))
        else:
            body = response.body
        log = await self._rounds.identify()
        record = encode_round_record(kind, self._digest, self._share, opened.range, body, log)
        if len(record) > LOG_RECORD_BYTES:
            kind = KIND_TOO_LARGE
            record = encode_round_record(kind, self._digest, self._share, opened.range, b"", log)
        opened.refused = kind in (KIND_POISON_ROWS, KIND_TOO_LARGE)
        await self._sending.write(record)
        return not opened.refused

    async def _file(self, outcome: RoundMessage) -> None:
        """Index the outcome of the open round. Raises StateError if it belongs to another round."""
        opened = self._open
        if opened is None or opened.range != outcome.told.range:
            raise StateError(
                f"topics.verdicts[{outcome.offset}]",
                "is not the outcome of the round that was announced before it",
                None,
                f"restore the topic; or {MAKE_ANEW}",
            )
        round_ = await self._cut(opened)
        with self._metrics.timed("file"):
            await self._working.do(self._work.file, round_, opened.held, outcome)
        self._open = None
        self._log.drop_before(self._state.position)
        self._metrics.log_position.set(self._state.position)
        self._metrics.rounds.inc()

    async def _close(self) -> None:
        await self._rounds.close()
        await self._log.close()
        await self._sending.close()
        await self._working.close()
