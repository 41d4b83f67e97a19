"""Reads what a line says of a page: its verdict, and the pages that it is a copy of, or that it replaces.

line     = a verdict of `filter`, `query` or `replay` (stream/files/verdict_lines.py)
         | a report of the topic of duplicates: {"page": {"id", "url"}, "duplicate_of": {"page", "url"}}
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from spotsieve.stream.signature import Entry
from spotsieve.stream.verdict import Kind, Verdicts

DUPLICATE = Kind.DUPLICATE.name.lower()
_VERDICTS = frozenset(kind.name.lower() for kind in Kind)


class OriginalRef(NamedTuple):
    """A page that another one is a copy of."""

    id: str
    url: str


class Statement(NamedTuple):
    """What is said of one page.

    verdict: novel, duplicate or unchecked  originals: the pages that it is a copy of, or that it replaces
    replaces: the id of the page that it replaces; "" for none
    """

    id: str
    url: str
    verdict: str
    originals: tuple[OriginalRef, ...] = ()
    replaces: str = ""


def read_statement(line: bytes) -> Statement | None:
    """What a line says; None for a line that is neither a verdict nor a report."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict):
        return None
    return _report(fields) if isinstance(fields.get("page"), dict) else _verdict(fields)


def state_verdicts(pages: list[Entry], verdicts: Verdicts) -> Iterator[Statement]:
    """What verdicts say of these pages."""
    for row, page in enumerate(pages):
        named = (verdicts.originals[row], verdicts.replaces[row])
        originals = tuple(
            OriginalRef(entry.id, entry.url) for entry in named if entry is not None and entry.id != page.id
        )
        replaced = verdicts.replaces[row]
        verdict = Kind(verdicts.kind[row]).name.lower()
        yield Statement(page.id, page.url, verdict, originals, replaced.id if replaced is not None else "")


def _report(fields: dict[str, Any]) -> Statement | None:
    page, original = fields["page"], fields.get("duplicate_of")
    if not isinstance(original, dict) or not _text(page.get("id")) or not _text(original.get("page")):
        return None
    named = OriginalRef(_text(original["page"]), _text(original.get("url")))
    return Statement(_text(page["id"]), _text(page.get("url")), DUPLICATE, (named,))


def _verdict(fields: dict[str, Any]) -> Statement | None:
    own, verdict, replaces = _text(fields.get("id")), _text(fields.get("verdict")), _text(fields.get("replaces"))
    original = _text(fields.get("duplicate_of"))
    if not own or verdict not in _VERDICTS or (verdict == DUPLICATE and not original):
        return None
    matches = fields.get("matches")
    found = [(original, fields.get("original_url")), (replaces, fields.get("replaced_url"))]
    if isinstance(matches, list):
        found += [(_text(match.get("id")), match.get("url")) for match in matches if isinstance(match, dict)]
    originals = {name: _text(url) for name, url in found if name and name != own}
    return Statement(
        own, _text(fields.get("url")), verdict, tuple(map(OriginalRef, originals, originals.values())), replaces
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
