"""`spotsieve top` shows the activity of a running service, from the metrics of its workers."""

import argparse
import sys
import time

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.cli.options import number_within, whole_number_within

HERE = "127.0.0.1:9464"
ABOUT = """Shows pages per second, the share of dropped pages, the lag, the stages, and the hosts with most dropped
pages. URL is the metrics port of a worker (metrics.port); give one for each worker of the group. On a terminal this is
a live view until Ctrl-C; elsewhere it prints a snapshot again and again. Exit codes: 0 ended; 2 wrong usage; 7 no
worker answers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve top`."""
    parser.epilog = ABOUT
    parser.add_argument("urls", nargs="*", metavar="URL", help=f"HOST:PORT of a worker's metrics (default {HERE})")
    parser.add_argument("--once", action="store_true", help="print one snapshot and exit")
    parser.add_argument(
        "--every",
        type=_seconds,
        default=2.0,
        metavar="SECONDS",
        help="interval of the snapshots, 0.1 to 3600 (default 2)",
    )
    parser.add_argument("--hosts", type=_hosts, default=10, metavar="N", help="number of hosts (default 10)")


def run(options: argparse.Namespace) -> int:
    """Show a snapshot, or a live view until Ctrl-C; returns the exit code."""
    from spotsieve.stream.insight.top.figures import Watch, show_live, show_plain
    from spotsieve.stream.insight.top.scrape import metrics_url

    watch = Watch(list(dict.fromkeys(map(metrics_url, options.urls or [HERE]))), options.hosts)
    watch.tables()
    if options.once:
        time.sleep(options.every)  # A rate needs two snapshots.
        show_plain(watch.tables())
        return EXIT_OK
    try:
        if sys.stdout.isatty():
            show_live(watch.tables, options.every)
        while True:
            time.sleep(options.every)
            show_plain(watch.tables())
    except KeyboardInterrupt:
        return EXIT_OK  # Ctrl-C is the normal end.


def _seconds(text: str) -> float:
    return number_within(text, 0.1, 3600, "seconds from 0.1 to 3600")


def _hosts(text: str) -> int:
    return whole_number_within(text, 0, 999, "a whole number from 0 to 999")
