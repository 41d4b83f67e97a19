"""Reads what a person gave as PAGE: a file with a page, a verdict line or a report, or a name to look for."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spotsieve.stream.errors import InputError, SettingError
from spotsieve.stream.page import Page
from spotsieve.stream.settings.model import InputSettings

if TYPE_CHECKING:  # What reads files takes .1 s to import, and a page of a state is named without one.
    from spotsieve.stream.explain.in_files import RecordedVerdict

_STDIN = "-"  # the same as in stream/files/inputs.py
_PAGE_ENDINGS = {".html": "text/html", ".htm": "text/html", ".xhtml": "text/html", ".txt": "text/plain"}
_WARC = b"WARC/"
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh")


@dataclass(frozen=True, slots=True)
class ExplainInput:
    """What was given. name: of the page, an address or id  page: its bytes, or None  recorded: its verdict, or None

    One of page and recorded is None, or both are.
    """

    name: str
    page: Page | None = None
    recorded: "RecordedVerdict | None" = None


def read_given(name: str, url: str, flag: str, settings: InputSettings) -> ExplainInput:
    """Read PAGE or OTHER. url: the address of a page that is given itself  flag: that of the address, for messages

    Raises InputError, SettingError, PageError.
    """
    if name != _STDIN and not Path(name).is_file():
        return ExplainInput(name)
    try:
        raw = _read(name, settings.max_page_bytes)
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}", None, "check the path") from None
    if name == _STDIN and not raw.strip():
        raise InputError("standard input", "holds nothing", None, "did grep find no line? pipe one, or a page")
    recorded = _only_line(name, raw)
    if recorded is not None:
        return ExplainInput(recorded.id, None, recorded)
    if name != _STDIN and (raw.lstrip().startswith((b"{", _WARC)) or raw.startswith(_COMPRESSED)):
        return _only_page(name, url, flag, settings)
    return _page_itself(name, raw, url, settings)


def _read(name: str, most: int) -> bytes:
    """A file, or its beginning where it is larger than any page."""
    if name == _STDIN:
        with os.fdopen(os.dup(0), "rb") as file:
            return file.read()
    with Path(name).open("rb") as file:
        return file.read(most + 1)


def _only_line(name: str, raw: bytes) -> "RecordedVerdict | None":
    """The verdict in a file of one verdict line or report; None if it holds something else. Raises SettingError."""
    from spotsieve.stream.explain.in_files import parse_verdict

    lines = [line for line in raw.split(b"\n", 2) if line.strip()]
    recorded = parse_verdict(lines[0]) if lines else None
    if recorded is not None and len(lines) > 1:
        then = (
            "give one line, as by `grep ADDRESS FILE | spotsieve explain -`, or name the page and add --verdicts FILE"
        )
        raise SettingError("PAGE", "must be one line of verdicts, and the file has more", name, then)
    return recorded


def _only_page(name: str, url: str, flag: str, settings: InputSettings) -> ExplainInput:
    """The page of a file of one page. Raises SettingError if it has none, or several."""
    from spotsieve.stream.files.inputs import check_inputs
    from spotsieve.stream.files.reader import pages_of

    found = list[Page]()
    for page in pages_of(check_inputs([name]), settings):
        found.append(page)
        if len(found) > 1 and not url:
            break
    named = [page for page in found if not url or page.url == url]
    if not named:
        raise SettingError(flag, "must be the address of a page in the file", url or None, f"{name} has none of it")
    if len(named) > 1 and not url:
        then = f"name one of its pages by address or id, and give the file as --pages {name}; or choose by {flag}"
        raise SettingError("PAGE", "must be a file of one page, and it has more", name, then)
    return ExplainInput(named[-1].url, named[-1])


def _page_itself(name: str, raw: bytes, url: str, settings: InputSettings) -> ExplainInput:
    """The bytes of a page. Raises PageError."""
    from spotsieve.stream.intake import make_page

    now = int(time.time() * 1000) if name == _STDIN else int(Path(name).stat().st_mtime * 1000)
    page = make_page(
        raw,
        source=name if name == _STDIN else str(Path(name).resolve()),
        partition=0,
        offset=0,
        url=url,
        content_type=_PAGE_ENDINGS.get(Path(name).suffix.lower()),
        event_time_ms=now,
        latest_ms=now,
        max_page_bytes=settings.max_page_bytes,
    )
    return ExplainInput(url or name, page)


def name_apart(page: Page, name: str) -> Page:
    """The page with an address, where none was given: two files without addresses count as pages of two hosts."""
    return page if page.url else page._replace(url=f"https://{name}.invalid/")
