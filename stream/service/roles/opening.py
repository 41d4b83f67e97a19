"""Opens what a process of a role holds, and refuses roles that do not fit the settings."""

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
    """What opens a process of this role. role: worker, shard, resolver, or "" for all in one process

    shard: its number. Raises SettingError for a role that these settings do not have, and for settings that shards do
    not keep to.
    """
    shards = settings.cluster.shards
    if not shards:
        if role:
            raise SettingError(
                "--role", "needs cluster.shards, and this configuration has none", role, "set it, or leave --role out"
            )
        return open_worker
    if not role:
        raise SettingError(
            "--role",
            f"must be given, since cluster.shards is {shards}",
            None,
            "worker, shard or resolver; or leave cluster.shards out to judge in one process",
        )
    limits_in_shards(settings, scheme_in_scope(settings))
    if (role == "shard") != (shard is not None) or not 0 <= (shard or 0) < shards:
        raise SettingError(
            "--shard",
            f"must be 0 to {shards - 1} with --role shard, and goes with no other role",
            shard,
            "give each shard a number of its own (cluster.shards)",
        )
    if role == "shard":
        return lambda given: open_shard(given, Share(shard or 0, shards))
    return open_resolver if role == "resolver" else open_signing_worker


def open_signing_worker(settings: Settings) -> ProcessState:
    """A worker that signs and commits, and has its pages judged by shards. It holds no state."""
    scheme = scheme_in_scope(settings)

    def begin(facts: Mapping[str, TopicFacts], metrics: Metrics, heartbeats: Heartbeats) -> Worker:
        def log_of(waits: Waits) -> WorkerLog:
            return WorkerLog(settings, os.urandom(WRITER_BYTES), metrics, waits)

        worker = Worker(settings, scheme, log_of, facts, metrics, heartbeats)
        metrics.role.labels("worker", "").set_function(lambda: float(worker.ready))
        return worker

    return ProcessState(None, begin)
