"""Messages byte-identical to those of crawlers: scrapy-cluster's KafkaPipeline, Norconex's ApacheKafkaCommitter."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from tests.worlds.pages.crawls import PageMessage

UNSERIALISED = PageMessage(None, b"json failed to parse")
"""The message of scrapy-cluster for an item that ujson cannot write."""


def scrapy_cluster(
    response_url: str, html: str, encoding: str = "utf-8", coded: bool = False, **other: Any
) -> PageMessage:
    """An item of its LinkSpider, as ujson.dumps(item, sort_keys=True) writes it. coded: KAFKA_BASE_64_ENCODE"""
    item = {
        "appid": "testapp",
        "attrs": None,
        "body": base64.b64encode(html.encode(encoding)).decode() if coded else html,
        "crawlid": "abc123",
        "encoding": encoding,
        "links": [{"text": "more", "url": "https://example.com/more"}],
        "request_headers": {"User-Agent": ["x"]},
        "response_headers": {"Content-Type": [f"text/html; charset={encoding}"], "Server": ["nginx"]},
        "response_url": response_url,
        "status_code": 200,
        "status_msg": "OK",
        "timestamp": "2024-03-01T00:00:10.123456",
        "url": "https://asked.example/",
    } | other
    return PageMessage(None, _escaped(json.dumps(item, sort_keys=True, separators=(",", ":"))))


def norconex(url: str, content: str, metadata: Mapping[str, list[str]]) -> PageMessage:
    """An upsert: id, the metadata, one value as text and several as a list, and the content among them."""
    fields = {name: values[0] if len(values) == 1 else values for name, values in metadata.items()}
    value = json.dumps({"id": url, **fields, "content": content}, separators=(",", ":")) + "\n"
    return PageMessage(url.encode(), _escaped(_upper(value)))


def norconex_deletion(url: str) -> PageMessage:
    """A deletion: the key without a value."""
    return PageMessage(url.encode(), None)


def _escaped(text: str) -> bytes:
    """JSON with escaped slashes, as both crawlers write it."""
    return text.replace("/", "\\/").encode("ascii")


def _upper(text: str) -> str:
    """Escapes of other alphabets in upper case, as Java writes them."""
    return re.sub(r"\\u([0-9a-f]{4})", lambda found: "\\u" + found[1].upper(), text)
