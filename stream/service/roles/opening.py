"""Opens the resources of a role's process, and rejects roles that do not suit the settings."""

import os
from collections.abc import Callable, Mapping

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.topics import TopicFacts
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles.resolver.loop import open_resolver
from spotsieve.stream.service.roles.shard.loop import open_shard
from spotsieve.stream.service.roles.worker_log import WorkerLog
from spotsieve.stream.service.run import WRITER_BYTES, ProcessState, open_worker
from spotsieve.stream.service.worker import Worker
from spotsieve.stream.sharding.rounds import limits_in_shards
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.schemes.registry import scheme_in_scope


def opener_of(role: str, shard: int | None, settings: Settings) -> Callable[[Settings], ProcessState]:
    """The function that opens a process of this role.

    role: worker, shard, resolver, or "" for a process without shards
    shard: number of the shard
    Raises SettingError for a role that does not suit the settings, and for settings that shards do not support.
    """
    shards = settings.cluster.shards
    if not shards:
        if role:
            raise SettingError(
                "--role", "needs cluster.shards, which is not set", role, "set cluster.shards, or omit --role"
            )
        return open_worker
    if not role:
        raise SettingError(
            "--role",
            f"is missing, but cluster.shards is {shards}",
            None,
            "give worker, shard or resolver; or remove cluster.shards to judge in one process",
        )
    limits_in_shards(settings, scheme_in_scope(settings))
    if (role == "shard") != (shard is not None) or not 0 <= (shard or 0) < shards:
        raise SettingError(
            "--shard",
            f"must be 0 to {shards - 1} with --role shard, and must be omitted for other roles",
            shard,
            "give each shard its own number below cluster.shards",
        )
    if role == "shard":
        return lambda given: open_shard(given, Share(shard or 0, shards))
    return open_resolver if role == "resolver" else open_signing_worker


def open_signing_worker(settings: Settings) -> ProcessState:
    """Open a worker that signs and commits pages, which shards judge. It holds no state."""
    scheme = scheme_in_scope(settings)

    def begin(facts: Mapping[str, TopicFacts], metrics: Metrics, heartbeats: Heartbeats) -> Worker:
        def log_of(waits: Waits) -> WorkerLog:
            return WorkerLog(settings, os.urandom(WRITER_BYTES), metrics, waits)

        worker = Worker(settings, scheme, log_of, facts, metrics, heartbeats)
        metrics.role.labels("worker", "").set_function(lambda: float(worker.ready))
        return worker

    return ProcessState(None, begin)
