"""`spotsieve replay` judges a topic again, next to the service, and compares with the recorded verdicts."""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_DIFFERENT, EXIT_INTERRUPTED, EXIT_OK, SettingError, StateError
from spotsieve.stream.base.terminal import json_text, show
from spotsieve.stream.cli.options import (
    add_force_argument,
    add_scheme_arguments,
    add_settings_arguments,
    check_names,
    local_path,
    settings_of,
)

if TYPE_CHECKING:
    from spotsieve.stream.base.settings.model import Settings

PROGRESS_SECONDS = 0.5
ABOUT = """Does not touch the service: uses no consumer group and no offsets, and changes neither topics nor the state.
Pages are judged in the order of the log, whatever micro-batches, workers and restarts there were; with the same
settings, the verdicts of a whole topic are the recorded ones. Pages that are missing in the log are judged by timestamp
if they come before the first or after the last page of their partition in the log, otherwise at their place in between.
Every page is read and signed again. Memory: 18 bytes per offset of the range, in addition to the state, which is on
disk (TMPDIR, or --state). The environment's SPOTSIEVE_... variables win over both files, and --set over them. Exit
codes: 0 compared, even if verdicts differ; 6 verdicts differ, with --fail-on-difference; 2 wrong setting or usage, or
no message in the range; 4 state or log cannot be used; 5 the broker cannot be reached or rejects a request; 130
interrupted, with a report of the pages compared so far."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve replay`."""
    parser.epilog = ABOUT
    bound = "an offset of every partition, PARTITION:OFFSET joined by commas, or a time (ISO 8601, epoch milliseconds)"
    parser.add_argument("--from", dest="first", metavar="PLACE", help=f"start at {bound} (default: the first message)")
    parser.add_argument("--to", dest="end", metavar="PLACE", help="end before this place (default: the current end)")
    parser.add_argument(
        "--with",
        dest="other",
        type=local_path,
        metavar="FILE",
        help="judge with the settings of this file; broker and topics stay those of -c",
    )
    parser.add_argument(
        "--into",
        metavar="FILE|topic:NAME",
        help="write the verdict line of each page to FILE (.gz .xz .zst), as filter --verdicts does; or send novel and "
        "unchecked pages to the topic NAME, which must exist and must not belong to a service",
    )
    parser.add_argument(
        "--state",
        type=local_path,
        metavar="DIR",
        help="keep the state of the replay in DIR, which must be new or empty",
    )
    parser.add_argument(
        "--examples", type=int, default=3, metavar="N", help="print N pages for each kind of difference (3)"
    )
    parser.add_argument("--fail-on-difference", action="store_true", help="exit with 6 if a verdict differs")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_scheme_arguments(parser)
    add_force_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Replay and return the exit code."""
    from spotsieve.stream.insight.replay.range import parse_bound

    service, judged = _service_settings(options), settings_of(options, config=options.other)
    first = parse_bound("--from", options.first) if options.first is not None else None
    end = parse_bound("--to", options.end) if options.end is not None else None
    if options.examples < 0:
        raise SettingError("--examples", "must be 0 or more", options.examples, "such as --examples 10")
    check_names({"into": options.into}, [str(options.other or "")], options, [options.state])
    with _state_directory(options.state, service) as directory, _progress() as on_progress:
        # Not imported for --help: numba and aiokafka take a second.
        from spotsieve.stream.insight.replay.report import as_json, as_text
        from spotsieve.stream.insight.replay.run import Replay, ReplayRequest
        from spotsieve.stream.observe.logs import configure_logs

        configure_logs(service.log.model_copy(update={"level": "warning"}))
        report = Replay(
            ReplayRequest(service, judged, directory, first, end, options.examples, options.into), on_progress
        ).run()
    show(*(json_text(as_json(report), indent=2) if options.json else as_text(report)).split("\n"))
    if report.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_DIFFERENT if options.fail_on_difference and not report.equal else EXIT_OK


def _service_settings(options: argparse.Namespace) -> "Settings":
    """The settings of the service that recorded the verdicts: -c, the environment, and --set for broker and topics."""
    service = settings_of(argparse.Namespace(config=options.config, given=[]))
    overridden = settings_of(argparse.Namespace(config=options.config, given=options.given))
    return service.model_copy(update={"kafka": overridden.kafka, "topics": overridden.topics})


@contextlib.contextmanager
def _state_directory(directory: Path | None, service: "Settings") -> Iterator[Path]:
    """The directory of --state, or a temporary one. Raises StateError unless it is new or empty."""
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="spotsieve-replay-") as made:
            yield Path(made)
        return
    if directory.resolve() == service.index.directory.resolve():
        raise StateError(
            "--state", "must not be the service's state (index.directory)", str(directory), "choose a new directory"
        )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise StateError(
            "--state",
            "must be a new or an empty directory: a replay cannot continue another state",
            str(directory),
            "choose a new directory, or delete the state of an earlier replay",
        )
    yield directory


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A function that shows a text on the progress line, at most twice a second."""
    from spotsieve.stream.base.progress import ProgressLine

    last = float("-inf")
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:

        def on_progress(text: str) -> None:
            nonlocal last
            if time.monotonic() - last >= PROGRESS_SECONDS:
                last = time.monotonic()
                line.say(text)

        yield on_progress
