"""Runs a shard: performs the actions of its steps (stream/sharding/shard_steps.py) on Kafka and on its state."""

import asyncio
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from aiokafka.errors import KafkaError

from spotsieve.state.directory import INDEX_FOLDER, MANIFEST_FILE, made_beside, make_directory, open_file
from spotsieve.state.format.meta import LogIdentity, StatePart
from spotsieve.state.portable.merging import snapshots_in, split_off
from spotsieve.state.snapshot.checkpoints import Requests, outcome_of
from spotsieve.state.snapshot.snapshots import copy_path, read_manifest
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.digest import digest_of_settings, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.tasks import race
from spotsieve.stream.files.remote import RemoteFile, is_url, local_name, shown_url
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.follower import CatchUp
from spotsieve.stream.service.log.skips import first_identity
from spotsieve.stream.service.log.writer import RecordWriter
from spotsieve.stream.service.roles.log_records import LogRecords
from spotsieve.stream.service.roles.role import (
    Role,
    compile_rounds,
    drive,
    encode_draft,
    log_note,
    log_poison_pages,
    present,
)
from spotsieve.stream.service.roles.round_messages import RoundReader, find_end
from spotsieve.stream.service.roles.shard.work import ShardWork
from spotsieve.stream.service.run import ProcessState
from spotsieve.stream.service.serial_executor import SerialExecutor
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.records.resolver import error_texts
from spotsieve.stream.sharding.rounds import limits_in_shards
from spotsieve.stream.sharding.shard_steps import (
    Confirm,
    CutRound,
    FindCandidates,
    IndexOutcome,
    Place,
    PoisonTexts,
    PresentSize,
    ResolveHosts,
    SeekVerdicts,
    Send,
    ShardSteps,
    VerdictsPosition,
)
from spotsieve.stream.sharding.shares import ClusterSize, Share
from spotsieve.stream.sharding.steps import (
    Action,
    Draft,
    Fetch,
    LogUntil,
    MatchesSpans,
    Note,
    Now,
    SeekMatches,
    VerdictsSpan,
)
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

SIZE_SECONDS = 3.0
"""How often a shard that fills its state, or catches up, reads the number of shards at the end of `verdicts`."""


def open_shard(settings: Settings, share: Share) -> ProcessState:
    """Open a shard over its own state directory. Raises SpotsieveError."""
    scheme = scheme_in_scope(settings)
    compile_rounds(scheme, limits_in_shards(settings, scheme))
    state = open_state(settings, share)
    work = ShardWork(settings, scheme, state, share)

    def begin(_: object, metrics: Metrics, heartbeats: Heartbeats) -> ShardRole:
        shard = ShardRole(settings, share, scheme.host_thresholds is not None, state, work, metrics, heartbeats)
        metrics.role.labels("shard", str(share.number)).set_function(lambda: float(shard.works()))
        metrics.log_position.set(state.position)
        return shard

    return ProcessState(state, begin)


def read_log_identity(settings: Settings) -> LogIdentity | None:
    """The log of the service; None if it has no first record. Raises BrokerError, BrokerTrouble."""
    return asyncio.run(first_identity(settings))


def open_state(settings: Settings, share: Share) -> State:
    """Open the state of a shard. A state without rounds is made from cluster.snapshots. Raises SpotsieveError.

    A shard that found neither snapshots nor all records of the topics left such a state.
    """
    index = settings.index
    identity = index.directory, verdict_settings_text(settings), settings.topics.log, index, StatePart(*share)
    state = disk_state(*identity)
    if not settings.cluster.snapshots or state.last_outcome is not None or state.position:
        return state
    state.close()
    shutil.rmtree(index.directory / INDEX_FOLDER)
    begin_from_snapshots(settings, share)
    return disk_state(*identity)


def begin_from_snapshots(settings: Settings, share: Share) -> None:
    """Make the state of a new shard from cluster.snapshots; nothing if there are none. Raises SpotsieveError."""
    directory, name, number = settings.index.directory, settings.cluster.snapshots, StatePart(*share)
    with ExitStack() as stack:
        if is_url(name):
            folder = stack.enter_context(made_beside(directory, ".snapshots-partial"))
            snapshots = _fetch_snapshots(name, folder)
        else:
            snapshots = snapshots_in(Path(local_name(name)))
        if not snapshots:
            logger().info("no snapshots to begin from; this shard begins from the topics", snapshots=shown_url(name))
            return
        log, text = read_log_identity(settings), verdict_settings_text(settings)
        counts = split_off(snapshots, number, text, settings.topics.log, directory, log)
    logger().info(
        "began from snapshots of all shards",
        snapshots=shown_url(name),
        shards=counts.shards,
        log_position=counts.log_position,
        entries=counts.entries,
    )


def _fetch_snapshots(url: str, folder: Path) -> list[Path]:
    """Copy the snapshots at a URL into a folder, and return them. Raises StateError, CorruptRecord."""
    manifests = RemoteFile(f"{url.rstrip('/')}/*/{MANIFEST_FILE}", StateError).expand(needed=False)
    for number, manifest in enumerate(manifests):
        snapshot, base = folder / f"snapshot-{number}", manifest.removesuffix(MANIFEST_FILE)
        make_directory(snapshot)
        _fetch(manifest, snapshot / MANIFEST_FILE)
        for facts in read_manifest(snapshot).files:
            _fetch(base + facts.name, copy_path(snapshot, facts, shown_url(base)))
    return snapshots_in(folder)


def _fetch(url: str, copy: Path) -> None:
    with closing(RemoteFile(url, StateError).open_to_read()) as source, open_file(copy, "wb") as into:
        shutil.copyfileobj(source, into)


class ShardRole(Role):
    """One shard with one set of Kafka clients."""

    def __init__(
        self,
        settings: Settings,
        share: Share,
        by_host: bool,
        state: State,
        work: ShardWork,
        metrics: Metrics,
        heartbeats: Heartbeats,
    ) -> None:
        """by_host: whether shards resolve the pages of their hosts, because the scheme has a host memory"""
        super().__init__(settings, metrics)
        self._share, self._state, self._work = share, state, work
        self._digest = digest_of_settings(settings)
        self._requests = Requests(settings.index.directory, state)
        self._log = LogRecords(settings, metrics, self._waits)
        self._rounds = RoundReader(settings, self._waits, share.shards)
        self._ends = RoundReader(settings, self._waits, share.shards)
        self._sending = RecordWriter(settings, self._waits, lambda: 0, "matches", share.number)
        self._steps = ShardSteps(share, by_host, settings.topics.verdicts, LOG_RECORD_BYTES)
        self._size, self._sized = ClusterSize(), float("-inf")
        self._working = SerialExecutor("shard", heartbeats)
        self._catching_up: CatchUp | None = None

    async def _start(self) -> None:
        state = self._state
        try:
            await self._sending.start()
            await self._rounds.start()
            await self._ends.start()
            identity = state.identity.log_identity
            found = await self._log.start(state.position, state.pages_applied, state.last_record, identity)
            if found is not None:
                state.adopt(found)
            self._rounds.log = self._ends.log = state.identity.log_identity
            await self._rounds.check_last()
            self._catching_up = CatchUp(state.position, await self._log.end())
            await drive(self._steps.start(state.last_outcome), self._perform)
        except KafkaError as error:
            raise final_error(error, self._settings, "starting the shard") from None
        self._catching_up.done()
        self._catching_up = None

    async def _work_on(self) -> None:
        following = self._log.follow(2 * self._settings.cluster.round_pages)
        await race(following, self._read_ahead(), drive(self._steps.work(), self._perform))

    async def _read_ahead(self) -> None:
        """Prefetch the buckets of log records while earlier rounds are in progress. Never returns."""
        offset = 0
        while True:
            offset, record = await self._log.first_from(offset)
            if self._steps.prefetches(offset, record):
                with self._metrics.timed("prefetch"):
                    await self._working.do(self._work.read_ahead, offset, record)
            offset += 1

    async def _perform(self, action: Action[Any]) -> Any:
        """Perform an action of the steps. Returns its result."""
        match action:
            case Fetch():
                return await self._fetch()
            case Now():
                return present()
            case CutRound(opened):
                return await self._working.do(self._work.cut, opened, list(self._log.records))
            case FindCandidates(round_):
                with self._metrics.timed("find_candidates"):
                    return await self._working.do(self._work.find_candidates, round_)
            case Confirm(round_, reads, responses):
                with self._metrics.timed("confirm"):
                    return await self._working.do(self._work.confirm, round_, reads, responses)
            case ResolveHosts(round_, reads, responses, confirmed, speculation):
                with self._metrics.timed("resolve_hosts"):
                    return await self._working.do(
                        self._work.resolve_hosts, round_, reads, responses, confirmed, speculation
                    )
            case IndexOutcome():
                return await self._index(action)
            case Send(draft):
                return await self._send(draft)
            case PoisonTexts(round_, errors):
                log_poison_pages(round_, errors)
                return error_texts(errors)
            case LogUntil(end):
                return await self._log.until(end)
            case Note():
                return log_note(action)
        return await self._look(action)

    async def _look(self, action: Action[Any]) -> Any:
        """Perform an action about positions and ends of topics. Returns its result."""
        match action:
            case SeekVerdicts(offset):
                return self._rounds.seek_verdicts(offset)
            case SeekMatches(offsets):
                return self._rounds.seek_matches(offsets)
            case VerdictsPosition():
                return await self._rounds.verdicts_position()
            case VerdictsSpan():
                return await self._rounds.verdicts_span()
            case MatchesSpans():
                return await self._rounds.matches_spans()
            case PresentSize():
                return await self._present_size()
            case Place():
                return self._work.here()
        raise AssertionError(action)

    async def _fetch(self) -> Sequence[RoundMessage]:
        if self._requests.waiting():
            await self._working.do(self._requests.answer)
        messages = await self._rounds.fetch()
        if messages and self._state.identity.log_identity is None:  # The log was empty when this shard started.
            await self._working.do(self._state.adopt, await self._rounds.identify())
        return messages

    async def _present_size(self) -> ClusterSize:
        if time.monotonic() - self._sized >= SIZE_SECONDS:
            self._size = (await find_end(self._ends, self._settings.topics.verdicts)).cluster_size
            self._sized = time.monotonic()
        return self._size

    async def _send(self, draft: Draft) -> int:
        """Write a record to the shard's partition of `matches`. Returns its offset."""
        log = await self._rounds.identify()
        return await self._sending.write(encode_draft(draft, self._digest, log, self._share.number))

    async def _index(self, action: IndexOutcome) -> None:
        """Index the outcome of a round."""
        before, last_outcome = self._state.position, outcome_of(self._state)
        with self._metrics.timed("index"):
            await self._working.do(self._work.index, action.round, action.reads, action.outcome)
        if self._requests.waiting():
            await self._working.do(self._requests.answer, last_outcome)
        self._log.drop_before(self._state.position)
        self._metrics.log_position.set(self._state.position)
        self._metrics.rounds.inc()
        if self._catching_up is not None:
            self._catching_up.applied(self._state.position, self._state.position - before, 0)
            self.step = self._catching_up.text()

    async def _close(self) -> None:
        await self._rounds.close()
        await self._ends.close()
        await self._log.close()
        await self._sending.close()
        await self._working.close()
