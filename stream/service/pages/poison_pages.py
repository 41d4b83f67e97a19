"""Logs and counts poison pages, and saves their messages in a bounded folder for a bug report."""

import base64
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from aiokafka.structs import ConsumerRecord

from spotsieve.state.directory import make_directory, open_file
from spotsieve.stream.base.signature import page_id_text
from spotsieve.stream.engine import ApplyResult
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.pages.microbatch import MicroBatch, PageFault

FOLDER = "internal-errors"
"""Folder in the state directory."""
MOST_FILES = 100
MOST_BYTES = 64 * 2**20


def poison_messages(batch: MicroBatch, applied: Iterable[ApplyResult]) -> Iterator[tuple[ConsumerRecord, PageFault]]:
    """Yield the poison messages of a judged micro-batch. applied: the results of its log records, in order"""
    for number, fault in batch.faults.items():
        yield batch.messages[number], fault
    first = 0
    for record in applied:
        for row, error in record.poison.items():
            (number,) = (batch.rows == first + row).nonzero()[0]
            yield batch.messages[number], PageFault("judge", error)
        first += len(record.verdicts)


@dataclass(frozen=True, slots=True)
class PoisonPageFolder:
    """A folder beside the state with the messages and tracebacks of poison pages."""

    folder: Path
    metrics: Metrics

    def report(self, pages: Iterable[tuple[ConsumerRecord, PageFault]]) -> None:
        """Count, log and save each page. Never raises, because the pages must still be emitted."""
        for message, fault in pages:
            self.metrics.poison_pages.labels(fault.step).inc()
            logger().error(
                "a defect of Spotsieve stopped this page; it is emitted unchecked; please report the saved file",
                page=page_id_text(message.topic, message.partition, message.offset),
                step=fault.step,
                kept=self._save(message, fault),
                exc_info=fault.error,
            )

    def _save(self, message: ConsumerRecord, fault: PageFault) -> str | None:
        """Write the message and the error to a file.

        Returns its path, or None if the folder is full or not writable.
        """
        path = self.folder / f"{message.topic}-{message.partition}-{message.offset}.json"
        content = orjson.dumps(_report(message, fault))
        try:
            make_directory(self.folder)
            sizes = [file.stat().st_size for file in self.folder.iterdir() if file != path]
            if len(sizes) >= MOST_FILES or sum(sizes) + len(content) > MOST_BYTES:
                return None
            with open_file(path, "wb") as file:
                file.write(content)
        except OSError as error:
            logger().warning(
                "the message of a poison page could not be saved; check the disk and the rights of the folder",
                path=str(path),
                error=str(error),
            )
            return None
        return str(path)


def _report(message: ConsumerRecord, fault: PageFault) -> dict[str, object]:
    return {
        "page": page_id_text(message.topic, message.partition, message.offset),
        "timestamp_ms": message.timestamp,
        "step": fault.step,
        "traceback": "".join(traceback.format_exception(fault.error)),
        "key_base64": _text(message.key),
        "value_base64": _text(message.value),
        "headers": [[name, _text(content)] for name, content in message.headers],
    }


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
