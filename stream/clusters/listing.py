"""Writes a page and its cluster as a line.

JSON = {"id", "url", "verdict": text or null, "cluster": id of the canonical page, "canonical": bool, "size"}
CSV  = the same columns under a heading; canonical is true or false, and what is null is empty
"""

import csv
import io

import orjson

from spotsieve.stream.clusters.grouping import Member

_COLUMNS = ("id", "url", "verdict", "cluster", "canonical", "size")


def json_line(member: Member) -> bytes:
    """A page and its cluster as JSON."""
    return orjson.dumps(dict(zip(_COLUMNS, _values(member), strict=True)))


def csv_heading() -> bytes:
    """The names of the columns."""
    return ",".join(_COLUMNS).encode()


def csv_line(member: Member) -> bytes:
    """A page and its cluster as CSV (RFC 4180, but lines end in a line feed)."""
    identity, url, verdict, cluster, canonical, size = _values(member)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow((identity, url, verdict, cluster, str(canonical).lower(), size))
    return line.getvalue().encode("utf-8", "replace")


def _values(member: Member) -> tuple[str, str, str | None, str, bool, int]:
    return member.id, member.url, member.verdict, member.cluster, member.canonical, member.size
