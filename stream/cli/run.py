"""`spotsieve run` runs the service: one process, or one role of a service with shards."""

import argparse

from spotsieve.stream.base.errors import EXIT_DEFECT, SpotsieveError
from spotsieve.stream.cli.options import add_scheme_arguments, add_settings_arguments, directory, settings_of


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
    parser.add_argument("--state", type=directory, metavar="DIR", help="state directory (index.directory)")


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, and return the exit code."""
    settings = settings_of(
        options,
        {
            "kafka.bootstrap_servers": options.bootstrap_servers,
            "cluster.shards": options.shards,
            "index.directory": options.state,
        },
    )
    # These imports would slow --help down: numba and aiokafka take a second.
    from spotsieve.stream.base.startup import quick_start

    quick_start()
    from spotsieve.stream.observe.logs import configure_logs, logger
    from spotsieve.stream.service.roles.opening import opener_of
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
