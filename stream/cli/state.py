"""Owns `spotsieve state`: what a state directory holds, and whether all of it is whole."""

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path

from stream.errors import EXIT_OK, EXIT_STATE

PROGRESS_SECONDS = 0.5
VERIFY_ABOUT = """Every bucket, entry, source, the meta values and the records of a local log: block checksums, version,
length, order and references. Nothing is changed. No process may work on the state meanwhile: of a running service,
verify a snapshot. Exit codes: 0 all is whole, 4 damage was found, or the directory is no state."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve state`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    info = actions.add_parser(
        "info", help="print entries, log position, size and settings; a service may be running on it"
    )
    info.add_argument("directory", type=Path, metavar="DIR")
    verify = actions.add_parser("verify", help="look at everything a state holds, and name what is damaged",
                                description=VERIFY_ABOUT)  # fmt: skip
    verify.add_argument("directory", type=Path, metavar="DIR", help="a state directory, or a snapshot")
    verify.add_argument(
        "--show", type=int, default=20, metavar="N", help="name the first N damaged places (20); all are counted"
    )
    for action in (info, verify):
        action.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Do what the action says; the exit code."""
    code: int = {"info": _info, "verify": _verify}[options.action](options)
    return code


def _info(options: argparse.Namespace) -> int:
    """Print what the directory says of itself."""
    from state.inspect import describe

    facts = describe(options.directory)
    settings = json.loads(facts.pop("verdict_settings"))
    if options.json:
        print(json.dumps({**facts, "verdict_settings": settings}, indent=2))
        return EXIT_OK
    width = max(len(name) for name in (*facts, *settings)) + 2
    for name, value in facts.items():
        print(f"{name:<{width}} {value}")
    print("settings that change verdicts:")
    for name, value in settings.items():
        print(f"  {name:<{width - 2}} {json.dumps(value)}")
    return EXIT_OK


def _verify(options: argparse.Namespace) -> int:
    """Walk the state, and print what is damaged."""
    from state.verify import verify
    from stream.files.progress import ProgressLine
    from stream.text_safety import escape_control_characters

    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        said = time.monotonic()

        def told(what: str, done: int, of: int) -> None:
            nonlocal said
            if time.monotonic() - said >= PROGRESS_SECONDS:
                said = time.monotonic()
                line.say(f"{what}: {done:,} of about {of:,}")

        found = verify(options.directory, max(options.show, 0), told)
    if options.json:
        print(json.dumps({
            "whole": not found.damaged, "damaged_places": found.damaged,
            "damages": [{"place": damage.place, "rule": damage.rule} for damage in found.damages],
            "notices": found.notices, "log": found.log, "log_position": found.log_position,
            "checked": dict(found.checked),
        }, indent=2))  # fmt: skip
        return EXIT_STATE if found.damaged else EXIT_OK
    for damage in found.damages:
        print(escape_control_characters(f"damaged  {damage.place} {damage.rule}"))
    if found.damaged > len(found.damages):
        print(f"         and {found.damaged - len(found.damages):,} more (--show)")
    for notice in found.notices:
        print(escape_control_characters(f"notice   {notice}"))
    print("checked  " + ", ".join(f"{number:,} {what}" for what, number in found.checked.items()))
    if not found.damaged:
        print(escape_control_characters(f"whole    up to record {found.log_position} of the log {found.log!r}"))
        return EXIT_OK
    print(
        f"{found.damaged:,} damaged places. Take the state back from a snapshot (spotsieve state restore), or delete "
        f"{escape_control_characters(str(options.directory / 'index'))}: the next start rebuilds it from the log."
    )
    return EXIT_STATE
