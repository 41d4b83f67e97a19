"""`spotsieve backfill` filters archives with many processes, on this machine or on a Ray cluster."""

import argparse
import contextlib
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.terminal import json_text, show
from spotsieve.stream.cli.filter import stop_on_signals, warn_of_repeats
from spotsieve.stream.cli.options import (
    add_against_argument,
    add_force_argument,
    add_salt_argument,
    add_scheme_arguments,
    add_settings_arguments,
    add_text_argument,
    add_timeout_argument,
    check_new,
    check_outside,
    file_name,
    local_path,
    other_states,
    settings_of,
    whole_number_within,
)

if TYPE_CHECKING:
    from spotsieve.state.log.local import LocalLog
    from spotsieve.state.store.state import State
    from spotsieve.stream.local.backfill.outcomes import OutcomeStore
    from spotsieve.stream.local.backfill.run import Backfill
    from spotsieve.stream.local.backfill.schedule import Readers
    from spotsieve.stream.local.summary import FilterSummary

ABOUT = """Verdicts and state are those of `spotsieve filter` on the same files in the same order, and the state can be
used by `filter` afterwards. Reads the same formats as `filter`, from paths or URLs; on a cluster every machine needs
the files under the same names. Each input gets its own part of each output, DIR/NUMBER-NAME. To resume a run that was
stopped or killed, run the same command again. A cluster, and more than one shard, need the extra `ray` (README,
"Install"). A damaged file is judged up to the damage, all other files completely, and the exit code is 3.
Exit code 8: done, but nearly all pages have too little text or are exact copies of one page, or an internal error left
pages unchecked."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve backfill`."""
    parser.epilog = ABOUT
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of pages, or URLs")
    parser.add_argument(
        "-o",
        "--out",
        type=file_name,
        metavar="DIR",
        help="novel and unchecked pages, unchanged, a file for each input",
    )
    parser.add_argument(
        "--verdicts", type=file_name, metavar="DIR", help="Parquet: the verdict of each page, a file for each input"
    )
    parser.add_argument(
        "--cluster-ids",
        action="store_true",
        help='add the column "cluster" to --verdicts: the id of the page that its copies share (policy.keep = first)',
    )
    add_text_argument(parser)
    parser.add_argument(
        "--rejected", type=file_name, metavar="DIR", help="JSONL: records that hold no page, with the reason"
    )
    parser.add_argument(
        "--state",
        type=local_path,
        metavar="DIR",
        required=True,
        help="the state: pages are compared with those in DIR, and added to it",
    )
    add_against_argument(parser)
    add_salt_argument(parser)
    parser.add_argument(
        "--readers",
        type=_count,
        metavar="N",
        help="processes that read, sign and write (number of CPUs + 1)",
    )
    parser.add_argument(
        "--shards",
        type=_count,
        default=1,
        metavar="N",
        help="processes that each hold a part of the state (1: this process holds it)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="address of a Ray cluster; local: Ray on this machine (default: no Ray, unless --shards needs it)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output")
    add_scheme_arguments(parser)
    add_force_argument(parser)
    add_timeout_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Filter the archives and return the exit code."""
    from spotsieve.stream.base.startup import quick_start
    from spotsieve.stream.local.backfill.processes.server import begin_loading

    on_ray = options.address is not None or options.shards > 1
    settings = settings_of(options, {"index.salt_from": options.salt_from})
    if not on_ray:
        begin_loading()  # Readers are forked from this server. It loads while this process imports.
    quick_start()
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.engine.warmup import compile_kernels
    from spotsieve.stream.files import check_inputs
    from spotsieve.stream.files.targets import place_of
    from spotsieve.stream.local.backfill.processes.readers import ProcessReaders
    from spotsieve.stream.local.backfill.ray_cluster import RayReaders, RayShards, check_ray, connect_ray
    from spotsieve.stream.local.backfill.run import Backfill
    from spotsieve.stream.local.file_filter import TextColumns, check_text_files
    from spotsieve.stream.sharding.rounds import limits_in_shards
    from spotsieve.stream.sign.schemes.registry import scheme_in_scope, scheme_of

    if on_ray:
        check_ray()
    scheme = scheme_in_scope(settings)
    limits_in_shards(settings, scheme)
    if "-" in options.files:
        raise SettingError(
            "FILE", "must be a file that can be read again", "-", "use `spotsieve filter` for standard input"
        )
    inputs = check_inputs(options.files)
    warn_of_repeats(options.files, inputs)
    # Absolute places: readers on other machines, and a resumed run in another folder, use the same ones.
    names = {flag: getattr(options, flag) for flag in ("out", "verdicts", "rejected")}
    outputs = {flag: name and place_of(name) for flag, name in names.items()}
    _check_outputs(outputs, [options.state, options.salt_from, *options.against])
    if options.state.exists() and not options.state.is_dir():
        raise StateError("--state", "must be a directory", str(options.state), "choose another or a new directory")
    if options.cluster_ids and not options.verdicts:
        then = "such as --verdicts verdicts"
        raise SettingError("--cluster-ids", "needs --verdicts, which get the column", None, then)
    if options.cluster_ids and settings.policy.keep != "first":
        # A reader does not know which pages of other readers' inputs superseded others.
        rule, then = 'needs policy.keep = "first"', "leave it out, and run `spotsieve clusters` over --verdicts"
        raise SettingError("--cluster-ids", rule, settings.policy.keep, then)
    if options.text:
        check_text_files(outputs["out"], [file.source for file in inputs])
        TextColumns(scheme)  # The readers make theirs; a scheme without main text is refused here.
    states, settings = other_states(options, settings, options.state)
    stopping = threading.Event()
    with contextlib.ExitStack() as stack:
        backfill = Backfill(
            options.state,
            settings,
            scheme,
            inputs,
            outputs,
            states,
            options.timeout,
            options.cluster_ids,
            options.text,
        )
        stack.enter_context(backfill)
        _check_inputs_stay(backfill, options.config)
        completed = None if options.force else backfill.completed()
        if completed is not None:
            show("spotsieve: this run is already complete; use --force to run it again", to=sys.stderr)
            return _print_summary(completed, options.json)
        _make_directories(outputs)
        if not (backfill.resumed or backfill.repeats_faulty or options.force):
            _check_parts(backfill)
        shards = options.shards if options.shards > 1 else 0
        count = options.readers or len(os.sched_getaffinity(0)) + 1
        readers: Readers
        with contextlib.closing(ProgressLine(sys.stderr, None)) as notice:
            compile_kernels(scheme_of(settings.scheme), notice.say)
            if on_ray:
                notice.say("starting Ray")
                ray = stack.enter_context(connect_ray(options.address, count + shards))
                readers = RayReaders(ray, count, settings)
            else:
                readers = stack.enter_context(ProcessReaders(count, settings))
        line = ProgressLine(sys.stderr, None)

        def notify(text: str) -> None:
            line.close()
            show(f"spotsieve: {text}", to=sys.stderr)

        def make_shards(state: "State", log: "LocalLog", outcomes: "OutcomeStore") -> RayShards:
            return RayShards(ray, shards, settings, state, log, outcomes, notify)

        with contextlib.closing(line):
            backfill.open(line.update_records, make_shards if shards else None)
        for text in filter(None, (*backfill.notices, settings.scheme.caution())):
            notify(text)
        line = ProgressLine(sys.stderr, backfill.bytes_to_read)
        began = time.monotonic()
        with stop_on_signals(stopping), contextlib.closing(line):
            summary = backfill.run(readers, stopping.is_set, lambda so_far: line.update(*so_far), notify)
        summary.seconds = time.monotonic() - began
    return _print_summary(summary, options.json)


def _print_summary(summary: "FilterSummary", as_json: bool) -> int:
    """Print the summary and return the exit code."""
    if as_json:
        show(json_text(summary.as_json()))
    else:
        show(*summary.as_text().split("\n"), to=sys.stderr)
    return summary.exit_code


def _count(text: str) -> int:
    from spotsieve.stream.sharding.shares import MOST_SHARDS

    return whole_number_within(text, 1, MOST_SHARDS, f"1..{MOST_SHARDS}")


def _check_outputs(outputs: dict[str, str | None], states: Sequence[Path | None]) -> None:
    """Raises SettingError if an output is not a directory, is inside a state, or is the same as another output.

    outputs: flag -> place  states: directories of the states that the command uses; None is skipped
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
            raise SettingError(f"--{flag}", "must be a directory", name, "choose another or a new directory")
        if name.startswith("memory:"):
            raise SettingError(f"--{flag}", "must outlive the process that writes it", name, "choose another place")
        check_outside(flag, [name], states)
        if name in taken:
            raise SettingError(
                f"--{flag}", f"must not be the directory of --{taken[name]}", name, "choose another directory"
            )
        taken[name] = flag


def _check_inputs_stay(backfill: "Backfill", config: Path | None) -> None:
    """Raises SettingError if an output would overwrite an input or the file of -c, even with --force."""
    from spotsieve.stream.files.targets import place_of, places_of

    taken = {task.file.place: "an input" for task in backfill.tasks}
    taken.update({} if config is None else {place_of(str(config)): "the file of -c"})
    for parts in backfill.parts:
        for flag, name in parts._asdict().items():
            what = next((taken[place] for place in places_of(name) if place in taken), None) if name else None
            if what is not None:
                raise SettingError(f"--{flag}", f"must not overwrite {what}", name, "choose another directory")


def _make_directories(outputs: dict[str, str | None]) -> None:
    from spotsieve.stream.files.remote import is_url

    for flag, name in outputs.items():
        if name is not None and not is_url(name):
            try:
                Path(name).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SettingError(
                    f"--{flag}", f"cannot be created: {error.strerror}", name, "choose another"
                ) from None


def _check_parts(backfill: "Backfill") -> None:
    """Raises SettingError if an output of a new run exists."""
    for parts in backfill.parts:
        check_new(parts._asdict())
