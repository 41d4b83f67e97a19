"""`spotsieve shards` prints the status of a service with shards, and requests another number of shards."""

import argparse
import time
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.base.terminal import json_text, show
from spotsieve.stream.cli.options import add_settings_arguments, settings_of

if TYPE_CHECKING:
    from spotsieve.stream.base.settings.model import Settings

ABOUT_RESIZE = """The present shards keep working. Start the new shards, each with its own directory (`spotsieve run
--role shard --shards S --shard N --state DIR`): they fill their states from the topics. When all of them are ready,
they take over between two rounds, and the former shards stop. No verdict changes. `spotsieve shards status` shows the
progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `spotsieve shards`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    status = actions.add_parser(
        "status", help="print the progress of resolver, shards and workers, and the process that is late"
    )
    status.add_argument("--json", action="store_true", help="print one JSON object")
    resize = actions.add_parser("resize", help="request another number of shards", epilog=ABOUT_RESIZE)
    size = resize.add_mutually_exclusive_group(required=True)
    size.add_argument("--shards", type=int, metavar="S", help="the new number of shards")
    size.add_argument("--cancel", action="store_true", help="cancel a resize before the new shards take over")
    for action in (status, resize):
        add_settings_arguments(action)
        action.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="brokers (kafka.bootstrap_servers)")


def run(options: argparse.Namespace) -> int:
    """Print the status, or request a resize; returns the exit code."""
    import asyncio  # This would cost --help a tenth of a second.

    settings = settings_of(options, {"kafka.bootstrap_servers": options.bootstrap_servers})
    from spotsieve.stream.observe.logs import configure_logs

    configure_logs(settings.log, of_a_command=True)
    if options.action == "status":
        asyncio.run(_show_status(settings, options.json))
    elif options.cancel:
        asyncio.run(_cancel(settings))
    else:
        asyncio.run(_resize(settings, options.shards))
    return EXIT_OK


async def _show_status(settings: "Settings", as_json: bool) -> None:
    from spotsieve.stream.insight.shards.reading import read_ends
    from spotsieve.stream.insight.shards.status import status_lines, status_of

    now_ms = int(time.time() * 1000)
    ends = await read_ends(settings, now_ms)
    status = status_of(ends, max(now_ms, int(time.time() * 1000)))
    show(*(json_text(status.as_json(), indent=2).split("\n") if as_json else status_lines(status)))


async def _resize(settings: "Settings", shards: int) -> None:
    from spotsieve.stream.insight.shards.request import request_resize

    cluster_size, added = await request_resize(settings, shards)
    if added:
        show(f"{settings.topics.matches}: {added} partition(s) added")
    if cluster_size.shards == shards:
        show(f"the number of shards is {shards}; no resize is needed")
        return
    show(
        f"resize {cluster_size.shards} -> {shards} started; now start the new shards, each with its own directory:",
        *(
            f"  spotsieve run -c FILE --role shard --shards {shards} --shard {number} --state DIR"
            for number in range(shards)
        ),
        "watch the progress: spotsieve shards status -c FILE",
    )


async def _cancel(settings: "Settings") -> None:
    from spotsieve.stream.insight.shards.request import cancel_resize

    cluster_size, requested = await cancel_resize(settings)
    if cluster_size.shards == requested:
        show(f"nothing was cancelled: the {requested} new shards had already taken over")
        return
    show(
        f"resize {cluster_size.shards} -> {requested} was cancelled: the present shards keep working, "
        "and the new shards stop"
    )
