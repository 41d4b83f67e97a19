"""Owns how the service logs: structured lines on standard error, JSON unless a person watches, nothing raw in them."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from stream.config import LogSettings
from stream.text_safety import escape_control_characters


def configure_logs(settings: LogSettings) -> None:
    """Route structlog and the libraries' loggers to standard error."""
    as_json = settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _escape_values,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
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
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    for library in ("aiokafka", "kafka", "asyncio", "numba"):
        # aiokafka reports every join and fetch at info; what a person needs of it is said by our own lines.
        logging.getLogger(library).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("aiokafka.producer.sender").addFilter(_LastTransaction())


def logger() -> structlog.stdlib.BoundLogger:
    """The service's logger."""
    log: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("spotsieve")
    return log


class _LastTransaction(logging.Filter):
    """Hides the retry that Kafka 4 asks for while it still completes a producer's last transaction.

    It answers older clients NOT_ENOUGH_REPLICAS then, a few times a minute and for milliseconds. Where replicas are
    really missing the same answer comes without end, and is shown.
    """

    _ALLOWED = 20
    _SECONDS = 10.0

    def __init__(self) -> None:
        super().__init__()
        self._since = 0.0
        self._seen = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if "NotEnoughReplicasError" not in record.getMessage():
            return True
        if record.created - self._since > self._SECONDS:
            self._since, self._seen = record.created, 0
        self._seen += 1
        return self._seen > self._ALLOWED


def _escape_values(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if isinstance(value, str) and name != "exception":
            event[name] = escape_control_characters(value)
    return event
