"""A migration signs the pages of the log again, also with corrected input settings, and no other message."""

import errno
import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.progress import ignore_progress
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.insight.migrate.archive import PAGES_FILE, ArchivedPages
from spotsieve.stream.insight.migrate.service_log import PageSigner
from spotsieve.stream.service.pages.microbatch import MicroBatch, sign
from spotsieve.stream.sign.intake import Decoder
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.pages.crawls import html_of, url_of

SENT_MS = 1_700_000_000_000
OLD: dict[str, Any] = {"input": {"fields": {"url": "address", "fetched_at": "sent"}}}
CORRECTED = {
    "url": {"fields": {"url": "final", "fetched_at": "sent"}},
    "fetched_at": {"fields": {"url": "address", "fetched_at": "fetched"}},
    "nothing": OLD["input"],
}


def message_of(number: int, offset: int, sent_ms: int = SENT_MS) -> ConsumerRecord:
    fields = {
        "address": url_of(number),
        "final": url_of(500 + number),
        "sent": SENT_MS - 5_000,
        "fetched": SENT_MS - 7_000,
        "body": html_of(number),
    }
    value = json.dumps(fields).encode()
    return ConsumerRecord("pages", 0, offset, sent_ms, 0, None, value, None, 3, len(value), ())


def signed_by(settings: Settings, messages: list[ConsumerRecord]) -> Signatures:
    batch = MicroBatch(messages, [])
    sign(batch, Decoder(settings.input), scheme_of(settings.scheme))
    assert batch.signatures is not None
    return batch.signatures


def signer_of(
    messages: Mapping[int, ConsumerRecord], new: Settings, signing: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> PageSigner:
    """A signer whose input topic has these messages."""

    async def message(_: PageSigner, _partition: int, offset: int) -> ConsumerRecord | None:
        return messages.get(offset)

    monkeypatch.setattr(PageSigner, "_message", message)
    return PageSigner(Settings.model_validate(OLD).input, new, scheme_of(new.scheme), signing)


@pytest.mark.parametrize("corrected", CORRECTED)
@pytest.mark.parametrize("sent_ms", [SENT_MS, -1])
async def test_pages_are_recognized_by_the_input_settings_that_logged_them(
    corrected: str, sent_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = Settings.model_validate({"input": CORRECTED[corrected], "topics": {"input": "pages"}})
    messages = [message_of(number, number, sent_ms) for number in range(4)]
    pages = signed_by(Settings.model_validate(OLD), messages)
    # The topic was recreated: another page has the offset of the third one. Retention has removed the last one.
    kept = {0: messages[0], 1: messages[1], 2: message_of(102, 2, sent_ms)}
    with ThreadPoolExecutor(1) as signing:
        found = await signer_of(kept, new, signing, monkeypatch).sign(pages)
    expected = signed_by(new, messages[:2])
    assert found.offset.tolist() == [0, 1]
    assert (found.urls, found.digest.tolist()) == (expected.urls, expected.digest.tolist())
    if corrected == "url":
        assert found.urls[0] == url_of(500).encode()
    if corrected == "fetched_at":
        assert found.event_time_ms.tolist() == [SENT_MS - 7_000] * 2


async def test_a_tombstone_or_a_message_that_is_no_page_has_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Settings.model_validate({**OLD, "topics": {"input": "pages"}})
    messages = [message_of(number, number) for number in range(3)]
    pages = signed_by(new, messages)
    kept = {0: message_of(0, 0), 1: message_of(1, 1), 2: messages[2]}
    kept[0].value, kept[1].value = None, b"no JSON"
    with ThreadPoolExecutor(1) as signing:
        found = await signer_of(kept, new, signing, monkeypatch).sign(pages)
    assert found.offset.tolist() == [2]


@pytest.mark.parametrize(
    ("number", "then"),
    [
        (errno.ENOSPC, "free disk space, then run"),
        (errno.EACCES, "make it writable for this user, then run"),
        (None, "check the disk, or delete the file, then run"),
    ],
)
def test_the_advice_for_signatures_of_files_that_cannot_be_used_fits_the_reason(
    number: int | None, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        assert number is not None
        raise OSError(number, os.strerror(number))

    if number is None:
        (tmp_path / PAGES_FILE).write_bytes(b"no database at all" * 100)
    monkeypatch.setattr("spotsieve.stream.insight.migrate.archive.open_file", fail)
    reason = "file is not a database" if number is None else os.strerror(number)
    archived = ArchivedPages(tmp_path, None)
    with archived, pytest.raises(StateError, match=re.escape(f"cannot be written or read: {reason}; {then}")):
        archived.read([], Settings().input, scheme_of(Settings().scheme), ignore_progress)
