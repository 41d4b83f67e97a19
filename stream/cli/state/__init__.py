"""Owns `spotsieve state`: what a state directory holds, whether it is whole, snapshots of it, forgetting, export."""

import argparse
import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spotsieve.stream.cli.state.forget import ABOUT as FORGET_ABOUT
from spotsieve.stream.cli.state.forget import add_forget_arguments, run_forget
from spotsieve.stream.cli.state.transfer import (
    EXPORT_ABOUT,
    IMPORT_ABOUT,
    add_export_arguments,
    add_import_arguments,
    run_export,
    run_import,
)
from spotsieve.stream.errors import EXIT_OK, EXIT_STATE
from spotsieve.stream.text_safety import show

if TYPE_CHECKING:
    from spotsieve.state.snapshot.manifest import Manifest

PROGRESS_SECONDS = 0.5
VERIFY_ABOUT = """Every bucket, entry, source, the meta values and the records of a local log: block checksums, version,
length, order and references. Nothing is changed. No process may work on the state meanwhile: of a running service,
verify a snapshot. Exit codes: 0 all is whole, 4 damage was found, or the directory is no state."""

SNAPSHOT_ABOUT = """A process that works on the state makes a checkpoint between two records and goes on; nothing needs
to be stopped. On the same file system the snapshot shares the state's table files as hard links: copy it elsewhere to
survive the disk. The log topic is not in it (a local log is): it must still hold what comes after the snapshot's
position when it is restored."""
RESTORE_ABOUT = """Every file is checked against the snapshot's manifest; nothing is overwritten. The next start goes on
from the snapshot's position by the log."""


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
    snapshot = actions.add_parser("snapshot", help="copy a state, also while a service or a filter works on it",
                                  description=SNAPSHOT_ABOUT)  # fmt: skip
    snapshot.add_argument("target", type=Path, metavar="TARGET", help="the snapshot: a new directory")
    snapshot.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS",
        help="how long to wait for the process that works on the state (300)",
    )  # fmt: skip
    restore = actions.add_parser("restore", help="make a state directory of a snapshot", description=RESTORE_ABOUT)
    restore.add_argument("snapshot", type=Path, metavar="SNAPSHOT")
    for action in (snapshot, restore):
        action.add_argument("--state", type=Path, required=True, metavar="DIR", help="the state directory")
    forget = actions.add_parser("forget", help="take pages out, so that the next copy of each is novel",
                                description=FORGET_ABOUT)  # fmt: skip
    add_forget_arguments(forget)
    export = actions.add_parser("export", help="write all that a state remembers as JSON Lines",
                                description=EXPORT_ABOUT)  # fmt: skip
    add_export_arguments(export)
    import_ = actions.add_parser("import", help="make a state of an export", description=IMPORT_ABOUT)
    add_import_arguments(import_)
    for action in (info, verify, snapshot, restore, forget, export, import_):
        action.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Do what the action says; the exit code."""
    actions = {
        "info": _info,
        "verify": _verify,
        "snapshot": _snapshot,
        "restore": _restore,
        "forget": _forget,
        "export": _export,
        "import": _import,
    }
    return actions[options.action](options)


def _info(options: argparse.Namespace) -> int:
    """Print what the directory says of itself."""
    from spotsieve.state.still.inspect import describe

    facts = describe(options.directory)
    settings = json.loads(facts.pop("verdict_settings"))
    if options.json:
        _show_json({**facts, "verdict_settings": settings})
        return EXIT_OK
    width = max(len(name) for name in (*facts, *settings)) + 2
    for name, value in facts.items():
        show(f"{name:<{width}} {value}")
    show("settings that change verdicts:")
    for name, value in settings.items():
        show(f"  {name:<{width - 2}} {json.dumps(value)}")
    return EXIT_OK


def _verify(options: argparse.Namespace) -> int:
    """Walk the state, and print what is damaged."""
    from spotsieve.state.verify.walk import verify

    with _progress() as told:
        found = verify(options.directory, max(options.show, 0), told)
    if options.json:
        _show_json({
            "whole": not found.damaged, "damaged_places": found.damaged,
            "damages": [{"place": damage.place, "rule": damage.rule} for damage in found.damages],
            "notices": found.notices, "log": found.log, "log_position": found.log_position,
            "checked": dict(found.checked),
        })  # fmt: skip
        return EXIT_STATE if found.damaged else EXIT_OK
    for damage in found.damages:
        show(f"damaged  {damage.place} {damage.rule}")
    if found.damaged > len(found.damages):
        show(f"         and {found.damaged - len(found.damages):,} more (--show)")
    for notice in found.notices:
        show(f"notice   {notice}")
    show("checked  " + ", ".join(f"{number:,} {what}" for what, number in found.checked.items()))
    if not found.damaged:
        show(f"whole    up to record {found.log_position} of the log {found.log!r}")
        return EXIT_OK
    show(
        f"{found.damaged:,} damaged places. Take the state back from a snapshot (spotsieve state restore), or delete "
        f"{options.directory / 'index'}: the next start rebuilds it from the log."
    )
    return EXIT_STATE


def _snapshot(options: argparse.Namespace) -> int:
    from spotsieve.state.snapshot.take import take_snapshot

    with _progress() as told:
        manifest = take_snapshot(options.state, options.target, options.timeout, told)
    _print_manifest(manifest, f"snapshot of {options.state} in {options.target}", options.json)
    return EXIT_OK


def _restore(options: argparse.Namespace) -> int:
    from spotsieve.state.snapshot.restore import restore_snapshot

    with _progress() as told:
        manifest = restore_snapshot(options.snapshot, options.state, told)
    _print_manifest(manifest, f"restored {options.snapshot} to {options.state}; the next start goes on", options.json)
    return EXIT_OK


def _forget(options: argparse.Namespace) -> int:
    return run_forget(options, _progress, _show_json)


def _export(options: argparse.Namespace) -> int:
    return run_export(options, _progress, _show_json)


def _import(options: argparse.Namespace) -> int:
    return run_import(options, _progress, _show_json)


def _print_manifest(manifest: "Manifest", done: str, as_json: bool) -> None:
    if as_json:
        facts = dataclasses.asdict(manifest)
        _show_json({**facts, "settings": json.loads(manifest.settings)})
        return
    size = sum(facts.bytes for facts in manifest.files)
    show(
        f"{done} from record {manifest.log_position} of the log {manifest.log!r}: {manifest.entries:,} entries, "
        f"{len(manifest.files)} files, {size:,} bytes"
    )


def _show_json(fields: dict[str, Any]) -> None:
    show(*json.dumps(fields, indent=2).split("\n"))


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A line on standard error, where a terminal shows it, twice a second: what, how much is done, of how much."""
    from spotsieve.stream.progress import ProgressLine

    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        said = time.monotonic()

        def told(what: str, done: int, of: int) -> None:
            nonlocal said
            if time.monotonic() - said >= PROGRESS_SECONDS:
                said = time.monotonic()
                line.say(f"{what}: {done:,} of {of:,}")

        yield told
