"""Finds the fields of a JSON message by configured paths or ready-made presets, and checks their types."""

from collections.abc import Mapping
from typing import Any

from spotsieve.stream.errors import PageError, RejectReason, SettingError
from spotsieve.stream.settings.model import FieldPaths, InputSettings

SHOWN_CHARACTERS = 80
"""The length of a bad value that an error shows."""

PRESETS: Mapping[str, Mapping[str, str]] = {
    # The item that KafkaPipeline.process_item serialises (istresearch/scrapy-cluster, crawler/crawling/pipelines.py and
    # spiders/link_spider.py): response_headers maps a name to a list of values, timestamp is UTC without a zone, body
    # is text, or base64 of bytes in `encoding` where KAFKA_BASE_64_ENCODE is set. `url` is the address that was
    # requested, `response_url` the one that the body came from.
    "scrapy-cluster": {
        "url": "response_url",
        "body": "body",
        "content_type": "response_headers.Content-Type",
        "fetched_at": "timestamp",
        "charset": "encoding",
        "status": "status_code",
        "id": "",
    },
    # ApacheKafkaCommitter.appendUpsertRequest (Norconex/crawlers, committer-apachekafka): one flat object, `id` is the
    # document's reference, `content` the body, and every metadata field beside them, text or a list of text. `content`
    # is what the importer left, mostly extracted text, whatever the metadata says, so the kind of content is sniffed.
    "norconex": {
        "url": "id",
        "body": "content",
        "content_type": "",
        "fetched_at": "",
        "charset": "",
        "status": "",
        "id": "",
    },
}


class FieldPath:
    """One configured path. A key that itself contains dots (Norconex: `document.contentType`) is found first."""

    __slots__ = ("_steps", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._steps = tuple(path.split(".")) if "." in path else ()

    def __bool__(self) -> bool:
        return bool(self.path)

    def find(self, message: dict[str, Any]) -> Any:
        """The value at the path, or None where the path is empty or leads nowhere."""
        value = message.get(self.path)
        if value is not None or not self._steps:
            return value
        here: Any = message
        for step in self._steps:
            if not isinstance(here, dict):
                return None
            here = here.get(step)
        return here

    def find_text(self, message: dict[str, Any]) -> str | None:
        """The text at the path, or the first text of a list (header values, multi-valued metadata), or None.

        Raises PageError FIELD_TYPE for anything else.
        """
        value = self.find(message)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, list):
            if not value:
                return None
            if isinstance(value[0], str):
                return value[0]
        raise PageError(
            RejectReason.FIELD_TYPE,
            self.path,
            "must be text",
            shorten(value),
            "correct the message or the path in [input.fields]",
        )


def resolve_paths(settings: InputSettings) -> dict[str, FieldPath]:
    """A path for every field of FieldPaths: that of the settings where it differs from the default, else the preset's.

    It does not ask whether a path is set, because the example file sets every path and would undo each preset. Raises
    SettingError for a preset together with format html.
    """
    if settings.preset and settings.format != "json":
        raise SettingError("input.preset", "needs input.format = json", settings.preset, "remove one of the two")
    paths = {name: getattr(settings.fields, name) for name in FieldPaths.model_fields}
    for name, path in PRESETS.get(settings.preset, {}).items():
        if paths[name] == FieldPaths.model_fields[name].default:
            paths[name] = path
    return {name: FieldPath(path) for name, path in paths.items()}


def shorten(value: object) -> object:
    """A value for an error message: at most SHOWN_CHARACTERS of text, and containers by their JSON name."""
    if isinstance(value, str):
        return value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "..."
    if isinstance(value, bytes):
        return shorten(value[: 4 * SHOWN_CHARACTERS].decode("utf-8", "replace"))
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return value
