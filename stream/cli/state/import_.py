"""Runs `spotsieve state import`: makes a state from an export."""

import argparse

from spotsieve.stream.base.errors import EXIT_OK
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import directory
from spotsieve.stream.cli.state.output import progress_line, show_json, totals

HELP = "make a state of an export"
ABOUT = """Makes a state equal to the exported one, byte for byte, where none is yet. It belongs to the same log
and the same settings and goes on from the same place of the log; to a filter's state bring the file `log` too. A file
that is cut or damaged is refused (exit code 3), and no state is made of it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve state import`."""
    parser.add_argument("file", metavar="FILE", help="an export, compressed or not; - is standard input")
    parser.add_argument("--state", type=directory, required=True, metavar="DIR", help="the state directory to be made")


def run(options: argparse.Namespace) -> int:
    """Import, print how much it was, and return the exit code."""
    from spotsieve.state.directory import LOG_FILE
    from spotsieve.state.log.local import LocalLog
    from spotsieve.stream.local.maintenance import import_from_file

    with progress_line() as on_progress:
        facts = import_from_file(options.file, options.state, on_progress)
    if options.json:
        show_json(facts)
        return EXIT_OK
    show(f"imported {options.file} to {options.state}; the next start goes on from there: {totals(facts)}")
    if facts["log"] == LocalLog.name and not (options.state / LOG_FILE).exists():
        show(f"Before you filter, bring its log: the file {LOG_FILE!r} of the exported state, to {options.state}")
    return EXIT_OK
