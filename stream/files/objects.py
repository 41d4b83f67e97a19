"""Reads a JSONL file of small objects, compressed or not: verdicts, labels. Writes a page as such an object."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from spotsieve.stream.errors import InputError
from spotsieve.stream.files.compression import read_chunks
from spotsieve.stream.files.jsonlines import split_lines


def read_objects(path: Path, what: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, with the numbers of their records from 1. what: they are, such as "verdicts", for messages

    Raises InputError for a file that cannot be read, and for a line that is no JSON object.
    """
    try:
        with path.open("rb") as file:
            for record in split_lines(read_chunks(file, str(path))):
                try:
                    value = None if record.fault else orjson.loads(record.raw)
                except orjson.JSONDecodeError:
                    value = None
                if not isinstance(value, dict):
                    rule = f"must be a JSON object: {what} are one a line"
                    shown = record.raw[:40].decode("utf-8", "replace")
                    raise InputError(f"{path} line {record.number + 1}", rule, shown, f"is this a file of {what}?")
                yield record.number + 1, value
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", None, "check the path") from None


def page_line(name: str, url: str, time_ms: int, markup: bool, body: str) -> bytes:
    """A page as the fields that every command reads. time_ms: when it was fetched  markup: whether it is HTML"""
    fields = {
        "id": name,
        "url": url,
        "fetched_at": datetime.fromtimestamp(max(time_ms, 0) / 1000, UTC).isoformat(),
        "content_type": f"text/{'html' if markup else 'plain'}; charset=utf-8",
        "body": body,
    }
    return orjson.dumps(fields)
