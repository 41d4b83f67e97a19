"""`spotsieve query` prints the verdict that each page of some files would get from a state, and indexes nothing."""

import argparse
import contextlib
import sys
import time
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_OK, EXIT_SUSPICIOUS, SettingError
from spotsieve.stream.base.terminal import json_text, show
from spotsieve.stream.cli.options import (
    add_force_argument,
    add_settings_arguments,
    add_timeout_argument,
    check_names,
    check_stdin_name,
    file_name,
    local_path,
    settings_of_state,
)

if TYPE_CHECKING:
    from spotsieve.stream.local.summary import FilterSummary

ABOUT = """Each page gets the verdict that it would get as the next page of the stream; pages of the files are not
compared with each other. A page that the state itself has indexed is novel (first_attempt). DIR is a snapshot, or the
state of a service or of `spotsieve filter`; a process that uses the state is asked for a checkpoint, and nothing is
changed. The state determines the settings; those of -c must agree with it. Reads the same files as `spotsieve filter`.
Exit codes: 0 done, whatever the verdicts; 2 wrong setting or usage; 3 a damaged file (the rest was judged); 4 the state
cannot be used; 130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve query`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of pages; - is standard input")
    parser.add_argument(
        "--state", type=local_path, required=True, metavar="DIR", help="a state directory, or a snapshot"
    )
    parser.add_argument(
        "--verdicts",
        type=file_name,
        metavar="FILE",
        help="JSONL: the verdict of each page, in the order of the pages (default: standard output)",
    )
    parser.add_argument(
        "--pages",
        type=file_name,
        metavar="FILE",
        help="novel and unchecked pages, unchanged, like `filter --out`; - is standard output, without verdicts",
    )
    parser.add_argument(
        "--rejected", type=file_name, metavar="FILE", help="JSONL: records that hold no page, with the reason"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        dest="matches",
        help='add "matches" to each verdict: all pages of the state that it is a copy of, instead of the earliest only',
    )
    parser.add_argument(
        "--stdin-name",
        default="-",
        metavar="NAME",
        help="replaces the path in the ids of pages from standard input",
    )
    add_timeout_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON, verdicts only to --verdicts")
    add_force_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print the verdicts and return the exit code."""
    from spotsieve.stream.base.startup import quick_start

    quick_start()
    from spotsieve.state.still.reading import read_only_state
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.base.verdict import Reason
    from spotsieve.stream.engine.warmup import compile_kernels
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.files.formats import form_of
    from spotsieve.stream.files.outputs import FileOutputs
    from spotsieve.stream.files.targets import STDOUT
    from spotsieve.stream.local.against import StateQuery
    from spotsieve.stream.local.query import query_files
    from spotsieve.stream.local.summary import FilterSummary
    from spotsieve.stream.sign.schemes.registry import scheme_of

    check_stdin_name(options)
    inputs = check_inputs(options.files, options.stdin_name)
    verdicts = options.verdicts or (None if options.json or options.pages == STDOUT else STDOUT)
    names = [*(file.place for file in inputs), *options.files]
    outputs_by_flag = {"pages": options.pages, "verdicts": verdicts, "rejected": options.rejected}
    check_names(outputs_by_flag, names, options, [options.state])
    if options.matches and verdicts is None:
        then = "add --verdicts FILE, or leave --all out"
        raise SettingError("--all", "needs an output of verdicts, whose lines get the field", None, then)
    form = form_of(inputs, options.pages) if options.pages else None
    line = ProgressLine(sys.stderr, total_bytes(inputs))
    summary = FilterSummary(files=len(inputs))
    with contextlib.closing(line), contextlib.ExitStack() as closing:
        state = closing.enter_context(read_only_state(options.state, options.timeout, line.update_step))
        settings = settings_of_state(options, state)
        query = StateQuery(state, settings)
        compile_kernels(scheme_of(settings.scheme), line.say)
        outputs = closing.enter_context(FileOutputs.open(options.pages, None, verdicts, options.rejected))
        if outputs.out is not None and form is not None:
            outputs.out.know_record(*form)
        began = time.monotonic()
        query_files(
            inputs,
            query,
            outputs,
            summary,
            matches=options.matches,
            on_batch=lambda: line.update(summary.pages, summary.duplicates, summary.bytes_read),
        )
        summary.seconds = time.monotonic() - began
        outputs.complete()
    if options.json:
        show(json_text({**summary.as_json(), "passes_over_all_buckets": query.passes}))
    else:
        show(*_as_text(summary).split("\n"), to=sys.stderr)
    if summary.faults:
        return EXIT_INPUT
    return EXIT_SUSPICIOUS if summary.reasons[Reason.INTERNAL_ERROR.label] else EXIT_OK


def _as_text(summary: "FilterSummary") -> str:
    """The summary as text."""
    from spotsieve.stream.base.progress import duration
    from spotsieve.stream.base.terminal import escape_control_characters

    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in summary.verdicts.items())
    lines = [
        f"{summary.pages:,} pages judged in {duration(summary.seconds)}: {counts or 'none'}",
        f"  the state has {summary.entries:,} pages; nothing was indexed",
    ]
    if summary.rejected:
        lines.append(f"  {summary.rejected.total():,} records hold no page")
    lines += [f"  {escape_control_characters(str(fault))}" for fault in summary.faults]
    return "\n".join(lines)
