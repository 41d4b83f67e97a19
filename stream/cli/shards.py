"""`spotsieve shards` tells how a service of shards stands, and asks for another number of shards."""

import argparse
import time
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import add_settings_arguments, settings_of

if TYPE_CHECKING:
    from spotsieve.stream.base.settings.model import Settings

ABOUT_RESIZE = """The shards that answer go on. New ones, with directories of their own, fill themselves beside them
from the topics (`spotsieve run --role shard --shards S --shard N --state DIR`). When all of them are ready they take
over between two rounds, and the former shards stop. No verdict changes. `spotsieve shards status` shows how far they
are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve shards`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    status = actions.add_parser("status", help="say how far outcomes, shards and workers are, and who is waited for")
    status.add_argument("--json", action="store_true", help="print one JSON object")
    resize = actions.add_parser("resize", help="ask for another number of shards", epilog=ABOUT_RESIZE)
    wanted = resize.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--shards", type=int, metavar="S", help="so many are to take over")
    wanted.add_argument("--cancel", action="store_true", help="end a resize before the new shards have taken over")
    for action in (status, resize):
        add_settings_arguments(action)
        action.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="brokers (kafka.bootstrap_servers)")


def run(options: argparse.Namespace) -> int:
    """Tell or ask."""
    import asyncio  # --help takes a tenth of a second longer with it

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
    import json

    from spotsieve.stream.insight.shards.reading import read_ends
    from spotsieve.stream.insight.shards.status import status_lines, status_of

    now_ms = int(time.time() * 1000)
    ends = await read_ends(settings, now_ms)
    status = status_of(ends, max(now_ms, int(time.time() * 1000)))
    show(*(json.dumps(status.as_json(), indent=2).split("\n") if as_json else status_lines(status)))


async def _resize(settings: "Settings", shards: int) -> None:
    from spotsieve.stream.insight.shards.request import request_resize

    cluster_size, added = await request_resize(settings, shards)
    if added:
        show(f"{settings.topics.matches}: {added} partition(s) added")
    if cluster_size.shards == shards:
        show(f"the number of shards is {shards}: the new ones have taken over")
        return
    show(
        f"resize {cluster_size.shards} -> {shards} begins; start the new shards, each with a directory of its own:",
        *(
            f"  spotsieve run -c FILE --role shard --shards {shards} --shard {number} --state DIR"
            for number in range(shards)
        ),
        "watch them: spotsieve shards status -c FILE",
    )


async def _cancel(settings: "Settings") -> None:
    from spotsieve.stream.insight.shards.request import cancel_resize

    cluster_size, asked = await cancel_resize(settings)
    if cluster_size.shards == asked:
        show(f"nothing is cancelled: the new shards had taken over before, and their number is {asked}")
        return
    show(
        f"resize {cluster_size.shards} -> {asked} is cancelled: the former shards answer as before, "
        "and the new ones stop"
    )
