"""What the measuring commands share: where their pages are, their messages, their errors, and a prepared service."""

import functools
import logging
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec

from spotsieve.stream.base.errors import SpotsieveError

MEASURED = Path(__file__).resolve().parents[1] / "docs" / "measured"
P = ParamSpec("P")


def say(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def reports_errors(main: Callable[P, int]) -> Callable[P, int]:
    """The main function of a command, which prints a SpotsieveError in one line and returns its exit code."""

    @functools.wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except SpotsieveError as error:
            say(str(error))
            return error.exit_code

    return run


def prepare_service() -> None:
    """Fetch the local broker and compile the kernels of a service with default settings, before the measurement."""
    # Imported here, so that the commands that need no service stay small in memory.
    from spotsieve.stream.demo.localkafka import prepare
    from spotsieve.stream.engine.warmup import compile_kernels
    from spotsieve.stream.sign.schemes.registry import scheme_of
    from tests.fixtures.services.oracle import settings_from

    # While the broker creates topics, or a partition briefly has no leader, aiokafka retries.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    prepare()
    compile_kernels(scheme_of(settings_from("").scheme))


def command_line(module: str, arguments: Sequence[str] | None) -> str:
    """The command that repeats a measurement. arguments: those of its main(); None for those of the process"""
    return shlex.join(["python", "-m", module, *(sys.argv[1:] if arguments is None else arguments)])


def outcome(wrong: Sequence[str]) -> str:
    """The first sentence of a page. wrong: what does not hold"""
    return f"DOES NOT HOLD: {'; '.join(wrong)}." if wrong else "All holds."


def date_and_machine(machine: Mapping[str, Any]) -> str:
    """The date and the machine of a measurement, without its last full stop. machine: from bench.speed.report"""
    return (
        f"on {datetime.now(UTC).date().isoformat()}: {machine['cores']} cores of\n"
        f"{machine['cpu']}, {machine['system']}, Python {machine['python']}"
    )


def publish(page: Path, text: str, *, whole: bool) -> None:
    """Print the text of a page, and write the page after a whole measurement."""
    if whole:
        page.write_text(text, "utf-8")
    print(text)
