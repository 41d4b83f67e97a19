"""Readers and shards as actors on Ray, on this machine or on a cluster."""

import contextlib
import importlib.util
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import SettingError, SpotsieveError, StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.local.backfill.outcomes import OutcomeStore
from spotsieve.stream.local.backfill.reader import Reader
from spotsieve.stream.local.backfill.schedule import TRIES, Call, LostReader
from spotsieve.stream.local.backfill.shard import FillRecord, RemoteShard, read_confirmed
from spotsieve.stream.sharding.candidates import ShardCandidates, Speculation
from spotsieve.stream.sharding.hosts import HostResolutions
from spotsieve.stream.sharding.records.frame import ColumnReader, RoundRange, range_of
from spotsieve.stream.sharding.records.shard import read_candidates, read_resolutions
from spotsieve.stream.sharding.rounds import LogPlace, Round
from spotsieve.stream.sharding.shares import Share

_OBJECT_STORE_BYTES = 512 * 2**20
_FILL_BYTES = 8 * 2**20
_STARTS = 2
_CONNECT_S = 10.0
_LOCAL = "local"
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}


def check_ray() -> None:
    """Raise SettingError if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise SettingError(
            "spotsieve backfill", "needs Ray here, which is not installed", None, "pip install 'spotsieve[ray]'"
        )


@contextlib.contextmanager
def connect_ray(address: str | None, processes: int) -> Iterator[Any]:
    """The module ray, connected to a cluster, or to a new one on this machine that ends with the context.

    address: of a cluster, for ray.init; None or "local" for this machine  processes: number of actors
    Raises SettingError if the cluster cannot be reached or has too few CPUs, or Ray does not start.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address not in (None, _LOCAL):
        _check_listens(str(address))
        # Ray tries to reach a cluster 20 times, which takes it 13 minutes. It reads the variable on import.
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)  # Its warnings about its own settings need no action.
    if address in (None, _LOCAL):
        # Ray reserves one CPU per actor. Declaring one per process lets them share this machine's CPUs.
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
        except Exception as error:  # Ray raises Exception itself if a busy machine does not start in 30 s.
            ray.shutdown()
            if attempt + 1 == _STARTS:
                raise SettingError(
                    "Ray",
                    f"did not start on this machine: {_first_line(error)}",
                    None,
                    "run again when the machine is less busy, or set --address to a cluster",
                ) from None


def _check_listens(address: str) -> None:
    """Check that a process listens at HOST:PORT, or at ray://HOST:PORT. Raises SettingError."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not host or not port.isdecimal():
        return  # A name such as auto, which Ray itself resolves or rejects.
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except (OSError, OverflowError, ValueError) as error:  # ValueError: too long a label or port
        raise _unreachable(address, error) from None


def _join(ray: Any, address: str, processes: int) -> None:
    try:
        ray.init(address=address, **_QUIET)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _unreachable(address, error) from None
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if cpus < processes:
        ray.shutdown()
        raise SettingError(
            "--readers and --shards",
            f"must add up to at most {cpus}, the CPUs of the cluster",
            processes,
            "lower them, or add machines",
        )


def _unreachable(address: str, error: Exception) -> SettingError:
    return SettingError(
        "--address",
        f"must be the address of a reachable Ray cluster: {_first_line(error)}",
        address,
        "start a cluster with `ray start --head`, or remove --address",
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _lost(ray: Any) -> tuple[type[Exception], ...]:
    """Exceptions of Ray for a lost actor, also for one that Ray ended because memory ran out."""
    return ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError


@contextlib.contextmanager
def _ray_errors(ray: Any) -> Iterator[None]:
    """Raise Ray's own errors as StateError, and those of a shard as they are, so that no page is blamed for them."""
    try:
        yield
    except ray.exceptions.RayError as error:
        cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
        if isinstance(cause, SpotsieveError):
            raise cause from None
        raise StateError(
            "the shards",
            f"stopped with an error of Ray, {type(cause).__name__}: {_first_line(cause)}",
            None,
            "read Ray's logs, then run the same command again",
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
    """Readers that are actors on Ray."""

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
    """Shards that are actors on Ray, with their states in memory. A lost shard is filled from log and outcomes."""

    def __init__(
        self,
        ray: Any,
        count: int,
        settings: Settings,
        state: State,
        log: LocalLog,
        outcomes: OutcomeStore,
        notify: Callable[[str], None],
    ) -> None:
        """Start the shards and fill them from the log. Raises StateError if outcomes of judged pages are missing.

        notify: called with a message for the user when a shard is lost
        """
        self.count, self._notify = count, notify
        self._ray, self._settings, self._state, self._log, self._outcomes = ray, settings, state, log, outcomes
        self._actor_class = ray.remote(RemoteShard)
        self.actors = [self._new(number) for number in range(count)]
        with _ray_errors(ray):
            self._fill(self.actors)

    def find_candidates(self, round_: Round, record: bytes) -> list[ShardCandidates]:
        self._record = self._put(record)
        range_ = range_of(round_)
        self._shard_candidates = self._call_all(
            lambda actor: actor.find_candidates.remote(self._record, range_, round_.excluded)
        )
        return [read_candidates(ColumnReader(one), range_.first_number) for one in self._shard_candidates]

    def confirm(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> list[ShardCandidates]:  # noqa: ARG002 - the actors get bytes
        range_ = range_of(round_)
        self._candidates = [self._put(one) for one in self._shard_candidates]
        self._confirmations = self._call_all(
            lambda actor: actor.confirm.remote(self._record, range_, round_.excluded, *self._candidates)
        )
        return read_confirmed(self._shard_candidates, self._confirmations, range_.first_number)

    def resolve_hosts(
        self,
        round_: Round,
        shard_candidates: Sequence[ShardCandidates],  # noqa: ARG002 - the actors have them as bytes
        speculation: Speculation,
    ) -> list[HostResolutions]:
        range_, bodies = range_of(round_), [*self._candidates, *map(self._put, self._confirmations)]
        resolutions = self._call_all(
            lambda actor: actor.resolve_hosts.remote(self._record, range_, round_.excluded, speculation, *bodies)
        )
        return [read_resolutions(ColumnReader(one), range_.first_number)[0] for one in resolutions]

    def index(self, range_: RoundRange, outcome: bytes) -> None:
        stored = self._put(outcome)
        self._call_all(lambda actor: actor.index.remote(self._record, range_, stored))

    def _new(self, number: int) -> Any:
        options = self._actor_class.options(num_cpus=1, scheduling_strategy="SPREAD")
        return options.remote(self._settings, Share(number, self.count))

    def _call_all(self, call: Callable[[Any], Any]) -> list[Any]:
        """Results of a call to each shard. Raises the exception of a shard, or StateError."""
        with _ray_errors(self._ray):
            refs = [call(actor) for actor in self.actors]
            return [self._result(number, call, ref) for number, ref in enumerate(refs)]

    def _put(self, value: object) -> Any:
        """Put a value into Ray's object store and return its reference. Raises StateError."""
        with _ray_errors(self._ray):
            return self._ray.put(value)

    def _result(self, number: int, call: Callable[[Any], Any], ref: Any) -> Any:
        """Result of a call to this shard. A lost shard is replaced and called again."""
        for left in reversed(range(TRIES)):
            try:
                return self._ray.get(ref)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except _lost(self._ray):
                if not left:
                    raise StateError(
                        f"shard {number}",
                        f"was lost {TRIES} times in one round",
                        None,
                        "read Ray's logs, give it more memory or more --shards, then run the same command again",
                    ) from None
                self._notify(f"shard {number} is lost, and a new one is filled from the log")
                self.actors[number] = self._new(number)
                self._fill([self.actors[number]])
                ref = call(self.actors[number])
        raise AssertionError

    def _fill(self, actors: Sequence[Any]) -> None:
        """Have new shards index everything that is judged."""
        parts, size, sent = list[FillRecord](), 0, list[Any]()
        for entered in fill_records(self._log, self._outcomes, self._state.position):
            parts.append(entered)
            size += len(entered.record)
            if size > _FILL_BYTES:
                # Two parts are in flight, so memory stays bounded and no shard waits for the next part.
                self._ray.get(sent[: -len(actors)])
                sent, parts, size = sent[-len(actors) :] + self._send(actors, parts), [], 0
        self._ray.get(sent + self._send(actors, parts))

    def _send(self, actors: Sequence[Any], parts: list[FillRecord]) -> list[Any]:
        records = self._put(parts)
        return [actor.fill.remote(records) for actor in actors]


def fill_records(log: LocalLog, outcomes: OutcomeStore, position: int) -> Iterator[FillRecord]:
    """Records of a log up to the last judged round, with the outcomes of their rounds.

    position: log position of the state of one process
    Raises StateError if the outcomes of pages before that position are missing.
    """
    rounds = outcomes.read_from(0)
    coming = next(rounds, None)
    for offset, record in log.read_from(0):
        stored = list[tuple[RoundRange, bytes]]()
        at, end = LogPlace(offset, 0), LogPlace(offset + 1, 0)
        has_pages = len(decode(record).signatures) > 0
        while has_pages and at < end and coming is not None and coming.range.start == at:
            stored.append((coming.range, coming.body))
            at, coming = coming.range.end, next(rounds, None)
        if stored or not has_pages:
            yield FillRecord(offset, record, tuple(stored))
        if has_pages and at < end:
            if offset >= position:
                return  # A killed run had not judged this record.
            raise StateError(
                "--shards",
                "must be 1, because not all pages of the state were judged by backfills with shards",
                str(log.path.parent),
                "remove --shards, or name a new --state",
            )
