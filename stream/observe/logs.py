"""Configures logging: structured lines on standard error, JSON unless it is a terminal, control characters escaped."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from spotsieve.stream.base.settings.runtime import LogSettings
from spotsieve.stream.base.terminal import escape_control_characters, json_text

TRANSIENT_ERRORS = {
    # Kafka 4 sends this to older clients for milliseconds, while it completes a producer's last transaction.
    "aiokafka.producer.sender": "NotEnoughReplicasError",
    # A broker creates its topic for consumer groups when the first group joins.
    "aiokafka.consumer.group_coordinator": "GroupCoordinatorNotAvailableError",
}
"""By aiokafka module, the class of an error that it logs as a warning although the error is transient."""

_MULTILINE_FIELDS = ("exception", "stack_info")


def configure_logs(settings: LogSettings, *, of_a_command: bool = False) -> None:
    """Route structlog and the libraries' loggers to standard error.

    of_a_command: True for a command that reports its error in one line. The lines of aiokafka, one per connection
    attempt, are then shown at level debug only.
    """
    as_json = settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        # JSON keeps the values: its renderer escapes them in JSON's own way.
        *(() if as_json else (_escape_values,)),
    ]
    # If the package rich is installed, structlog prints the variables of each frame, which include the password.
    console = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer(json_text) if as_json else console
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
    handler.addFilter(_RepetitionFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    logging.captureWarnings(True)
    for library in ("aiokafka", "kafka", "asyncio", "numba"):
        # aiokafka logs every join and fetch at info. The lines of this service cover them.
        logging.getLogger(library).setLevel(max(logging.WARNING, root.level))
    if of_a_command and settings.level != "debug":
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(_is_unhandled)
    for module, error_class in TRANSIENT_ERRORS.items():
        logging.getLogger(module).addFilter(_TransientErrorFilter(error_class))


def logger() -> structlog.stdlib.BoundLogger:
    """The service's logger."""
    log: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("spotsieve")
    return log


def _is_unhandled(record: logging.LogRecord) -> bool:
    """False for asyncio's report of an unretrieved error of a connection or an aiokafka client.

    The caller of the connection has seen the error, or has ended before. asyncio retrieves a connection's error when it
    frees the connection, but in a reference cycle the garbage collector may report it first. aiokafka sets the error of
    a producer, such as a fencing, on a future per batch, and nobody awaits some of these futures.
    """
    error = record.exc_info[1] if record.exc_info else None
    expected = isinstance(error, OSError) or type(error).__module__ == "aiokafka.errors"
    return not (expected and record.getMessage().startswith("Future exception was never retrieved"))


class _TransientErrorFilter(logging.Filter):
    """Hides the first occurrences of a transient error, and shows it when it persists."""

    _ALLOWED = 20
    _SECONDS = 10.0

    def __init__(self, error_class: str) -> None:
        super().__init__()
        self._error_class = error_class
        self._since = 0.0
        self._seen = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if self._error_class not in _error_classes(record):
            return True
        if record.created - self._since > self._SECONDS:
            self._since, self._seen = record.created, 0
        self._seen += 1
        return self._seen > self._ALLOWED


def _error_classes(record: logging.LogRecord) -> set[str]:
    """Class names of the arguments of a log line. aiokafka logs both errors and error classes."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return {(argument if isinstance(argument, type) else type(argument)).__name__ for argument in arguments}


class _RepetitionFilter(logging.Filter):
    """Limits the lines that aiokafka repeats while a broker is down: tens per second, for hours.

    It shows the first lines of a kind, then one line every ten seconds with the number of hidden lines.
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
            # After a hidden line, one line per interval is enough.
            since, seen = record.created, self._ALLOWED - 1 if hidden else 0
        if len(self._kinds) >= self._MOST_KINDS and kind not in self._kinds:
            self._kinds.clear()
        self._kinds[kind] = (since, seen + 1)
        return seen < self._ALLOWED


def _escape_values(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters in every string. Lines of a traceback stay, indented, so none looks like a log line."""
    for name, value in event.items():
        if isinstance(value, str):
            lines = value.split("\n") if name in _MULTILINE_FIELDS else [value]
            event[name] = "\n    ".join(escape_control_characters(line) for line in lines)
    return event
