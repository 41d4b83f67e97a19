"""`spotsieve backfill` filters archives with many processes, of this machine or on Ray."""

import argparse
import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, SettingError, StateError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.filter import stop_on_signals, warn_of_repeats
from spotsieve.stream.cli.options import (
    add_force_argument,
    add_scheme_arguments,
    add_settings_arguments,
    directory,
    file_name,
    settings_of,
)

if TYPE_CHECKING:
    from spotsieve.state.log.local import LocalLog
    from spotsieve.state.store.state import State
    from spotsieve.stream.local.backfill.outcomes import OutcomeStore
    from spotsieve.stream.local.backfill.run import Backfill
    from spotsieve.stream.local.backfill.schedule import Readers
    from spotsieve.stream.local.summary import FilterSummary

ABOUT = """Verdicts and state are those of `spotsieve filter` on the same files in the same order, and the state is used
as one of its. JSONL, WARC, Parquet and others are read as there, from paths or URLs; on a cluster every machine needs
them under the same names. Each input gets a part of each output, DIR/NUMBER-NAME. A run that was stopped or killed
goes on where it was when the same command is run again. A cluster, and more than one shard, need the
extra `ray` (README, "Install"). A damaged file is judged up to the damage, the others whole, and the exit code is 3."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve backfill`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of pages, or URLs")
    parser.add_argument(
        "-o",
        "--out",
        type=file_name,
        metavar="DIR",
        help="novel and unchecked pages as they came, a file for each input",
    )
    parser.add_argument(
        "--verdicts", type=file_name, metavar="DIR", help="Parquet: a verdict for each page, a file for each input"
    )
    parser.add_argument(
        "--rejected", type=file_name, metavar="DIR", help="JSONL: what could not become a page, and why"
    )
    parser.add_argument(
        "--state",
        type=directory,
        metavar="DIR",
        required=True,
        help="remember pages in DIR, and go on from what it knows",
    )
    parser.add_argument(
        "--readers",
        type=_count,
        metavar="N",
        help="processes that read, sign and write (one more than this machine's CPUs)",
    )
    parser.add_argument(
        "--shards",
        type=_count,
        default=1,
        metavar="N",
        help="processes that hold a part of the state each (1: this one does)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="of a Ray cluster; local: Ray on this machine (default: this machine without Ray, but for --shards)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output")
    add_scheme_arguments(parser)
    add_force_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Filter the archives; the exit code."""
    from spotsieve.stream.base.startup import quick_start
    from spotsieve.stream.local.backfill.processes.server import begin_loading

    on_ray = options.address is not None or options.shards > 1
    settings = settings_of(options)
    if not on_ray:
        begin_loading()  # Readers are forked from it: it is busy for as long as the imports below.
    quick_start()
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.engine.warmup import compile_kernels
    from spotsieve.stream.files import check_inputs
    from spotsieve.stream.files.targets import place_of
    from spotsieve.stream.local.backfill.processes.readers import ProcessReaders
    from spotsieve.stream.local.backfill.ray_cluster import RayReaders, RayShards, check_ray, connect_ray
    from spotsieve.stream.local.backfill.run import Backfill
    from spotsieve.stream.sharding.rounds import limits_in_shards
    from spotsieve.stream.sign.schemes.registry import scheme_in_scope, scheme_of

    if on_ray:
        check_ray()
    scheme = scheme_in_scope(settings)
    limits_in_shards(settings, scheme)
    if "-" in options.files:
        raise SettingError(
            "FILE", "must be a file that can be read again", "-", "filter standard input by `spotsieve filter`"
        )
    inputs = check_inputs(options.files)
    warn_of_repeats(options.files, inputs)
    # Readers on other machines, and those of a resume from elsewhere, write to the same places.
    named = {name: getattr(options, name) for name in ("out", "verdicts", "rejected")}
    outputs = {flag: name and place_of(name) for flag, name in named.items()}
    _check_outputs(outputs, options.state)
    if options.state.exists() and not options.state.is_dir():
        raise StateError("--state", "must be a directory", str(options.state), "name another, or a new one")
    stopping = threading.Event()
    with contextlib.ExitStack() as stack:
        backfill = stack.enter_context(Backfill(options.state, settings, scheme, inputs, outputs))
        _check_inputs_stay(backfill)
        before = None if options.force else backfill.completed()
        if before is not None:
            show("spotsieve: this run was complete before: nothing is read again (--force does it anew)", to=sys.stderr)
            return _print_summary(before, options.json)
        _make_directories(outputs)
        if not backfill.resumed and not options.force:
            _check_parts(backfill)
        shards = options.shards if options.shards > 1 else 0
        count = options.readers or _readers_here()
        readers: Readers
        with contextlib.closing(ProgressLine(sys.stderr, None)) as notice:
            notice.say("compiling the kernels; after the first time they are read from a cache")
            compile_kernels(scheme_of(settings.scheme))
            if on_ray:
                notice.say("starting Ray")
                ray = stack.enter_context(connect_ray(options.address, count + shards))
                readers = RayReaders(ray, count, settings)
            else:
                readers = stack.enter_context(ProcessReaders(count, settings))
        line = ProgressLine(sys.stderr, None)

        def tell(text: str) -> None:
            line.close()
            show(f"spotsieve: {text}", to=sys.stderr)

        def make_shards(state: "State", log: "LocalLog", kept: "OutcomeStore") -> RayShards:
            return RayShards(ray, shards, settings, state, log, kept, tell)

        with contextlib.closing(line):
            backfill.open(line.update_records, make_shards if shards else None)
        for text in filter(None, (*backfill.notices, settings.scheme.caution())):
            tell(text)
        line = ProgressLine(sys.stderr, backfill.bytes_to_read)
        began = time.monotonic()
        with stop_on_signals(stopping), contextlib.closing(line):
            summary = backfill.run(readers, stopping.is_set, lambda so_far: line.update(*so_far), tell)
        summary.seconds = time.monotonic() - began
    return _print_summary(summary, options.json)


def _print_summary(summary: "FilterSummary", as_json: bool) -> int:
    """Print what was found; the exit code."""
    if as_json:
        show(json.dumps(summary.as_json()))
    else:
        show(*summary.as_text().split("\n"), to=sys.stderr)
    if summary.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_INPUT if summary.faults else EXIT_OK


def _readers_here() -> int:
    return len(os.sched_getaffinity(0)) + 1


def _count(text: str) -> int:
    from spotsieve.stream.sharding.shares import MOST_SHARDS

    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= MOST_SHARDS:
        raise argparse.ArgumentTypeError(f"must be 1..{MOST_SHARDS}, got {text!r}")
    return number


def _check_outputs(outputs: dict[str, str | None], state: Path) -> None:
    """Raises SettingError where an output is no directory, two are one, or it lies where the state does.

    outputs: their places
    """
    from spotsieve.stream.files.remote import is_url
    from spotsieve.stream.files.targets import STDOUT
    from spotsieve.stream.local.backfill.parts import check_pyarrow

    if outputs["verdicts"]:
        check_pyarrow()
    taken = dict[str, str]()
    for flag, name in outputs.items():
        if name is None:
            continue
        is_path = not is_url(name)
        if name == STDOUT or (is_path and Path(name).exists() and not Path(name).is_dir()):
            raise SettingError(f"--{flag}", "must be a directory", name, "name another, or a new one")
        if name.startswith("memory:"):
            raise SettingError(f"--{flag}", "must outlive the process that writes it", name, "name another place")
        if is_path and Path(name).is_relative_to(state.resolve()):
            raise SettingError(f"--{flag}", "must lie outside of --state", name, "name a directory beside it")
        if name in taken:
            raise SettingError(f"--{flag}", f"must not be the directory of --{taken[name]}", name, "name another")
        taken[name] = flag


def _check_inputs_stay(backfill: "Backfill") -> None:
    """Raises SettingError where a part would be written over an input, with --force too."""
    from spotsieve.stream.files.targets import places_of

    inputs = {task.file.place for task in backfill.tasks}
    for parts in backfill.parts:
        for flag, name in parts._asdict().items():
            if name is not None and not inputs.isdisjoint(places_of(name)):
                raise SettingError(f"--{flag}", "must not be written over an input", name, "name another directory")


def _make_directories(outputs: dict[str, str | None]) -> None:
    from spotsieve.stream.files.remote import is_url

    for flag, name in outputs.items():
        if name is not None and not is_url(name):
            try:
                Path(name).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SettingError(f"--{flag}", f"cannot be made: {error.strerror}", name, "name another") from None


def _check_parts(backfill: "Backfill") -> None:
    """Raises SettingError where a part of a new run is there already."""
    from spotsieve.stream.cli.options import check_new

    for parts in backfill.parts:
        check_new(parts._asdict())
