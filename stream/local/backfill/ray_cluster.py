"""Starts readers and shards as actors on Ray, on this machine or on a cluster, and speaks to them."""

import contextlib
import importlib.util
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import SettingError, SpotsieveError, StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.local.backfill.outcomes import OutcomeStore
from spotsieve.stream.local.backfill.reader import Reader
from spotsieve.stream.local.backfill.schedule import TRIES, Call, LostReader
from spotsieve.stream.local.backfill.shard import FillRecord, RemoteShard, read_confirmed
from spotsieve.stream.sharding.candidates import ShardCandidates
from spotsieve.stream.sharding.hosts import HostResolutions
from spotsieve.stream.sharding.records.frame import ColumnReader, RoundRange, range_of
from spotsieve.stream.sharding.records.shard import read_candidates, read_resolutions
from spotsieve.stream.sharding.rounds import LogPlace, Round
from spotsieve.stream.sharding.shares import Share

_OBJECT_STORE_BYTES = 512 * 2**20
_FILL_BYTES = 8 * 2**20
_STARTS = 2
_LOCAL = "local"
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}


def check_ray() -> None:
    """Raises SettingError where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise SettingError(
            "spotsieve backfill", "runs on Ray, which is not installed", None, "pip install 'spotsieve[ray]'"
        )


@contextlib.contextmanager
def connect_ray(address: str | None, processes: int) -> Iterator[Any]:
    """The module ray, connected to a cluster, or to one of our own on this machine that ends with the context.

    address: of a cluster, as of ray.init; None, "local": this machine  processes: how many actors there will be
    Raises SettingError where the cluster is not reached or has too few CPUs.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)  # What Ray says of its own settings is nothing to act on.
    if address in (None, _LOCAL):
        # Actors are charged a CPU each. They share this machine's, as threads would.
        _start(
            ray, address=_LOCAL, num_cpus=processes, include_dashboard=False, object_store_memory=_OBJECT_STORE_BYTES
        )
    else:
        _join(ray, str(address), processes)
    try:
        yield ray
    finally:
        ray.shutdown()


def _start(ray: Any, **how: object) -> None:
    for attempt in range(_STARTS):
        try:
            ray.init(**_QUIET, **how)
            return
        except Exception as error:  # Ray raises this very class where a machine is too busy to start in 30 s.
            ray.shutdown()
            if attempt + 1 == _STARTS:
                raise SettingError(
                    "Ray",
                    f"did not start on this machine: {_first_line(error)}",
                    None,
                    "run again when it is less busy, or give --address of a cluster",
                ) from None


def _join(ray: Any, address: str, processes: int) -> None:
    try:
        ray.init(address=address, **_QUIET)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SettingError(
            "--address",
            f"must be of a Ray cluster that answers: {_first_line(error)}",
            address,
            "start one with `ray start --head`, or leave --address out",
        ) from None
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if cpus < processes:
        ray.shutdown()
        raise SettingError(
            "--readers and --shards",
            f"must be at most the {cpus} CPUs of the cluster together",
            processes,
            "ask for fewer, or add machines",
        )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _lost(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises where an actor is gone. Where Ray ended it for want of memory, that is a class of its own."""
    return ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError


@contextlib.contextmanager
def _not_of_a_page(ray: Any) -> Iterator[None]:
    """Ray's own errors, and those of a shard that is filled, become a StateError: they must be blamed on no page."""
    try:
        yield
    except ray.exceptions.RayError as error:
        cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
        if isinstance(cause, SpotsieveError):
            raise cause from None
        raise StateError(
            "the shards",
            f"must go on, and Ray says: {type(cause).__name__}: {_first_line(cause)}",
            None,
            "see Ray's logs for why; then run the same command again",
        ) from error


class _RayCall:
    def __init__(self, ray: Any, ref: Any) -> None:
        self._ray, self.ref = ray, ref

    def ready(self) -> bool:
        return bool(self._ray.wait([self.ref], timeout=0)[0])

    def result(self) -> Any:
        try:
            return self._ray.get(self.ref)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except _lost(self._ray) as error:
            raise LostReader from error


class RayReaders:
    """Readers that are actors."""

    def __init__(self, ray: Any, count: int, settings: Settings) -> None:
        self.count = count
        self._ray, self._settings = ray, settings
        self._actor_class = ray.remote(Reader)
        self.actors = [self._new() for _ in range(count)]

    def _new(self) -> Any:
        return self._actor_class.options(num_cpus=1, scheduling_strategy="SPREAD").remote(self._settings)

    def call(self, reader: int, method: str, *arguments: object) -> Call:
        return _RayCall(self._ray, getattr(self.actors[reader], method).remote(*arguments))

    def renew(self, reader: int) -> None:
        self.actors[reader] = self._new()

    def wait(self, calls: Sequence[Call], seconds: float) -> None:
        refs = [call.ref for call in calls if isinstance(call, _RayCall)]
        if refs:
            self._ray.wait(refs, timeout=seconds)


class RayShards:
    """Shards that are actors, with their states in memory. One that is lost is filled again from log and outcomes."""

    def __init__(
        self,
        ray: Any,
        count: int,
        settings: Settings,
        state: State,
        log: LocalLog,
        outcomes: OutcomeStore,
        tell: Callable[[str], None],
    ) -> None:
        """Fill them with what the log has. Raises StateError where the outcomes of some of it are not kept.

        tell: called with what a person should know of a shard that is lost
        """
        self.count, self._tell = count, tell
        self._ray, self._settings, self._state, self._log, self._outcomes = ray, settings, state, log, outcomes
        self._actor_class = ray.remote(RemoteShard)
        self.actors = [self._new(number) for number in range(count)]
        with _not_of_a_page(ray):
            self._fill(self.actors)

    def answer(self, round_: Round, record: bytes) -> list[ShardCandidates]:
        self._record = self._put(record)
        range_ = range_of(round_)
        self._shard_candidates = self._of_all(lambda actor: actor.answer.remote(self._record, range_, round_.excluded))
        return [read_candidates(ColumnReader(one), range_.first_number) for one in self._shard_candidates]

    def confirm(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> list[ShardCandidates]:  # noqa: ARG002 - these are told as bytes
        range_ = range_of(round_)
        self._met = [self._put(one) for one in self._shard_candidates]
        self._confirms = self._of_all(
            lambda actor: actor.confirm.remote(self._record, range_, round_.excluded, *self._met)
        )
        return read_confirmed(self._shard_candidates, self._confirms, range_.first_number)

    def walk(
        self,
        round_: Round,
        shard_candidates: Sequence[ShardCandidates],  # noqa: ARG002 - the actors have them as bytes
        speculation: NDArray[np.bool_],
    ) -> list[HostResolutions]:
        range_, told = range_of(round_), [*self._met, *map(self._put, self._confirms)]
        walks = self._of_all(lambda actor: actor.walk.remote(self._record, range_, round_.excluded, speculation, *told))
        return [read_resolutions(ColumnReader(one), range_.first_number)[0] for one in walks]

    def file(self, range_: RoundRange, outcome: bytes) -> None:
        told = self._put(outcome)
        self._of_all(lambda actor: actor.file.remote(self._record, range_, told))

    def _new(self, number: int) -> Any:
        options = self._actor_class.options(num_cpus=1, scheduling_strategy="SPREAD")
        return options.remote(self._settings, Share(number, self.count))

    def _of_all(self, call: Callable[[Any], Any]) -> list[Any]:
        """What comes of a call to each shard. Raises what the shard raised, and StateError."""
        with _not_of_a_page(self._ray):
            refs = [call(actor) for actor in self.actors]
            return [self._result(number, call, ref) for number, ref in enumerate(refs)]

    def _put(self, told: object) -> Any:
        """Where all shards find it. Raises StateError."""
        with _not_of_a_page(self._ray):
            return self._ray.put(told)

    def _result(self, number: int, call: Callable[[Any], Any], ref: Any) -> Any:
        """What comes of a call to this shard. One that is lost is renewed, and asked again."""
        for left in reversed(range(TRIES)):
            try:
                return self._ray.get(ref)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except _lost(self._ray):
                if not left:
                    raise StateError(
                        f"shard {number}",
                        f"must live, and was lost {TRIES} times in one round",
                        None,
                        "see Ray's logs for why: more memory, or more --shards; then run the same command again",
                    ) from None
                self._tell(f"shard {number} is lost, and another one is filled from the log in its place")
                self.actors[number] = self._new(number)
                self._fill([self.actors[number]])
                ref = call(self.actors[number])
        raise AssertionError

    def _fill(self, actors: Sequence[Any]) -> None:
        """Have shards that are new file all that is judged."""
        parts, size, sent = list[FillRecord](), 0, list[Any]()
        for entered in fill_records(self._log, self._outcomes, self._state.position):
            parts.append(entered)
            size += len(entered.record)
            if size > _FILL_BYTES:
                # Two parts on their way: memory stays bounded, and no shard waits for us.
                self._ray.get(sent[: -len(actors)])
                sent, parts, size = sent[-len(actors) :] + self._send(actors, parts), [], 0
        self._ray.get(sent + self._send(actors, parts))

    def _send(self, actors: Sequence[Any], parts: list[FillRecord]) -> list[Any]:
        told = self._put(parts)
        return [actor.fill.remote(told) for actor in actors]


def fill_records(log: LocalLog, outcomes: OutcomeStore, position: int) -> Iterator[FillRecord]:
    """The records of a log up to the last round that is judged, with the outcomes of their rounds.

    position: of the state beside. Raises StateError where the outcomes of pages before it are not kept.
    """
    rounds = outcomes.read_from(0)
    coming = next(rounds, None)
    for offset, record in log.read_from(0):
        found = list[tuple[RoundRange, bytes]]()
        at, end = LogPlace(offset, 0), LogPlace(offset + 1, 0)
        has_pages = len(decode(record).signatures) > 0
        while has_pages and at < end and coming is not None and coming.range.start == at:
            found.append((coming.range, coming.body))
            at, coming = coming.range.end, next(rounds, None)
        if found or not has_pages:
            yield FillRecord(offset, record, tuple(found))
        if has_pages and at < end:
            if offset >= position:
                return  # A run was killed before it had judged this record.
            raise StateError(
                "--shards",
                "must be 1 with a state whose pages were not all judged by backfills with shards",
                str(log.path.parent),
                "leave --shards out, or name a new --state",
            )
