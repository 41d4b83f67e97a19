"""Reads a file of pages as the peers do: one JSON object a line, with id, content_type and body."""

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from bench.peers.extractors import EXTRACTORS


def texts_of(file: Path, extractor: str) -> Iterator[tuple[str, str]]:
    """The id and the text of each page. Plain text is its own main content."""
    extract: Callable[[str], str] = EXTRACTORS[extractor][1]()
    with file.open("rb") as lines:
        for line in lines:
            page = orjson.loads(line)
            is_plain = page["content_type"].startswith("text/plain")
            yield page["id"], page["body"] if is_plain else extract(page["body"])
