"""Says which pages of a round break the code of a role: to the log, and as the body of a record to the other roles."""

from collections.abc import Mapping

import numpy as np

from spotsieve.stream.observe.logs import logger
from spotsieve.stream.sharding.records.broken import PoisonRows, error_texts, write_poison_rows
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.signature import page_ids_at

MOST_NAMED = 10
"""Pages that a line names; their worker names and keeps all of them."""


def find_poison_pages(round_: Round, errors: Mapping[int, Exception]) -> dict[int, str]:
    """Log pages of a round that break the code, nearly always one; -> the texts of their errors, by row."""
    rows = sorted(errors)
    named = page_ids_at(round_.signatures, np.array(rows[:MOST_NAMED]))
    logger().error(
        "pages break Spotsieve's own code: their round goes on without them; please report it with what a worker keeps",
        pages=[f"{source}/{partition}/{offset}" for source, partition, offset in named],
        number=len(rows),
        exc_info=errors[rows[0]],
    )
    return error_texts(errors)


def poison_body(round_: Round, errors: Mapping[int, str]) -> bytes:
    """The body of kind 10. errors: texts by row"""
    return write_poison_rows(PoisonRows(len(round_.signatures), errors))
