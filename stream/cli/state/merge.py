"""Runs `spotsieve state merge`: makes the state of one process of the states of all shards."""

import argparse

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import add_timeout_argument, directory
from spotsieve.stream.cli.state.output import progress_line, show_json

HELP = "make one state of those of all shards"
ABOUT = """Makes the state that one process would have, where none is yet: for query, explain, export, serve and
forget, and for a service that goes back to one judge. Name the state directories, or snapshots, of all shards in any
order. Shards may be at work on theirs, and make checkpoints; but all must stand at the same place of the log: stop the
workers before, until no round is open (spotsieve shards status). Exit codes: 0 made, 4 the states do not belong
together, stand at different places or are damaged."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve state merge`."""
    parser.add_argument("shards", type=directory, nargs="+", metavar="SHARD", help="the state directory of a shard")
    parser.add_argument("--state", type=directory, required=True, metavar="DIR", help="the state directory to be made")
    add_timeout_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Merge, print how much it was, and return the exit code."""
    from spotsieve.state.portable.merging import merge_states

    with progress_line() as on_progress:
        merged = merge_states(options.shards, options.state, options.timeout, on_progress)
    if options.json:
        show_json(merged._asdict())
        return EXIT_OK
    show(
        f"merged the states of {merged.shards} shards to {options.state}: record {merged.log_position} of the log "
        f"{merged.log!r}, {merged.entries:,} entries, {merged.buckets:,} buckets, {merged.hosts:,} hosts"
    )
    return EXIT_OK
