"""The short form of `make exact`: many small random stores, and the last result of the long form."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.exact.__main__ import CASES, DOCUMENT, SETS, document, figures
from bench.exact.cases import compare, random_cases
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.pages.scheme_settings import settings_named
from tests.reference.acceptance import CLAIMS, originals_of

SHORT = 1_000


@pytest.mark.parametrize("name", CLAIMS)
def test_in_stores_of_any_size_search_names_the_originals_of_brute_force(name: str) -> None:
    tried = random_cases(name, SHORT)
    assert tried.cases >= SHORT
    assert 0.2 < tried.copies / tried.cases < 0.8, "copies and novel pages, many of each"
    assert tried.differing == 0


def test_an_original_that_search_missed_would_be_counted() -> None:
    claim = CLAIMS["manku"]
    signed = claim.make(300, 7)
    # Brute force that calls every second copy none: as a search that loses them would look to it.

    def blind(one: Signatures, row: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        return claim.accepts(one, row, others) & (row % 2 == 0)

    found = compare(signed, scheme_of(settings_named("manku")), blind)
    assert found.differing >= (originals_of(signed, claim.accepts) >= 0).sum() // 3


def test_the_document_of_the_long_form_is_that_of_its_figures_and_nothing_differed() -> None:
    kept = figures()
    assert DOCUMENT.read_text("utf-8") == document(kept)
    assert kept.keys() <= CLAIMS.keys(), "a scheme that makes no claim has no row: make exact"
    for name, (random, *sets) in kept.items():
        assert random.cases >= CASES, name
        assert len(sets) == len(SETS)
        assert [tried.differing for tried in (random, *sets)] == [0] * (1 + len(SETS)), name
