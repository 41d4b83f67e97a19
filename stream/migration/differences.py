"""Compares the old and the new verdicts on the pages of one record."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spotsieve.stream.files.verdict_lines import verdict_fields
from spotsieve.stream.judge import entry_of
from spotsieve.stream.page import PageId
from spotsieve.stream.signature import Entry, Signatures, page_ids_of
from spotsieve.stream.verdict import Kind, Verdicts

_OF_PAGE = ("id", "url")
OTHER_ORIGINAL = "other_original"


class VerdictBatch(NamedTuple):
    """Pages with their verdicts, and the scheme that gave them."""

    signatures: Signatures
    verdicts: Verdicts
    scheme: str


class PagePair(NamedTuple):
    """A page that both sides have judged. row, new_row: in the old and the new part  part: the number of the new one"""

    row: int
    part: int
    new_row: int


def page_pairs(old: Signatures, new: Sequence[VerdictBatch]) -> Iterator[PagePair]:
    """The pages of the old side that the new one has too, in their order."""
    found = {page: (part, row) for part, judged in enumerate(new) for row, page in _rows(judged.signatures)}
    for row, page in _rows(old):
        if page in found:
            yield PagePair(row, *found[page])


def count_differences(old: VerdictBatch, new: Sequence[VerdictBatch], met: Sequence[PagePair]) -> Counter[str]:
    """How many pages have which two verdicts, such as "novel/duplicate"."""
    counts: Counter[str] = Counter()
    for row, part, new_row in met:
        kinds = Kind(old.verdicts.kind[row]), Kind(new[part].verdicts.kind[new_row])
        counts["/".join(kind.name.lower() for kind in kinds)] += 1
        counts[OTHER_ORIGINAL] += kinds[0] == kinds[1] and _differ(old.verdicts, row, new[part].verdicts, new_row)
    return +counts


def difference_lines(
    record: int, old: VerdictBatch, new: Sequence[VerdictBatch], met: Sequence[PagePair]
) -> Iterator[dict[str, object]]:
    """A line for each page whose verdicts differ: in kind, in the original, or in the page that it replaces."""
    for row, part, new_row in met:
        judged = new[part]
        if not _differ(old.verdicts, row, judged.verdicts, new_row):
            continue
        page = entry_of(old.signatures, row)
        was = verdict_fields(page, old.verdicts, row, old.scheme)
        becomes = verdict_fields(page, judged.verdicts, new_row, judged.scheme)
        yield {
            **{name: was[name] for name in _OF_PAGE},
            "page": page.page_id,
            "record": record,
            "old": {name: value for name, value in was.items() if name not in _OF_PAGE},
            "new": {name: value for name, value in becomes.items() if name not in _OF_PAGE},
        }


def _rows(signatures: Signatures) -> Iterator[tuple[int, PageId]]:
    return enumerate(page_ids_of(signatures))


def _differ(old: Verdicts, row: int, new: Verdicts, new_row: int) -> bool:
    if old.kind[row] != new.kind[new_row]:
        return True
    return _page(old.originals[row]) != _page(new.originals[new_row]) or _page(old.replaces[row]) != _page(
        new.replaces[new_row]
    )


def _page(entry: Entry | None) -> PageId | None:
    return None if entry is None else (entry.source, entry.partition, entry.offset)
