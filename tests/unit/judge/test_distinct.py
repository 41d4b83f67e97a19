"""The different values of an array, and where values are among them, are what numpy says."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.arrays import distinct, places_in

NUMBERS = st.lists(st.integers(0, 2**62) | st.integers(0, 50) | st.integers(0, 50).map(lambda low: low << 40))


@given(NUMBERS)
def test_different_values_ascend(numbers: list[int]) -> None:
    assert distinct(np.array(numbers, np.int64)).tolist() == np.unique(np.array(numbers, np.int64)).tolist()


@settings(deadline=None)  # the kernel is compiled
@given(NUMBERS, NUMBERS)
def test_each_value_is_found_where_it_is(numbers: list[int], others: list[int]) -> None:
    values = distinct(np.array(numbers, np.int64))
    wanted = np.array(numbers[::-1] + others, np.int64)
    found = places_in(values.astype(np.uint64), wanted).tolist()
    assert found == [values.tolist().index(one) if one in numbers else -1 for one in wanted.tolist()]
