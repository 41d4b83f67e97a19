"""Runs `spotsieve state verify`: looks at all that a state holds, and names what is damaged."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_OK, EXIT_STATE
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.state.output import progress_line, show_json

if TYPE_CHECKING:
    from spotsieve.state.verify.families import Findings

HELP = "look at everything a state holds, and name what is damaged"
ABOUT = """Every bucket, entry, source, the meta values and the records of a local log: block checksums, version,
length, order and references. Nothing is changed. No process may work on the state meanwhile: of a running service,
verify a snapshot. Exit codes: 0 all is whole, 4 damage was found, or the directory is no state."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve state verify`."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="a state directory, or a snapshot")
    parser.add_argument(
        "--show", type=int, default=20, metavar="N", help="name the first N damaged places (20); all are counted"
    )


def run(options: argparse.Namespace) -> int:
    """Walk over the state, print what is damaged, and return the exit code."""
    from spotsieve.state.verify.walk import verify

    with progress_line() as on_progress:
        found = verify(options.directory, max(options.show, 0), on_progress)
    if options.json:
        show_json(_facts(found))
    else:
        _show(found, options.directory)
    return EXIT_STATE if found.damaged else EXIT_OK


def _facts(found: "Findings") -> dict[str, object]:
    return {
        "whole": not found.damaged,
        "damaged_places": found.damaged,
        "damages": [{"place": damage.place, "rule": damage.rule} for damage in found.damages],
        "notices": found.notices,
        **({"part": found.part} if found.part else {}),
        "log": found.log,
        "log_position": found.log_position,
        "checked": dict(found.checked),
    }


def _show(found: "Findings", directory: Path) -> None:
    for damage in found.damages:
        show(f"damaged  {damage.place} {damage.rule}")
    if found.damaged > len(found.damages):
        show(f"         and {found.damaged - len(found.damages):,} more (--show)")
    for notice in found.notices:
        show(f"notice   {notice}")
    show("checked  " + ", ".join(f"{number:,} {what}" for what, number in found.checked.items()))
    if not found.damaged:
        held = f", the part of {found.part}" if found.part else ""
        show(f"whole    up to record {found.log_position} of the log {found.log!r}{held}")
        return
    from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE

    index, log = directory / INDEX_FOLDER, directory / LOG_FILE
    then = "Take the state back from a snapshot (spotsieve state restore)"
    if not found.log and not log.exists():
        # The index does not tell which log it follows.
        then += (
            f". Delete {index} only if the log is a topic that still holds everything: no log is here to rebuild it "
            "from."
        )
    elif not found.log_damaged:
        then += f", or delete {index}: the next start rebuilds it from the log."
    elif found.log_damaged == found.damaged:
        then += (
            f", or its file {log} from a copy. Keep {index}: it is whole, and that log cannot rebuild it. "
            "`spotsieve state export` saves what it holds."
        )
    else:
        then += ": index and log are damaged, and neither rebuilds the other."
    show(f"{found.damaged:,} damaged places. {then}")
