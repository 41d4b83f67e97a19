"""Reads the labels that people gave to pairs of pages, as the page of `spotsieve review` exports them.

    file = {"review": {"id", "scheme", "pages", "strata": [{"name", "pages"}], ...}}, then one label per line
    label = {"id_a", "id_b", "label": copy | different | skipped, "stratum": name, ...}

Files of several people for one review may be concatenated: the head and equal labels may repeat.
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
_NEXT_STEP = "name the file that the page of `spotsieve review` exported"


@dataclass(frozen=True, slots=True)
class Labels:
    """The n judged pairs of one review.

    review: the id of the review
    scheme: the scheme of the verdicts
    pages: the number of pages of the crawl
    earlier, later: n page ids
    copy: bool[n], whether the later page was judged a copy
    sample: the strata of the judged pairs
    skipped: the number of labels "skipped"
    unjudged: the number of pairs by the name of each stratum without a label
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
    """The labels of a file. Raises InputError for another file, labels of two reviews, and a file without a label."""
    head: dict[str, Any] | None = None
    labels: dict[tuple[str, str], tuple[str, str]] = {}
    for number, line in read_objects(path, "labels"):
        here = f"{path} line {number}"
        if "review" in line:
            if head is not None and line["review"] != head:
                rule = "belongs to another review than the lines before it"
                raise InputError(here, rule, None, "use the labels of one review only")
            head = _checked_head(line["review"], here)
            continue
        if head is None:
            raise InputError(str(path), "must begin with the line of its review", None, _NEXT_STEP)
        pair = line.get("id_a"), line.get("id_b")
        label, stratum = line.get("label"), line.get("stratum")
        names = [one["name"] for one in head["strata"]]
        if not all(isinstance(name, str) for name in pair) or stratum not in names:
            raise InputError(here, "must have id_a, id_b, and a stratum of the review", None, _NEXT_STEP)
        if label not in (COPY, DIFFERENT, SKIPPED):
            raise InputError(here, f"must have the label {COPY}, {DIFFERENT} or {SKIPPED}", label, _NEXT_STEP)
        before = labels.setdefault((str(pair[0]), str(pair[1])), (label, str(stratum)))
        if before[0] != label:
            rule = f"contradicts an earlier line, which has the label {before[0]} for the same pair"
            raise InputError(here, rule, label, "decide for one label, and remove the other line")
    return _judged_labels(path, head, labels)


def _judged_labels(path: Path, head: dict[str, Any] | None, labels: dict[tuple[str, str], tuple[str, str]]) -> Labels:
    """The judged pairs. labels: (label, stratum) by the two page ids

    Raises InputError if no pair is judged, or a stratum has more labels than pairs.
    """
    judged = {pair: label for pair, label in labels.items() if label[0] != SKIPPED}
    if head is None or not judged:
        rule = f"has no judged pair: none of its {len(labels)} labels is {COPY} or {DIFFERENT}"
        raise InputError(str(path), rule, None, "judge some pairs, and export again")
    places = {one["name"]: number for number, one in enumerate(head["strata"])}
    sizes = np.array([one["pages"] for one in head["strata"]], np.int64)
    sample = StratifiedSample(np.array([places[stratum] for _, stratum in judged.values()], np.int64), sizes)
    if (sample.counts > sizes).any():
        rule = "must not have more labels of a stratum than the review has pairs in it"
        raise InputError(str(path), rule, None, _NEXT_STEP)
    empty = {one["name"]: one["pages"] for one, count in zip(head["strata"], sample.counts, strict=True) if not count}
    return Labels(
        head["id"],
        head["scheme"],
        head["pages"],
        tuple(earlier for earlier, _ in judged),
        tuple(later for _, later in judged),
        np.array([label == COPY for label, _ in judged.values()], np.bool_),
        sample,
        len(labels) - len(judged),
        empty,
    )


def _checked_head(head: Any, here: str) -> dict[str, Any]:
    is_complete = (
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
    if not is_complete:
        raise InputError(here, "must have the review's id, scheme, pages and strata", None, _NEXT_STEP)
    checked: dict[str, Any] = head
    return checked
