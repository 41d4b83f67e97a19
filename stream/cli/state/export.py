"""Runs `spotsieve state export`: writes all that a state remembers as JSON Lines."""

import argparse
import sys

from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import add_force_argument, add_timeout_argument, check_new, directory
from spotsieve.stream.cli.state.output import progress_line, show_json, totals

HELP = "write all that a state remembers as JSON Lines"
ABOUT = """All that a state remembers, as JSON Lines (state/FORMATS.md): for other programs, and for import. Of a
state that a process works on, by a checkpoint; of a snapshot too. A local log is not in it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve state export`."""
    parser.add_argument(
        "-o",
        "--out",
        default="-",
        metavar="FILE",
        help="compressed by its ending .gz, .xz or .zst; - is standard output (default)",
    )
    parser.add_argument(
        "--state", type=directory, required=True, metavar="DIR", help="a state directory, or a snapshot"
    )
    add_timeout_argument(parser)
    add_force_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Export, print how much it was, and return the exit code."""
    if options.out == "-" and options.json:
        raise SettingError("--json", "must not go where the export goes", "-", "give --out a file")
    if not options.force:
        check_new({"out": options.out})
    from spotsieve.stream.local.maintenance import export_to_file

    with progress_line() as on_progress:
        facts = export_to_file(options.state, options.out, options.timeout, on_progress)
    if options.json:
        show_json({**facts, "out": options.out})
    else:
        to = sys.stderr if options.out == "-" else sys.stdout
        show(f"exported {options.state} to {options.out}: {totals(facts)}", to=to)
    return EXIT_OK
