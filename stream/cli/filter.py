"""`spotsieve filter` filters files, without a broker."""

import argparse
import contextlib
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.terminal import has_reader, json_text, show
from spotsieve.stream.cli.options import (
    add_against_argument,
    add_force_argument,
    add_salt_argument,
    add_scheme_arguments,
    add_settings_arguments,
    add_text_argument,
    add_timeout_argument,
    check_names,
    check_stdin_name,
    file_name,
    local_path,
    other_states,
    settings_of,
    show_in_help_all,
)

if TYPE_CHECKING:
    from spotsieve.stream.files.inputs import Input

ABOUT = """Reads JSONL (one object per line, see [input] in `spotsieve config example`), WARC, Parquet, WACZ, ARC and
pages that a browser saved (MHTML, SingleFile), by content. Reads gzip, xz, zstd and bzip2, and writes them by the name
of the output (.jsonl, .warc or .parquet).
Inputs and outputs can be URLs, such as s3://bucket/pages.warc.gz. Outputs get their names when the run is complete; an
interrupted run leaves NAME.partial. A damaged file is judged up to the damage, all other files completely, and the exit
code is 3. Exit code 8: done, but nearly all pages have too little text or are exact copies of one page, or an internal
error left pages unchecked."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve filter`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of pages, or URLs; - is standard input")
    parser.add_argument(
        "-o",
        "--out",
        type=file_name,
        metavar="FILE",
        help="novel and unchecked pages, unchanged; - is standard output, the default if it is a pipe or a file",
    )
    parser.add_argument(
        "--revisits",
        action="store_true",
        help="for WARC files: write a revisit record, which names the original, to --out for each dropped page",
    )
    parser.add_argument(
        "--duplicates",
        type=file_name,
        metavar="FILE",
        help="JSONL: the verdict of each dropped page, with its original",
    )
    parser.add_argument(
        "--verdicts", type=file_name, metavar="FILE", help="JSONL: the verdict of each page, in the order of the pages"
    )
    parser.add_argument(
        "--rejected", type=file_name, metavar="FILE", help="JSONL: records that hold no page, with the reason"
    )
    parser.add_argument(
        "--state",
        type=local_path,
        metavar="DIR",
        help="compare pages with those in DIR, and add them to it (default: a temporary state)",
    )
    add_against_argument(parser)
    add_salt_argument(parser)
    parser.add_argument(
        "--stdin-name",
        default="-",
        metavar="NAME",
        help="replaces the path in the ids of pages from standard input; use a new NAME for each input of a --state",
    )
    parser.add_argument(
        "--cluster-ids",
        action="store_true",
        help='add "cluster" to each line of --verdicts and --duplicates: the id of the page that its copies share',
    )
    add_text_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output")
    add_scheme_arguments(parser)
    add_force_argument(parser)
    add_timeout_argument(parser)
    add_settings_arguments(parser)
    show_in_help_all(
        *(parser, "--timeout", "--salt-from", "--revisits", "--rejected", "--stdin-name", "--cluster-ids", "--text")
    )


def run(options: argparse.Namespace) -> int:
    """Filter the files and return the exit code."""
    from spotsieve.stream.base.startup import quick_start

    quick_start()
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.engine.warmup import compile_kernels
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.files.formats import form_of
    from spotsieve.stream.files.inputs import STDIN
    from spotsieve.stream.files.outputs import FileOutputs
    from spotsieve.stream.files.verdict_lines import ClusterIds
    from spotsieve.stream.local.against import log_ids_of, open_states
    from spotsieve.stream.local.engines import LocalEngine
    from spotsieve.stream.local.file_filter import TextColumns, check_text_files, filter_files
    from spotsieve.stream.local.input_ledger import check_and_note_inputs, name_of_stream
    from spotsieve.stream.local.summary import FilterSummary
    from spotsieve.stream.sign.schemes.registry import scheme_in_scope, scheme_of

    settings = settings_of(options, {"index.salt_from": options.salt_from})
    check_stdin_name(options)
    if options.cluster_ids and not (options.verdicts or options.duplicates):
        then = "such as --verdicts verdicts.jsonl"
        raise SettingError("--cluster-ids", "needs --verdicts or --duplicates, whose lines get the field", None, then)
    inputs = check_inputs(options.files, options.stdin_name)
    warn_of_repeats(options.files, inputs)
    out = _pages_output(options)
    names = {"out": out, **{flag: getattr(options, flag) for flag in ("duplicates", "verdicts", "rejected")}}
    places = [*(file.place for file in inputs), *options.files]
    used = [options.state, options.salt_from, *options.against]
    check_names(names, places, options, used)
    if options.revisits and out is None:
        raise SettingError(
            "--revisits", "needs --out FILE, which gets the records", None, "such as --out novel.warc.gz"
        )
    form = form_of(inputs, out) if out is not None else None
    states, settings = other_states(options, settings, options.state)
    scheme = scheme_in_scope(settings)
    sources = [file.source for file in inputs]
    texts = None
    if options.text:
        check_text_files(out, [*sources, *filter(None, [out])])
        texts = TextColumns(scheme)
    if form is not None and texts is not None:
        form = texts.add_empty(*form), form[1]
    summary = FilterSummary(files=len(inputs))
    stopping = threading.Event()
    with contextlib.ExitStack() as stack:
        with contextlib.closing(ProgressLine(sys.stderr, None)) as notice:
            compile_kernels(scheme_of(settings.scheme), notice.say)
        directory = stack.enter_context(_state_directory(options.state))
        with contextlib.closing(ProgressLine(sys.stderr, None)) as catching_up:
            others = stack.enter_context(open_states(states, settings, options.timeout, catching_up.update_step))
            local = LocalEngine(
                directory,
                settings,
                scheme,
                catching_up.update_records,
                others=others,
                with_marks=texts is not None,
            )
            stack.enter_context(local)
        log_ids = log_ids_of(states)
        if options.state is not None:
            named = [source for source in sources if source != STDIN]
            check_and_note_inputs(directory, settings.input, named, local.knows_source, log_ids)

        def check_stream(number: int) -> None:
            named = [name_of_stream(STDIN, number)]
            check_and_note_inputs(directory, settings.input, named, lambda _: local.knows_source(STDIN), log_ids)

        for text in filter(None, (*local.notices, settings.scheme.caution())):
            show(f"spotsieve: {text}", to=sys.stderr)
        outputs = stack.enter_context(FileOutputs.open(**names))
        if outputs.out is not None and form is not None:
            outputs.out.know_record(*form)
        line = ProgressLine(sys.stderr, total_bytes(inputs))
        began = time.monotonic()
        with stop_on_signals(stopping), contextlib.closing(line):
            filter_files(
                inputs,
                settings,
                local,
                outputs,
                summary,
                stopping,
                revisits=options.revisits,
                clusters=ClusterIds() if options.cluster_ids else None,
                texts=texts,
                on_batch=lambda: line.update(summary.pages, summary.duplicates, summary.bytes_read),
                on_stream=check_stream,
            )
        if not summary.interrupted:
            outputs.complete()
        summary.seconds = time.monotonic() - began
    caution = settings.scheme.caution()
    if options.json:
        show(json_text(summary.as_json() | ({"caution": caution} if caution else {})))
    else:
        show(*summary.as_text().split("\n"), *([f"  {caution}"] if caution else []), to=sys.stderr)
    return summary.exit_code


def _pages_output(options: argparse.Namespace) -> str | None:
    """The output of the pages: that of --out, or standard output if it has a reader and no other use; None for none.

    Prints a hint if no output is wanted, which is mostly a mistake.
    """
    out: str | None = options.out
    if out is not None or options.json:
        return out
    from spotsieve.stream.files.targets import STDOUT

    others = (options.duplicates, options.verdicts, options.rejected)
    if STDOUT not in others and has_reader(sys.stdout):
        return STDOUT
    if not any(others) and sys.stdout.isatty():
        show("spotsieve: nothing gets the pages; add --out FILE, or pipe the output into a program", to=sys.stderr)
    return None


@contextlib.contextmanager
def _state_directory(directory: Path | None) -> Iterator[Path]:
    """The directory of --state, or a temporary one. Raises StateError if it is not a directory."""
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="spotsieve-") as made:
            yield Path(made)
        return
    if directory.exists() and not directory.is_dir():
        raise StateError("--state", "must be a directory", str(directory), "choose another or a new directory")
    yield directory


def warn_of_repeats(files: Sequence[str], inputs: "Sequence[Input]") -> None:
    """Print a warning if a file is named twice.  files: the names  inputs: the distinct files"""
    if len(inputs) < len(files):
        show("spotsieve: a file is named twice; it is read once", to=sys.stderr)


@contextlib.contextmanager
def stop_on_signals(stopping: threading.Event) -> Iterator[None]:
    """Set `stopping` at the first SIGINT or SIGTERM, so that the micro-batch is finished; the second stops at once."""

    def stop(*_: object) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
