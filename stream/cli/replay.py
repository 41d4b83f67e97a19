"""`spotsieve replay` judges a topic again, beside the service, and compares with the recorded verdicts."""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_DIFFERENT, EXIT_INTERRUPTED, EXIT_OK, SettingError, StateError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import (
    add_force_argument,
    add_scheme_arguments,
    add_settings_arguments,
    check_new,
    directory,
    settings_of,
)

if TYPE_CHECKING:
    from spotsieve.stream.base.settings.model import Settings

PROGRESS_SECONDS = 0.5
ABOUT = """Nothing of the service is touched: no consumer group, no offsets, no topic, no state of its own. Pages are
judged in the order in which the log names them, whatever micro-batches, workers and restarts there were; with the same
settings the verdicts of a whole topic are the recorded ones. Pages that the log does not name are judged by timestamp
(before the first that it names of their partition, after the last), or in between where they lie. Every page is read
and signed again. Memory: 18 bytes an offset of the range, beside the state, which lies on disk (TMPDIR, or
--state). The environment's SPOTSIEVE_... variables win over both files, and --set over them. Exit codes: 0 compared,
also where verdicts differ; 6 with --fail-on-difference where they do; 2 wrong setting or usage, or no message in the
range; 4 state or log cannot be used; 5 broker refuses or is not reached; 130 interrupted, with what was compared so
far."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve replay`."""
    parser.epilog = ABOUT
    bound = "an offset of every partition, PARTITION:OFFSET joined by commas, or a time (ISO 8601, epoch milliseconds)"
    parser.add_argument("--from", dest="first", metavar="PLACE", help=f"begin at {bound} (default: the first message)")
    parser.add_argument(
        "--to", dest="end", metavar="PLACE", help="end before it, likewise (default: the end as it is now)"
    )
    parser.add_argument(
        "--with",
        dest="other",
        type=Path,
        metavar="FILE",
        help="judge by the settings of this file; broker and topics stay those of -c",
    )
    parser.add_argument(
        "--into",
        metavar="FILE|topic:NAME",
        help="write each page's verdict line to FILE (.gz .xz .zst), as filter --verdicts does; or send the pages let "
        "through to topic NAME, which must exist and be no service's",
    )
    parser.add_argument(
        "--state",
        type=directory,
        metavar="DIR",
        help="keep the replay's own state in DIR, which must be new or empty; a replay always begins anew",
    )
    parser.add_argument(
        "--examples", type=int, default=3, metavar="N", help="show N pages of each kind of difference (3)"
    )
    parser.add_argument("--fail-on-difference", action="store_true", help="end with 6 where a verdict differs")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_scheme_arguments(parser)
    add_force_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Replay; the exit code."""
    from spotsieve.stream.insight.replay.range import parse_bound

    service, judged = (
        _service_settings(options),
        settings_of(_settings_options(options.other or options.config, options)),
    )
    first = parse_bound("--from", options.first) if options.first is not None else None
    end = parse_bound("--to", options.end) if options.end is not None else None
    if options.examples < 0:
        raise SettingError("--examples", "must be 0 or more", options.examples, "such as --examples 10")
    for flag, file in (("-c", options.config), ("--with", options.other)):
        if file is not None and options.into and Path(options.into).resolve() == file.resolve():
            raise SettingError("--into", f"must not be the file of {flag}", options.into, "name another file")
    if not options.force:
        check_new({"into": options.into})
    with _state_directory(options.state, service) as directory, _progress() as told:
        # Not imported for --help: numba and aiokafka take a second.
        from spotsieve.stream.insight.replay.report import as_json, as_text
        from spotsieve.stream.insight.replay.run import Replay, ReplayRequest
        from spotsieve.stream.observe.logs import configure_logs

        configure_logs(service.log.model_copy(update={"level": "warning"}))
        report = Replay(
            ReplayRequest(service, judged, directory, first, end, options.examples, options.into), told
        ).run()
    show(*(json.dumps(as_json(report), indent=2) if options.json else as_text(report)).split("\n"))
    if report.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_DIFFERENT if options.fail_on_difference and not report.equal else EXIT_OK


def _settings_options(file: Path | None, options: argparse.Namespace | None = None) -> argparse.Namespace:
    if options is None:
        return argparse.Namespace(config=file, given=[])
    return argparse.Namespace(**{**vars(options), "config": file})


def _service_settings(options: argparse.Namespace) -> "Settings":
    """The settings of the service that recorded the verdicts: -c, the environment, and --set for broker and topics."""
    with_given = settings_of(argparse.Namespace(config=options.config, given=options.given))
    return settings_of(_settings_options(options.config)).model_copy(
        update={"kafka": with_given.kafka, "topics": with_given.topics}
    )


@contextlib.contextmanager
def _state_directory(wanted: Path | None, service: "Settings") -> Iterator[Path]:
    if wanted is None:
        with tempfile.TemporaryDirectory(prefix="spotsieve-replay-") as made:
            yield Path(made)
        return
    if wanted.resolve() == service.index.directory.resolve():
        raise StateError("--state", "must not be the service's state (index.directory)", str(wanted), "name a new one")
    if wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
        raise StateError(
            "--state",
            "must be a new or an empty directory: a replay begins anew, and goes on with no other state",
            str(wanted),
            "name a new one, or delete that of an earlier replay",
        )
    yield wanted


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A progress line on standard error, if that is a terminal; it changes twice a second."""
    from spotsieve.stream.base.progress import ProgressLine

    said = float("-inf")
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:

        def told(text: str) -> None:
            nonlocal said
            if time.monotonic() - said >= PROGRESS_SECONDS:
                said = time.monotonic()
                line.say(text)

        yield told
