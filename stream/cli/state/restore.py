"""Runs `spotsieve state restore`: makes a state directory from a snapshot."""

import argparse
from pathlib import Path

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.cli.options import directory
from spotsieve.stream.cli.state.output import progress_line, show_manifest

HELP = "make a state directory of a snapshot"
ABOUT = """Every file is checked against the snapshot's manifest; nothing is overwritten. The next start goes on
from the snapshot's position by the log."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve state restore`."""
    parser.add_argument("snapshot", type=Path, metavar="SNAPSHOT")
    parser.add_argument("--state", type=directory, required=True, metavar="DIR", help="the state directory")


def run(options: argparse.Namespace) -> int:
    """Restore the snapshot, print what it holds, and return the exit code."""
    from spotsieve.state.snapshot.snapshots import restore_snapshot

    with progress_line() as on_progress:
        manifest = restore_snapshot(options.snapshot, options.state, on_progress)
    show_manifest(manifest, f"restored {options.snapshot} to {options.state}; the next start goes on", options.json)
    return EXIT_OK
