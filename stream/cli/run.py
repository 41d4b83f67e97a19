"""`spotsieve run` runs the service."""

import argparse

from spotsieve.stream.base.errors import EXIT_DEFECT, SpotsieveError
from spotsieve.stream.cli.options import add_scheme_arguments, add_settings_arguments, directory, settings_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve run`."""
    add_scheme_arguments(parser)
    add_settings_arguments(parser)
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="brokers (kafka.bootstrap_servers)")
    parser.add_argument(
        "--role",
        choices=("worker", "shard", "resolver"),
        help="what this process does where shards hold the state together (cluster.shards); without it all in one",
    )
    parser.add_argument("--shard", type=int, metavar="N", help="with --role shard: its number, from 0")
    parser.add_argument("--shards", type=int, metavar="S", help="of how many shards it is one (cluster.shards)")
    parser.add_argument("--state", type=directory, metavar="DIR", help="state directory (index.directory)")


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    settings = settings_of(
        options,
        {
            "kafka.bootstrap_servers": options.bootstrap_servers,
            "cluster.shards": options.shards,
            "index.directory": options.state,
        },
    )
    # Not imported for --help: numba and aiokafka take a second.
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
        # Log collectors tear a bare traceback apart. One line with the traceback in it can be found again.
        logger().exception("stopped by a defect of Spotsieve's own; the state and the topics are as after a kill -9")
        return EXIT_DEFECT
