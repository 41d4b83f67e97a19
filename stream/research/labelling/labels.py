"""Reads labels that people gave to pairs of pages: what the page of `spotsieve review` exports.

    file = {"review": {"id", "scheme", "pages", "strata": [{"name", "pages"}], ...}}, then a label a line
    label = {"id_a", "id_b", "label": copy | different | skipped, "stratum": name, ...}

Files of several people who judged one review may be concatenated: the head may repeat, and so may equal labels.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.files.verdict_lines import read_objects
from spotsieve.stream.research.scoring.estimates import StratifiedSample

COPY, DIFFERENT, SKIPPED = "copy", "different", "skipped"
_THEN = "give the file that the page of `spotsieve review` exported"


@dataclass(frozen=True, slots=True)
class Labels:
    """The pairs of one review that were judged. earlier, later: n page ids  copy: bool[n]

    review: its id  scheme: of the verdicts  pages: of the crawl  sample: how the pairs were drawn  skipped: labels
    unjudged: names of strata without a label, with the pairs that they have
    """

    review: str
    scheme: str
    pages: int
    earlier: tuple[str, ...]
    later: tuple[str, ...]
    copy: NDArray[np.bool_]
    sample: StratifiedSample
    skipped: int
    unjudged: dict[str, int]


def read_labels(path: Path) -> Labels:
    """The labels of a file. Raises InputError for a file that is none, or of two reviews, or without a judged pair."""
    head: dict[str, Any] | None = None
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for number, line in read_objects(path, "labels"):
        here = f"{path} line {number}"
        if "review" in line:
            if head is not None and line["review"] != head:
                raise InputError(here, "must be of the same review as the lines before it", None, "give one review")
            head = _checked_head(line["review"], here)
            continue
        if head is None:
            raise InputError(str(path), "must begin with the line of its review, and does not", None, _THEN)
        pair = line.get("id_a"), line.get("id_b")
        label, stratum = line.get("label"), line.get("stratum")
        names = [one["name"] for one in head["strata"]]
        if not all(isinstance(name, str) for name in pair) or stratum not in names:
            raise InputError(here, "must have id_a, id_b, and a stratum of the review", None, _THEN)
        if label not in (COPY, DIFFERENT, SKIPPED):
            raise InputError(here, f"must have the label {COPY}, {DIFFERENT} or {SKIPPED}", label, _THEN)
        before = found.setdefault((str(pair[0]), str(pair[1])), (label, str(stratum)))
        if before[0] != label:
            rule = f"must agree with an earlier line, which says {before[0]} of the same pair"
            raise InputError(here, rule, label, "settle it, and keep one of the two lines")
    return _labels(path, head, found)


def _labels(path: Path, head: dict[str, Any] | None, found: dict[tuple[str, str], tuple[str, str]]) -> Labels:
    judged = {pair: given for pair, given in found.items() if given[0] != SKIPPED}
    if head is None or not judged:
        rule = f"must hold a judged pair, and of {len(found)} labels none is {COPY} or {DIFFERENT}"
        raise InputError(str(path), rule, None, "judge some pairs, and export again")
    places = {one["name"]: number for number, one in enumerate(head["strata"])}
    sizes = np.array([one["pages"] for one in head["strata"]], np.int64)
    sample = StratifiedSample(np.array([places[stratum] for _, stratum in judged.values()], np.int64), sizes)
    empty = {one["name"]: one["pages"] for one, count in zip(head["strata"], sample.counts, strict=True) if not count}
    return Labels(
        head["id"],
        head["scheme"],
        head["pages"],
        tuple(earlier for earlier, _ in judged),
        tuple(later for _, later in judged),
        np.array([label == COPY for label, _ in judged.values()], np.bool_),
        sample,
        len(found) - len(judged),
        empty,
    )


def _checked_head(head: Any, here: str) -> dict[str, Any]:
    whole = (
        isinstance(head, dict)
        and isinstance(head.get("id"), str)
        and isinstance(head.get("scheme"), str)
        and isinstance(head.get("pages"), int)
        and isinstance(head.get("strata"), list)
        and all(
            isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("pages"), int)
            for one in head["strata"]
        )
    )
    if not whole:
        raise InputError(here, "must tell the review's id, scheme, pages and strata", None, _THEN)
    checked: dict[str, Any] = head
    return checked
