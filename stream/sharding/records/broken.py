"""Packs which pages of a round break the code: the body of records of kind 10.

    broken  = pages u32 (n), broken (bits), texts u32 (t), text[t] (texts), which[k] (numbers, of the k broken ones)

In `matches` a shard says it of pages that it cannot answer for. In `verdicts` the resolver says which pages the open
round spares from then on. The texts are for a report: the error of each page, the number of its text. Errors beyond the
first MOST_TEXTS different ones have none: their number is t.
"""

import traceback
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from spotsieve.stream.sharding.records.columns import ColumnReader, ColumnWriter

MOST_TEXTS, MOST_CHARACTERS = 16, 4_000


class PoisonRows(NamedTuple):
    """pages: of the round  errors: the text of the error of each page that breaks, by row; "" where nobody told it"""

    pages: int
    errors: Mapping[int, str]


def error_texts(errors: Mapping[int, Exception]) -> dict[int, str]:
    """What is told of errors, by row: where each was raised, as far as there is room."""
    return {row: "".join(traceback.format_exception(error))[-MOST_CHARACTERS:] for row, error in errors.items()}


def write_poison_rows(broken: PoisonRows) -> bytes:
    """Write the body."""
    columns, is_broken = ColumnWriter(), np.zeros(broken.pages, np.bool_)
    rows = sorted(broken.errors)
    is_broken[rows] = True
    texts = list(dict.fromkeys(text for row in rows if (text := broken.errors[row])))[:MOST_TEXTS]
    number = {text: place for place, text in enumerate(texts)}
    columns.count(broken.pages)
    columns.bits(is_broken)
    columns.count(len(texts))
    columns.texts(texts)
    columns.numbers(np.array([number.get(broken.errors[row], len(texts)) for row in rows], np.int64))
    return columns.body()


def read_poison_rows(columns: ColumnReader) -> PoisonRows:
    """Read the body. Raises ValueError."""
    pages = columns.pages()
    rows = np.flatnonzero(columns.bits(pages)).tolist()
    texts = [*columns.texts(columns.count(MOST_TEXTS)), ""]
    which = columns.numbers(len(rows), len(texts) - 1).tolist()
    return PoisonRows(pages, {row: texts[place] for row, place in zip(rows, which, strict=True)})
