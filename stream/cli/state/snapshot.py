"""Runs `spotsieve state snapshot`: copies a state, also while a process works on it."""

import argparse
from pathlib import Path

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.cli.options import add_timeout_argument, directory
from spotsieve.stream.cli.state.output import progress_line, show_manifest

HELP = "copy a state, also while a service or a filter works on it"
ABOUT = """A process that works on the state makes a checkpoint between two records and goes on; nothing needs
to be stopped. On the same file system the snapshot shares the state's table files as hard links: copy it elsewhere to
survive the disk. The log topic is not in it (a local log is): it must still hold what comes after the snapshot's
position when it is restored."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve state snapshot`."""
    parser.add_argument("target", type=Path, metavar="TARGET", help="the snapshot: a new directory")
    add_timeout_argument(parser)
    parser.add_argument("--state", type=directory, required=True, metavar="DIR", help="the state directory")


def run(options: argparse.Namespace) -> int:
    """Take the snapshot, print what it holds, and return the exit code."""
    from spotsieve.state.snapshot.snapshots import take_snapshot

    with progress_line() as on_progress:
        manifest = take_snapshot(options.state, options.target, options.timeout, on_progress)
    show_manifest(manifest, f"snapshot of {options.state} in {options.target}", options.json)
    return EXIT_OK
