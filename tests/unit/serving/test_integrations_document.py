"""What docs/integrations.md prints of the HTTP port is what it returns, with the defaults that it names."""

import json
import re
import shlex
from pathlib import Path

from spotsieve import Deduplicator
from spotsieve.stream.base.settings.runtime import ServeSettings
from tests.conftest import REPOSITORY
from tests.fixtures.http_port import http_port

TEXT = (REPOSITORY / "docs" / "integrations.md").read_text("utf-8")
STORY = (
    "<p>The old mill by the river will open again in spring, the council said, after three years of work on the roof."
)


def test_the_request_of_the_document_gets_the_answer_that_it_shows(tmp_path: Path) -> None:
    (command,) = re.findall(r"^```sh\n(curl .*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```json\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    _, _, url, _, header, _, body = shlex.split(command)
    with Deduplicator(tmp_path / "seen") as seen:
        seen.add("story", "https://herald.example/mill", STORY)
    name, _, value = header.partition(": ")
    with http_port(tmp_path / "seen") as port:
        path = url.removeprefix("http://127.0.0.1:7768")
        assert port.ask(path, body.encode(), {name: value}) == (200, json.loads(shown))


def test_the_document_has_the_defaults_and_the_paths_that_there_are() -> None:
    settings = ServeSettings()
    assert f"http://{settings.host}:{settings.port}" in TEXT
    assert f"`serve.max_body_bytes` | {settings.max_body_bytes // 2**20} MiB" in TEXT
    assert f"`serve.max_pages` | {settings.max_pages:,} a batch" in TEXT
    waiting = f"{settings.waiting_pages:,} pages, {settings.waiting_bytes // 2**20} MiB in progress"
    assert f"`serve.waiting_pages`, `serve.waiting_bytes` | {waiting}" in TEXT
    assert f"`serve.connections` | {settings.connections:,} at a time" in TEXT
    assert f"`serve.body_seconds` | {settings.body_seconds:g} for" in TEXT
    assert f"`serve.stop_seconds` | {settings.stop_seconds} after" in TEXT
    assert f"`serve.linger_ms` ({settings.linger_ms:g})" in TEXT
    assert f"`serve.refresh_seconds` ({settings.refresh_seconds:g})" in TEXT
