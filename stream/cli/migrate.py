"""`spotsieve migrate` moves the state of a service, or of a filter, to other settings."""

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.base.terminal import json_text, show
from spotsieve.stream.cli.options import add_scheme_arguments, add_settings_arguments, local_path, settings_of

if TYPE_CHECKING:
    from spotsieve.stream.files import Input
    from spotsieve.stream.insight.migrate.report import MigrationReport

ABOUT = """A service: -c is the running configuration, --to the new one, with another topics.log, which must exist and
be empty, and another index.directory. Input topic and group stay the same. The command runs next to the service, does
not change it, and stops at the end of the old log. To resume a run that was stopped or killed, start it again. Workers
with the new configuration can be started at any time: they follow the new log, and wait. Then --switch ends the old
log, so that every worker with the old settings stops (exit code 4), moves the rest and opens the new log: the waiting
workers continue at the committed offsets. Files: --from-state is the directory of `spotsieve filter --state`, --state a
new directory. Pages are signed again only if the new settings give other signatures: from the input topic, as far as it
holds them, and from the files of --from-pages. STATE/migration/differences.jsonl has a line for each verdict that
differs. Exit codes: 0 moved; 2 wrong setting or usage; 4 state or log cannot be used; 5 the broker cannot be reached or
rejects a request; 130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve migrate`."""
    parser.epilog = ABOUT
    parser.add_argument(
        "--to", type=local_path, metavar="FILE", help="the new configuration of a service (default: -c, with --set)"
    )
    parser.add_argument(
        "--switch",
        action="store_true",
        help="end the old log, move the rest, and open the new log; this cannot be undone",
    )
    parser.add_argument(
        "--from-state", type=local_path, metavar="DIR", help="the old directory of a `spotsieve filter --state`"
    )
    parser.add_argument("--state", type=local_path, metavar="DIR", help="with --from-state: the new directory")
    parser.add_argument(
        "--from-pages",
        nargs="+",
        default=[],
        metavar="FILE",
        help="WARC, JSONL or Parquet with pages to sign again that the input topic no longer holds",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_scheme_arguments(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Migrate and return the exit code."""
    if (options.from_state is None) != (options.state is None):
        missing = "--state" if options.state is None else "--from-state"
        raise SettingError(missing, "must be given too", None, "use --from-state OLD --state NEW, both directories")
    if options.from_state is not None and (options.switch or options.to is not None):
        raise SettingError("--from-state", "must not be used with --to or --switch", None, "files have no workers")
    report = _of_service(options) if options.from_state is None else _of_files(options)
    from spotsieve.stream.insight.migrate.report import as_json, as_text

    show(*(json_text(as_json(report), indent=2) if options.json else as_text(report)).split("\n"))
    return EXIT_OK


def _of_files(options: argparse.Namespace) -> "MigrationReport":
    settings = settings_of(options)
    if options.from_state.resolve() == options.state.resolve():
        raise SettingError(
            "--state", "must be another directory than --from-state", str(options.state), "choose a new directory"
        )
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.engine.warmup import announced_compiling
    from spotsieve.stream.insight.migrate.local import migrate_state

    with contextlib.closing(ProgressLine(sys.stderr, None)) as line, announced_compiling(line.say):
        return migrate_state(options.from_state, options.state, settings, line.update_step, _files(options))


def _of_service(options: argparse.Namespace) -> "MigrationReport":
    if options.config is None:
        raise SettingError("-c", "must name the configuration of the running service", None, "and --to the new one")
    old = settings_of(argparse.Namespace(config=options.config, given=[]))
    new = settings_of(options, config=options.to)
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.engine.warmup import announced_compiling
    from spotsieve.stream.insight.migrate.service import migrate_service
    from spotsieve.stream.observe.logs import configure_logs

    configure_logs(new.log, of_a_command=True)
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line, announced_compiling(line.say):
        return migrate_service(old, new, options.switch, line.update_step, _files(options))


def _files(options: argparse.Namespace) -> "list[Input]":
    from spotsieve.stream.files import check_inputs

    return check_inputs(options.from_pages)
