"""Logs and counts pages that broke the code, and keeps their messages in a bounded folder, for a report."""

import base64
import os
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.engine import ApplyResult
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.pages.microbatch import MicroBatch, PageFault

FOLDER = "internal-errors"
"""In the state directory."""
MOST_FILES = 100
MOST_BYTES = 64 * 2**20
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def poison_messages(batch: MicroBatch, applied: Iterable[ApplyResult]) -> Iterator[tuple[ConsumerRecord, PageFault]]:
    """The messages of a judged micro-batch that broke the code.  applied: what became of its records, in order"""
    for number, broken in batch.broken.items():
        yield batch.messages[number], broken
    first = 0
    for record in applied:
        for row, error in record.broken.items():
            (number,) = (batch.rows == first + row).nonzero()[0]
            yield batch.messages[number], PageFault("judge", error)
        first += len(record.verdicts)


@dataclass(frozen=True, slots=True)
class PoisonPageFolder:
    """What a person needs for a report of ours, in a folder beside the state."""

    folder: Path
    metrics: Metrics

    def tell(self, pages: Iterable[tuple[ConsumerRecord, PageFault]]) -> None:
        """Count, log and keep each page. Never raises: the pages are on their way, and must go on."""
        for message, broken in pages:
            self.metrics.poison_pages.labels(broken.step).inc()
            logger().error(
                "a page broke Spotsieve's own code and is passed on unchecked; please report it with the kept file",
                page=f"{message.topic}/{message.partition}/{message.offset}",
                step=broken.step,
                kept=self._kept(message, broken),
                exc_info=broken.error,
            )

    def _kept(self, message: ConsumerRecord, broken: PageFault) -> str | None:
        """Write the message and the error to a file; -> its path, None where there is no room."""
        path = self.folder / f"{message.topic}-{message.partition}-{message.offset}.json"
        content = orjson.dumps(_report(message, broken))
        try:
            self.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            sizes = [file.stat().st_size for file in self.folder.iterdir() if file != path]
            if len(sizes) >= MOST_FILES or sum(sizes) + len(content) > MOST_BYTES:
                return None
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb") as file:
                file.write(content)
        except OSError as error:
            logger().warning("a page that broke the code could not be kept", path=str(path), error=str(error))
            return None
        return str(path)


def _report(message: ConsumerRecord, broken: PageFault) -> dict[str, object]:
    return {
        "page": f"{message.topic}/{message.partition}/{message.offset}",
        "timestamp_ms": message.timestamp,
        "step": broken.step,
        "traceback": "".join(traceback.format_exception(broken.error)),
        "key_base64": _text(message.key),
        "value_base64": _text(message.value),
        "headers": [[name, _text(content)] for name, content in message.headers],
    }


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
