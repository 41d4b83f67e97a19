"""`spotsieve state`: one small command for each thing that can be done to a state directory.

Imports of the state stand inside the functions: `--help` must not load RocksDB.
"""

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spotsieve.stream.base.errors import EXIT_OK, EXIT_STATE, SettingError
from spotsieve.stream.base.terminal import json_text, show
from spotsieve.stream.cli import forget
from spotsieve.stream.cli.options import (
    add_force_argument,
    add_timeout_argument,
    check_names,
    file_name,
    local_file,
    local_path,
    progress_line,
    show_json,
    whole_number_within,
)

if TYPE_CHECKING:
    from spotsieve.state.snapshot.snapshots import Manifest
    from spotsieve.state.verify.families import Findings


@dataclass(frozen=True, slots=True)
class Command:
    """One action of `spotsieve state`. Every action also has --json.

    help: its line in the list of actions  about: the text of its own --help  run: returns the exit code
    """

    help: str
    about: str | None
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `spotsieve state`, each with its flags."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, command in COMMANDS.items():
        action = actions.add_parser(name, help=command.help, description=command.about)
        command.add_arguments(action)
        action.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Run the named action and return its exit code."""
    return COMMANDS[options.action].run(options)


def _add_state_argument(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("--state", type=local_path, required=True, metavar="DIR", help=about)


# info


def _add_info_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=local_path, metavar="DIR")


def _info(options: argparse.Namespace) -> int:
    """Print the size, log position and settings of a state."""
    from spotsieve.state.still.reading import describe

    facts = describe(options.directory)
    settings = json.loads(facts.pop("verdict_settings"))
    if options.json:
        show_json({**facts, "verdict_settings": settings})
        return EXIT_OK
    width = max(len(name) for name in (*facts, *settings)) + 2
    for name, value in facts.items():
        show(f"{name:<{width}} {value}")
    show("settings that change verdicts:")
    for name, value in settings.items():
        show(f"  {name:<{width - 2}} {json_text(value)}")
    return EXIT_OK


# verify

_VERIFY = """Checks every bucket, entry and source, the meta values and the records of a local log: block checksums,
version, length, order and references. Changes nothing. No process may use the state meanwhile; of a running service,
verify a snapshot. Exit codes: 0 the state is intact, 4 damage was found, or the directory holds no state."""


def _add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=local_path, metavar="DIR", help="a state directory, or a snapshot")
    parser.add_argument(
        "--show", type=int, default=20, metavar="N", help="list the first N damaged places (20); all are counted"
    )


def _verify(options: argparse.Namespace) -> int:
    """Check the whole state and print what is damaged."""
    from spotsieve.state.verify.walk import verify

    with progress_line() as on_progress:
        findings = verify(options.directory, max(options.show, 0), on_progress)
    if options.json:
        show_json(_findings_json(findings))
    else:
        _show_findings(findings, options.directory)
    return EXIT_STATE if findings.damaged else EXIT_OK


def _findings_json(findings: "Findings") -> dict[str, Any]:
    return {
        "whole": not findings.damaged,
        "damaged_places": findings.damaged,
        "damages": [{"place": damage.place, "rule": damage.rule} for damage in findings.damages],
        "notices": findings.notices,
        **({"part": findings.part} if findings.part else {}),
        "log": findings.log,
        "log_position": findings.log_position,
        "checked": dict(findings.checked),
    }


def _show_findings(findings: "Findings", state: Path) -> None:
    for damage in findings.damages:
        show(f"damaged  {damage.place} {damage.rule}")
    if findings.damaged > len(findings.damages):
        show(f"         and {findings.damaged - len(findings.damages):,} more (--show)")
    for notice in findings.notices:
        show(f"notice   {notice}")
    show("checked  " + ", ".join(f"{number:,} {what}" for what, number in findings.checked.items()))
    if findings.damaged:
        show(f"{findings.damaged:,} damaged places. {_repair(findings, state)}")
        return
    part = f", the part of {findings.part}" if findings.part else ""
    show(f"intact   up to record {findings.log_position} of the log {findings.log!r}{part}")


def _repair(findings: "Findings", state: Path) -> str:
    """How to repair a damaged state, in a sentence or more."""
    from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE

    index, log = state / INDEX_FOLDER, state / LOG_FILE
    restore = "Restore the state from a snapshot (spotsieve state restore)"
    if not findings.log and not log.exists():
        # The index does not say which log it follows.
        return (
            f"{restore}. Delete {index} only if the log is a topic that still holds all records: there is no local log "
            "to rebuild the index from."
        )
    if not findings.log_damaged:
        return f"{restore}, or delete {index}: the next start rebuilds it from the log."
    if findings.log_damaged == findings.damaged:
        return (
            f"{restore}, or its file {log} from a copy. Keep {index}: it is intact, and the damaged log cannot rebuild "
            "it. `spotsieve state export` saves its contents."
        )
    return f"{restore}: index and log are both damaged, and neither can rebuild the other."


# snapshot and restore

_SNAPSHOT = """A process that uses the state makes a checkpoint between two records and continues; nothing needs to be
stopped. On the same file system the snapshot shares the state's table files as hard links: copy it to another disk to
survive the loss of this one. Damage of the state is copied, too: check the snapshot with `state verify`. A local log is
part of the snapshot. The log topic is not: it must still hold the records after the snapshot's position when the
snapshot is restored. Snapshots of all shards with one --after-outcome, an offset that no shard has reached yet, are of
one place in the log, as split, merge and a resize need; pages go on meanwhile."""

_RESTORE = """Checks every file against the snapshot's manifest, and overwrites nothing. The next start continues from
the snapshot's position in the log."""


def _add_snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", type=local_path, metavar="TARGET", help="the snapshot: a new directory")
    parser.add_argument(
        "--after-outcome",
        type=_outcome,
        metavar="OFFSET",
        help="of a running shard: directly after the first outcome from this offset of topics.verdicts on",
    )
    add_timeout_argument(parser)
    _add_state_argument(parser, "the state directory")


def _outcome(text: str) -> int:
    return whole_number_within(text, 0, math.inf, "an offset of topics.verdicts (spotsieve shards status)")


def _snapshot(options: argparse.Namespace) -> int:
    """Take a snapshot and print its contents."""
    from spotsieve.state.snapshot.snapshots import take_snapshot

    with progress_line() as on_progress:
        manifest = take_snapshot(options.state, options.target, options.timeout, on_progress, options.after_outcome)
    _show_manifest(manifest, f"snapshot of {options.state} in {options.target}", options.json)
    return EXIT_OK


def _add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("snapshot", type=local_path, metavar="SNAPSHOT")
    _add_state_argument(parser, "the state directory")


def _restore(options: argparse.Namespace) -> int:
    """Restore a snapshot and print its contents."""
    from spotsieve.state.snapshot.snapshots import restore_snapshot

    with progress_line() as on_progress:
        manifest = restore_snapshot(options.snapshot, options.state, on_progress)
    _show_manifest(manifest, f"restored {options.snapshot} to {options.state}; the next start continues", options.json)
    return EXIT_OK


def _show_manifest(manifest: "Manifest", action: str, as_json: bool) -> None:
    """Print the contents of a snapshot.  action: the sentence before them"""
    if as_json:
        show_json({**dataclasses.asdict(manifest), "settings": json.loads(manifest.settings)})
        return
    size = sum(file.bytes for file in manifest.files)
    show(
        f"{action} from record {manifest.log_position} of the log {manifest.log!r}: {manifest.entries:,} entries, "
        f"{len(manifest.files)} files, {size:,} bytes"
    )


# export, import, merge and split

_EXPORT = """Writes the whole contents of a state as JSON Lines (state/FORMATS.md), for other programs and for import.
Reads a snapshot, or a checkpoint of a state that a process uses. A local log is not part of the export."""

_IMPORT = """Creates a state that is byte-identical to the exported one, in a new directory. It follows the same log
with the same settings and continues from the same position; for the state of a filter, also copy the files `log` and
`inputs.jsonl`. A damaged or truncated export is rejected (exit code 3), and no state is created."""

_MERGE = """Creates the state of a single process from the states of all shards, in a new directory: for query, explain,
export, serve and forget, and for a service that returns to one judge. Name the state directories, or snapshots, of all
shards in any order. Shards may be running, but all states must be at the same position of the log: first stop the
workers, and wait until no round is open (spotsieve shards status). Exit codes: 0 merged; 4 the states do not belong
together, are at different positions, or are damaged."""

_SPLIT = """Creates the states of another number of shards from the states of all shards: shard-0, shard-1 ... in a new
directory. Each holds what a shard of that number would hold if it had read the log from its beginning. So the new
shards of a resize start with them, and the topics need only the records after them. Name the state directories, or
snapshots, of all shards in any order. All must be at the same position of the log, as for merge. Exit codes: 0 split; 4
the states do not belong together, are at different positions, or are damaged."""


def _add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--out",
        type=file_name,
        default="-",
        metavar="FILE",
        help="compressed by its ending .gz, .xz or .zst; - is standard output (default)",
    )
    _add_state_argument(parser, "a state directory, or a snapshot")
    add_timeout_argument(parser)
    add_force_argument(parser)


def _export(options: argparse.Namespace) -> int:
    """Export a state and print its size."""
    if options.out == "-" and options.json:
        raise SettingError("--json", "must not go to standard output together with the export", "-", "set --out FILE")
    check_names({"out": options.out}, [], options, [options.state])
    from spotsieve.stream.local.maintenance import export_to_file

    with progress_line() as on_progress:
        facts = export_to_file(options.state, options.out, options.timeout, on_progress)
    if options.json:
        show_json({**facts, "out": options.out})
    else:
        to = sys.stderr if options.out == "-" else sys.stdout
        show(f"exported {options.state} to {options.out}: {_totals(facts)}", to=to)
    return EXIT_OK


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=local_file, metavar="FILE", help="an export, compressed or not; - is standard input"
    )
    _add_state_argument(parser, "the state directory to create")


def _import(options: argparse.Namespace) -> int:
    """Create a state from an export and print its size."""
    from spotsieve.state.directory import INPUTS_FILE, LOG_FILE
    from spotsieve.state.log.local import LocalLog
    from spotsieve.stream.local.maintenance import import_from_file

    with progress_line() as on_progress:
        facts = import_from_file(options.file, options.state, on_progress)
    if options.json:
        show_json(facts)
        return EXIT_OK
    show(f"imported {options.file} to {options.state}; the next start continues from there: {_totals(facts)}")
    if facts["log"] == LocalLog.name and not (options.state / LOG_FILE).exists():
        show(
            f"Before you filter, copy the files {LOG_FILE!r} (the log) and {INPUTS_FILE!r} of the exported state to "
            f"{options.state}."
        )
    return EXIT_OK


def _totals(facts: dict[str, Any]) -> str:
    """The size of an export in words."""
    return (
        f"record {facts['log_position']} of the log {facts['log']!r}, {facts['entries']:,} entries, "
        f"{facts['buckets']:,} buckets, {facts['postings']:,} postings"
    )


def _add_merge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shards", type=local_path, nargs="+", metavar="SHARD", help="the state directory of a shard")
    _add_state_argument(parser, "the state directory to create")
    add_timeout_argument(parser)


def _merge(options: argparse.Namespace) -> int:
    """Merge the states of all shards and print the size of the result."""
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


def _add_split_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shards", type=local_path, nargs="+", metavar="SHARD", help="the state directory of a shard")
    parser.add_argument(
        "--shards", type=int, required=True, metavar="S", dest="number", help="the new number of shards"
    )
    parser.add_argument(
        "-o", "--out", type=local_path, required=True, metavar="DIR", help="the directory to create, for all new states"
    )
    add_timeout_argument(parser)


def _split(options: argparse.Namespace) -> int:
    """Split the states of all shards and print the size of each new state."""
    from spotsieve.state.portable.merging import split_states

    with progress_line() as on_progress:
        counts = split_states(options.shards, options.number, options.out, options.timeout, on_progress)
    if options.json:
        show_json([one._asdict() for one in counts])
        return EXIT_OK
    log, position = counts[0].log, counts[0].log_position
    show(
        f"split the states of {len(options.shards)} shards to {options.out}: record {position} of the log {log!r}",
        *(
            f"  shard-{number}: {one.entries:,} entries, {one.buckets:,} buckets, {one.hosts:,} hosts"
            for number, one in enumerate(counts)
        ),
    )
    return EXIT_OK


COMMANDS = {
    "info": Command(
        "print entries, log position, size and settings; a service may be running on it",
        None,
        _add_info_arguments,
        _info,
    ),
    "verify": Command("check the whole state, and list what is damaged", _VERIFY, _add_verify_arguments, _verify),
    "snapshot": Command(
        "copy a state, also while a service or a filter uses it", _SNAPSHOT, _add_snapshot_arguments, _snapshot
    ),
    "restore": Command("create a state directory from a snapshot", _RESTORE, _add_restore_arguments, _restore),
    "forget": Command(forget.HELP, forget.ABOUT, forget.add_arguments, forget.run),
    "export": Command("write the whole contents of a state as JSON Lines", _EXPORT, _add_export_arguments, _export),
    "import": Command("create a state from an export", _IMPORT, _add_import_arguments, _import),
    "merge": Command("create one state from the states of all shards", _MERGE, _add_merge_arguments, _merge),
    "split": Command(
        "create the states of another number of shards from those of all shards", _SPLIT, _add_split_arguments, _split
    ),
}
"""The actions of `spotsieve state`, in the order of the help."""
