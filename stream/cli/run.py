"""`spotsieve run` runs the service: one process, or one role of a service with shards."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_DEFECT, SettingError, SpotsieveError
from spotsieve.stream.cli.options import (
    add_salt_argument,
    add_scheme_arguments,
    add_settings_arguments,
    local_path,
    settings_of,
)

if TYPE_CHECKING:
    from spotsieve.stream.base.settings.model import Settings
    from spotsieve.stream.service.run import ProcessState


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve run`."""
    add_scheme_arguments(parser)
    add_settings_arguments(parser)
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="brokers (kafka.bootstrap_servers)")
    parser.add_argument(
        "--role",
        choices=("worker", "shard", "resolver"),
        help="the role of this process in a service with shards (cluster.shards); default: all in one process",
    )
    parser.add_argument("--shard", type=int, metavar="N", help="with --role shard: the number of this shard, from 0")
    parser.add_argument("--shards", type=int, metavar="S", help="the number of shards (cluster.shards)")
    parser.add_argument("--state", type=local_path, metavar="DIR", help="state directory (index.directory)")
    add_salt_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, and return the exit code."""
    settings = settings_of(
        options,
        {
            "kafka.bootstrap_servers": options.bootstrap_servers,
            "cluster.shards": options.shards,
            "index.directory": options.state,
            "index.salt_from": options.salt_from,
        },
    )
    # These imports would slow --help down: numba and aiokafka take a second.
    from spotsieve.stream.base.startup import quick_start

    quick_start()
    from spotsieve.stream.observe.logs import configure_logs, logger
    from spotsieve.stream.service.run import Service

    configure_logs(settings.log)
    opener = opener_of(options.role or "", options.shard, settings)
    try:
        return Service(settings, opener).run()
    except SpotsieveError:
        raise
    except Exception:
        # One record with the traceback in it: log collectors split a bare traceback into lines.
        logger().exception("stopped by an internal error; the state and the topics are as after a kill -9")
        return EXIT_DEFECT


def opener_of(role: str, shard: int | None, settings: "Settings") -> "Callable[[Settings], ProcessState]":
    """The function that opens a process of this role.

    role: worker, shard, resolver, or "" for a process without shards
    shard: number of the shard
    Raises SettingError for a role that does not suit the settings, and for settings that shards do not support.
    """
    from spotsieve.stream.service.roles.resolver.loop import open_resolver
    from spotsieve.stream.service.roles.shard.loop import open_shard
    from spotsieve.stream.service.roles.worker_log import open_signing_worker
    from spotsieve.stream.service.run import open_worker
    from spotsieve.stream.sharding.rounds import limits_in_shards
    from spotsieve.stream.sharding.shares import Share
    from spotsieve.stream.sign.schemes.registry import scheme_in_scope

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
