"""Sets up the log: structured lines on standard error, JSON unless a person watches, without raw control characters."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from spotsieve.stream.base.settings.runtime import LogSettings
from spotsieve.stream.base.terminal import escape_control_characters

PASSING_ANSWERS = {
    # Kafka 4 answers older clients like this for milliseconds, while it completes a producer's last transaction.
    "aiokafka.producer.sender": "NotEnoughReplicasError",
    # A broker that has never had a group first creates its topic for groups.
    "aiokafka.consumer.group_coordinator": "GroupCoordinatorNotAvailableError",
}
"""By module of aiokafka, the class of an error that it logs as trouble, although it passes."""

_OF_SEVERAL_LINES = ("exception", "stack_info")


def configure_logs(settings: LogSettings, *, of_a_command: bool = False) -> None:
    """Route structlog and the libraries' loggers to standard error.

    of_a_command: whether a command ends with one line that says what went wrong. aiokafka's own lines about it, one for
    each connection that it tried, are then shown at level debug only.
    """
    as_json = settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _escape_values,
    ]
    # Where the package rich is installed, structlog would print the variables of each frame, and so the password.
    in_words = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer() if as_json else in_words
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.addFilter(_Repeated())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    logging.captureWarnings(True)
    for library in ("aiokafka", "kafka", "asyncio", "numba"):
        # aiokafka reports every join and fetch at info. Our own lines say what a person needs to know of them.
        logging.getLogger(library).setLevel(max(logging.WARNING, root.level))
    if of_a_command and settings.level != "debug":
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(_heard_elsewhere)
    for module, answer in PASSING_ANSWERS.items():
        logging.getLogger(module).addFilter(_Passing(answer))


def logger() -> structlog.stdlib.BoundLogger:
    """The service's logger."""
    log: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("spotsieve")
    return log


def _heard_elsewhere(record: logging.LogRecord) -> bool:
    """Hide how a connection or a producer ended from asyncio's report of errors that nobody took.

    Whoever used it has heard of it, or has ended before. asyncio takes the error of a connection itself where it frees
    it, but in a cycle of garbage the report may come first: whether it does depends on what else the process has
    allocated. aiokafka gives the error of a producer, such as that another one has taken its place, to a future of each
    batch, and some of these are its own.
    """
    error = record.exc_info[1] if record.exc_info else None
    known = isinstance(error, OSError) or type(error).__module__ == "aiokafka.errors"
    return not (known and record.getMessage().startswith("Future exception was never retrieved"))


class _Passing(logging.Filter):
    """Hides an error that is harmless while it comes now and then, and shows it when it goes on."""

    _ALLOWED = 20
    _SECONDS = 10.0

    def __init__(self, answer: str) -> None:
        super().__init__()
        self._answer = answer
        self._since = 0.0
        self._seen = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if self._answer not in _error_classes(record):
            return True
        if record.created - self._since > self._SECONDS:
            self._since, self._seen = record.created, 0
        self._seen += 1
        return self._seen > self._ALLOWED


def _error_classes(record: logging.LogRecord) -> set[str]:
    """The names of the classes of a line's arguments: aiokafka logs errors, and classes of errors."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return {(argument if isinstance(argument, type) else type(argument)).__name__ for argument in arguments}


class _Repeated(logging.Filter):
    """Thins the lines that aiokafka repeats while a broker is away: tens of them a second, for hours.

    It shows the first lines of a kind, then one line every ten seconds that counts the others.
    """

    _ALLOWED = 5
    _SECONDS = 10.0
    _MOST_KINDS = 256

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("aiokafka"):
            return True
        kind = (record.name, str(record.msg))
        since, seen = self._kinds.get(kind, (record.created, 0))
        if record.created - since > self._SECONDS:
            hidden = max(0, seen - self._ALLOWED)
            if hidden:
                record.msg, record.args = f"{record.getMessage()} (and {hidden} more of this kind before)", ()
            # It still goes on: one line is enough until the next count.
            since, seen = record.created, self._ALLOWED - 1 if hidden else 0
        if len(self._kinds) >= self._MOST_KINDS and kind not in self._kinds:
            self._kinds.clear()
        self._kinds[kind] = (since, seen + 1)
        return seen < self._ALLOWED


def _escape_values(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters in every text. A traceback keeps its lines, indented, so none looks like a log line."""
    for name, value in event.items():
        if isinstance(value, str):
            lines = value.split("\n") if name in _OF_SEVERAL_LINES else [value]
            event[name] = "\n    ".join(escape_control_characters(line) for line in lines)
    return event
