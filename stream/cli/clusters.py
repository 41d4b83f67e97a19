"""`spotsieve clusters` lists every page with its cluster of copies, from recorded verdicts."""

import argparse
import contextlib
import dataclasses
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_OK, SettingError, SpotsieveError, StateError, write_advice
from spotsieve.stream.base.terminal import json_text, show
from spotsieve.stream.cli.options import (
    add_force_argument,
    add_settings_arguments,
    check_names,
    file_name,
    local_path,
    settings_of,
    settings_of_state,
)

if TYPE_CHECKING:
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.insight.clusters.grouping import ClusterBuilder, Member, Totals

ABOUT = """Two pages are connected if one is a copy of the other or replaces it (policy.keep); lines of `query --all`
connect a page with all its matches. The canonical page of a cluster is the first novel page that no other page
replaces. Each page has one line: {"id", "url", "verdict", "cluster": id of the canonical page, "canonical", "size"};
the verdict is null if only other pages name this page. FILE holds verdict lines of filter, query or replay --into,
reports of the topic of duplicates, plain or compressed, or the Parquet verdicts of backfill. With --state, the log in
DIR is judged again; `spotsieve filter` may be appending to it. Memory: 8 bytes per page, and about 400 more for a page
with copies; the lines are spooled to disk (TMPDIR). Exit codes: 0 done; 2 wrong setting or usage; 3 some lines are no
verdicts; 4 the state cannot be used; 5 the broker cannot be reached or rejects a request; 130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve clusters`."""
    parser.epilog = ABOUT
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="files of verdicts (JSONL, Parquet), or the directory of `backfill --verdicts`; - is standard input",
    )
    parser.add_argument("--state", type=local_path, metavar="DIR", help="a state directory with a log, or a snapshot")
    parser.add_argument(
        "--topics", action="store_true", help="read the topics of novel pages and of duplicates of a service (-c)"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=file_name,
        default="-",
        metavar="FILE",
        help="the output; .gz .xz .zst compress it (default: -)",
    )
    parser.add_argument(
        "--csv",
        action="store_true",
        help="write CSV with a heading instead of JSON lines; the default for an --out in .csv",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--copies", action="store_true", help="only pages whose cluster has more than one page")
    which.add_argument(
        "--drop-all-copies",
        action="store_true",
        dest="without_copies",
        help="only pages without a copy: remove every copy, including the original",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output")
    add_force_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """List the clusters and return the exit code."""
    if sum(map(bool, (options.files, options.state, options.topics))) != 1:
        raise SettingError(
            "clusters", "needs exactly one source: FILEs, --state DIR or --topics", None, "such as verdicts.jsonl"
        )
    check_names({"out": options.out}, options.files, options, [options.state])
    _check_csv(options)
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.insight.clusters.grouping import ClusterBuilder

    with tempfile.TemporaryFile(prefix="spotsieve-clusters-") as spool:
        grouping = ClusterBuilder(spool)
        with _disk_errors(), contextlib.closing(ProgressLine(sys.stderr, None)) as line:
            read = _read_topics if options.topics else _read_state if options.state else _read_files
            faults = read(options, grouping, line)
        with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
            listed = _write(options, grouping, line)
    totals = grouping.totals
    if options.json:
        errors = [str(fault) for fault in faults]
        show(json_text({**dataclasses.asdict(totals), "listed": listed, "errors": errors}))
    else:
        show(*_as_text(totals, listed), *(f"  {fault}" for fault in faults), to=sys.stderr)
    return EXIT_INPUT if faults else EXIT_OK


def _check_csv(options: argparse.Namespace) -> None:
    """Raises SettingError if --csv contradicts the name of the output."""
    from spotsieve.stream.files.formats import formats_by_name, is_csv

    if options.csv and not is_csv(options.out) and formats_by_name(options.out):
        rule, then = "must not be used with an --out that has the suffix of another format", "let it end in .csv"
        raise SettingError("--csv", rule, options.out, then)


def _read_files(options: argparse.Namespace, grouping: "ClusterBuilder", line: "ProgressLine") -> list[SpotsieveError]:
    """Add the verdict lines of files; returns the errors of lines that cannot be read."""
    from spotsieve.stream.files.inputs import check_inputs, total_bytes
    from spotsieve.stream.files.remote import is_url
    from spotsieve.stream.files.verdict_lines import verdict_files
    from spotsieve.stream.insight.clusters.sources import InputLines, read_files

    inputs = check_inputs(
        [part for name in options.files for part in ([name] if is_url(name) else map(str, verdict_files(Path(name))))]
    )
    total, read = total_bytes(inputs), InputLines()
    for statement in read_files(inputs, read, lambda _, done: line.update_step("bytes read", done, total or 0)):
        grouping.add(statement)
    return list(read.faults)


def _read_state(options: argparse.Namespace, grouping: "ClusterBuilder", line: "ProgressLine") -> list[SpotsieveError]:
    """Judge the log of a state again and add the verdicts."""
    from spotsieve.state.still.reading import read_only_state
    from spotsieve.stream.engine.warmup import announced_compiling
    from spotsieve.stream.insight.clusters.sources import check_has_log, judge_log

    with read_only_state(options.state, on_progress=line.update_step) as state:
        check_has_log(options.state)
        settings, log = settings_of_state(options, state), state.identity.log_identity
    with announced_compiling(line.say):
        for statement in judge_log(options.state, settings, log, line.update_step):
            grouping.add(statement)
    return []


def _read_topics(options: argparse.Namespace, grouping: "ClusterBuilder", line: "ProgressLine") -> list[SpotsieveError]:
    """Add the verdicts in the output topics of a service."""
    import asyncio

    from spotsieve.stream.base.errors import InputError
    from spotsieve.stream.insight.topics import read_verdicts
    from spotsieve.stream.observe.logs import configure_logs

    settings = settings_of(options)
    configure_logs(settings.log.model_copy(update={"level": "warning"}))
    others = asyncio.run(read_verdicts(settings, grouping.add, line.update_step))
    if not others:
        return []
    rule = f"must hold messages of a service only, and {others:,} messages have no verdict"
    return [InputError("topics", rule, None, "check topics.novel and topics.duplicates")]


def _write(options: argparse.Namespace, grouping: "ClusterBuilder", line: "ProgressLine") -> int:
    """Write the lines of the chosen pages; returns their number."""
    from spotsieve.stream.files.formats import CSV, is_csv
    from spotsieve.stream.files.outputs import OutputFile
    from spotsieve.stream.insight.clusters.sources import csv_heading, csv_line, json_line

    as_csv = options.csv or is_csv(options.out)
    output, listed = OutputFile(options.out, lines_only=True, writes=CSV if as_csv else ""), 0
    form: Callable[[Member], bytes] = csv_line if as_csv else json_line
    try:
        if as_csv:
            output.write_line(csv_heading())
        for member in _members(grouping):
            if member.size == 1 if options.without_copies else member.size > 1 or not options.copies:
                output.write_line(form(member))
                listed += 1
                line.update_step("pages listed", listed, grouping.totals.pages)
    except BaseException:
        with contextlib.suppress(BrokenPipeError):
            output.abandon()
        raise
    output.complete()
    return listed


def _members(grouping: "ClusterBuilder") -> "Iterator[Member]":
    members = grouping.members()
    while True:
        with _disk_errors():
            member = next(members, None)
        if member is None:
            return
        yield member


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    """Raises StateError if the spooled lines cannot be written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StateError(
            "the spool file",
            f"cannot be written: {error.strerror}",
            tempfile.gettempdir(),
            f"{write_advice(error)}, or set TMPDIR to a directory for the verdict lines",
        ) from None


def _as_text(totals: "Totals", listed: int) -> list[str]:
    """The summary as text."""
    without_copies = totals.pages - totals.in_clusters
    clusters = f"{totals.in_clusters:,} in {totals.clusters:,} clusters, the largest of {totals.largest:,}"
    lines = [f"{totals.pages:,} pages: {without_copies:,} without a copy, {clusters}; {listed:,} listed"]
    if totals.named:
        lines.append(f"  {totals.named:,} of them are only named by copies: their own verdicts were not read")
    if totals.repeated:
        lines.append(f"  {totals.repeated:,} lines repeat a page of an earlier line")
    return lines
