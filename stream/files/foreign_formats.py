"""Detects an input that is misread, and reports its probable format, its fields and the setting to change.

Without this check, a run over such an input would end with "0 pages" and look like a success.
"""

import re
from collections import Counter
from typing import Any

from spotsieve.stream.base.errors import MOST_REJECTED_SHARE, InputError, PageError, RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.files.file_format import FileFormat, Record
from spotsieve.stream.files.formats import ADVICE_FOR_PAGES, foreign_format, names_of_formats
from spotsieve.stream.files.jsonlines import BYTE_ORDER_MARK
from spotsieve.stream.sign.intake import shorten
from spotsieve.stream.sign.intake.decoder import parse_object
from spotsieve.stream.sign.intake.fields import find_preset

HEAD_BYTES = 4096
_LOOKED_AT_RECORDS = 20
_LOOKED_AT_BYTES = 2**20
_SHOWN_FIELDS = 16
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Control characters that text does not have in an encoding based on ASCII: all but tab, line feed, vertical tab, form
feed, carriage return, Ctrl-Z and escape."""
_DELIMITERS = b",;\t|"


class Tally:
    """Counts the results of the records of one input, and looks at the rejected ones."""

    def __init__(self, name: str, head: bytes, format_: FileFormat) -> None:
        """Start with no records.

        name: the name of the input, for the error
        head: its first bytes, decompressed
        format_: the format of its records
        """
        self._name = name
        self._format = format_
        self._head = head[:HEAD_BYTES]
        self._pages = 0
        self._others = 0
        self._reasons: Counter[RejectReason] = Counter()
        self._first: PageError | None = None
        self._fields: dict[str, Any] = {}

    def count(self, record: Record, result: Page | PageError | None) -> None:
        """Count a record and its result."""
        if isinstance(result, Page):
            self._pages += 1
        elif result is None:
            self._others += 1
        else:
            if self._reasons.total() < _LOOKED_AT_RECORDS:
                self._look_at(record.raw)
            self._reasons[result.reason] += 1
            self._first = self._first or result

    def check(self) -> None:
        """Check that enough records are pages. An input without records passes. Raises InputError."""
        rejected = self._reasons.total()
        if rejected > MOST_REJECTED_SHARE * (self._pages + rejected):
            raise self._misread(rejected)
        if self._others and not self._pages:
            rule = f"has no pages: none of its {self._others:,} {self._format.name} records is a response"
            raise InputError(self._name, rule, None, "name the file with the responses; this file has other records")

    def _misread(self, rejected: int) -> InputError:
        reasons = ", ".join(f"{reason.value} {count:,}" for reason, count in self._reasons.most_common())
        finding, next_step = self._diagnosis()
        records = self._pages + rejected
        rule = f"has too few pages: {rejected:,} of {records:,} records were rejected ({reasons}). {finding}"
        return InputError(self._name, rule, None, f"{next_step}; `spotsieve filter --rejected FILE` shows each record")

    def _diagnosis(self) -> tuple[str, str]:
        """The probable format or fields of the input, and the setting or step that helps."""
        if not self._fields:
            named = foreign_format(self._head) or _format_of_text(self._head)
            if named is not None:
                return f"The file looks like {named[0]}", named[1]
            return self._first_error("look at the file at this place")
        names = list(self._fields)
        more = f" and {len(names) - _SHOWN_FIELDS:,} more" if len(names) > _SHOWN_FIELDS else ""
        finding = f"The records are {self._format.fields_label} {', '.join(names[:_SHOWN_FIELDS])}{more}"
        worst = self._reasons.most_common(1)[0][0]
        if worst in (RejectReason.NO_BODY, RejectReason.NO_URL):
            preset = find_preset(self._fields)
            if preset is not None:
                return finding, f"set the preset of these fields: --set input.preset={preset}"
        if worst is RejectReason.NO_BODY:
            return finding, f"set input.fields.body{_such_as('body', self._longest())}"
        if worst is RejectReason.NO_URL:
            return finding, f"set input.fields.url{_such_as('url', self._url())}"
        error, next_step = self._first_error("correct [input] in the configuration")
        return f"{finding}. {error}", next_step

    def _first_error(self, default: str) -> tuple[str, str]:
        """The first error and its next step. default: the next step for an error without one"""
        assert self._first is not None, "an input is misread by its rejected records"
        then = self._first.next_step
        return f"The first error is: {str(self._first).removesuffix(f'; {then}')}", then or default

    def _look_at(self, raw: bytes) -> None:
        try:
            parsed = parse_object(raw) if len(raw) <= _LOOKED_AT_BYTES else {}
        except PageError:
            return
        for name, value in _leaves(parsed):
            self._fields.setdefault(name, value)

    def _longest(self) -> str | None:
        """The field that is probably the body: the longest text, and a text with a tag before any other."""
        texts = {name: value for name, value in self._fields.items() if isinstance(value, str)}
        tagged = {name: value for name, value in texts.items() if "<" in value}
        return max(tagged or texts, key=lambda name: len(texts[name]), default=None)

    def _url(self) -> str | None:
        fields = self._fields.items()
        return next((name for name, value in fields if isinstance(value, str) and value.startswith("http")), None)


def _leaves(parsed: dict[str, Any]) -> list[tuple[str, Any]]:
    """The fields of an object and of its nested objects, one level deep, as paths of [input.fields] and values."""
    leaves: list[tuple[str, Any]] = []
    for name, value in parsed.items():
        if isinstance(value, dict) and value:
            leaves += [(str(shorten(f"{name}.{inner}")), content) for inner, content in value.items()]
        else:
            leaves.append((str(shorten(name)), value))
    return leaves


def _such_as(field: str, name: str | None) -> str:
    return f", such as --set input.fields.{field}={name}" if name else ""


def _format_of_text(head: bytes) -> tuple[str, str] | None:
    """The probable format of a file that is not JSONL, by its first lines, and the next step; None if unknown."""
    if _CONTROLS.search(head):
        return "binary data", f"name a file of pages: {names_of_formats()}, plain or compressed"
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if text.startswith(b"["):
        return "a JSON array", "write its objects as lines: jq -c '.[]' FILE | spotsieve filter -"
    if re.match(rb"\{\s*\n", text):
        return "JSON objects over several lines", "write each object as one line: jq -c . FILE | spotsieve filter -"
    lines = text.split(b"\n")[:2]
    for delimiter in (bytes([byte]) for byte in _DELIMITERS):
        if len(lines) == 2 and not text.startswith(b"{") and all(delimiter in line for line in lines):
            columns = shorten(lines[0].strip())
            return f"CSV with the columns {columns}", ADVICE_FOR_PAGES
    return None
