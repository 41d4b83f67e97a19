"""What is read as the rank of a page, and that the words of ranks are in the order of ranks."""

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotsieve.stream.base.page import rank_words, ranks_of
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.sign.intake import Decoder, Message
from spotsieve.stream.sign.intake.fields import read_rank
from tests.reference.worth import rank_of

MOMENT = 1_709_280_000.0


@pytest.mark.parametrize(
    ("value", "rank"),
    [
        (3, 3.0),
        (-0.5, -0.5),
        (Decimal("2.50"), 2.5),
        (" 7.25 ", 7.25),
        (b"1e3", 1000.0),
        (True, 1.0),
        (["2", "9"], 2.0),
        ("2024-03-01T08:00:00Z", MOMENT),
        ("2024-03-01T08:00:00", MOMENT),
        ("2024-03-01T09:00:00+01:00", MOMENT),
        ("Fri, 01 Mar 2024 08:00:00 GMT", MOMENT),
        (datetime(2024, 3, 1, 8, tzinfo=UTC), MOMENT),
    ],
)
def test_numbers_and_dates_are_ranks(value: object, rank: float) -> None:
    assert read_rank(value) == rank


@pytest.mark.parametrize(
    "value", [None, "", "good", [], {}, "nan", "inf", float("nan"), Decimal("NaN"), 10**400, "1_000", "9" * 65]
)
def test_anything_else_is_no_rank(value: object) -> None:
    assert read_rank(value) is None


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_words_are_in_the_order_of_ranks_and_come_back(ranks: list[float | None]) -> None:
    words = rank_words(ranks)
    assert [rank_of(word) for word in words.tolist()] == ranks
    np.testing.assert_array_equal(ranks_of(words), [np.nan if rank is None else rank for rank in ranks])
    keys = [(rank is not None, rank or 0.0) for rank in ranks]
    assert sorted(words.tolist()) == [word for _, word in sorted(zip(keys, words.tolist(), strict=True))]


@pytest.mark.parametrize(("where", "rank"), [("", None), ("a.b", 4.0), ("header:R", 5.0)])
def test_a_rank_is_read_where_the_settings_say(where: str, rank: float | None) -> None:
    value = b'{"url": "u", "body": "x", "a": {"b": 4}}'
    message = Message(None, value, [("r", b"5")], "pages", 0, 0, 0)
    assert Decoder(InputSettings(rank_from=where)).decode(message).rank == rank
