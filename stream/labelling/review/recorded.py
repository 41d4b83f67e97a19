"""Reads verdict lines, as `spotsieve filter --verdicts` and `spotsieve replay --into` write them."""

from dataclasses import dataclass
from pathlib import Path

from spotsieve.stream.errors import InputError
from spotsieve.stream.files.objects import read_objects


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """The verdict on a page. original: id of the page that it was dropped for; None and no score where it passed"""

    original: str | None
    score: float | None
    reason: str


def read_verdicts(path: Path, scheme: str) -> dict[str, VerdictLine]:
    """The verdicts of a file by the ids of their pages; of an id that comes twice the first.

    scheme: that of the settings. Raises InputError for a file that cannot be read, a line that is no verdict, or a
    verdict of another scheme.
    """
    found: dict[str, VerdictLine] = {}
    for number, line in read_objects(path, "verdicts"):
        here = f"{path} line {number}"
        page, original, score, reason = (line.get(name) for name in ("id", "duplicate_of", "score", "reason"))
        if (
            not isinstance(page, str)
            or not isinstance(reason, str)
            or not isinstance(original, str | None)
            or not isinstance(score, float | int | None)
            or "duplicate_of" not in line
        ):
            then = "give the file that `spotsieve filter --verdicts` wrote; pages come without a flag"
            raise InputError(here, "must be a verdict: id, duplicate_of, score and reason", None, then)
        if line.get("scheme") != scheme:
            rule = f"must be of the scheme {scheme}, as the settings are"
            then = "name the configuration that these verdicts are of: -c FILE"
            raise InputError(here, rule, line.get("scheme"), then)
        found.setdefault(page, VerdictLine(original, score, reason))
    if not found:
        raise InputError(str(path), "must hold verdicts, and is empty", None, "spotsieve filter FILES --verdicts FILE")
    return found
