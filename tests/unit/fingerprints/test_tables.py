"""Designs of permuted tables: which exist, what they match, and their keys."""

import numpy as np
import pytest

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.sign.fingerprints.permuted_tables import MAX_TABLES, design_tables, possible_tables
from tests.reference.tables import obvious_key


def test_the_designs_for_3_bits_are_those_of_the_paper() -> None:
    # Manku et al. 2007, sec. 3.1.3: 20 tables match 31 bits at least, 16 match 28, 10 match 25, 4 match 16
    designs = {tables: design_tables(3, tables) for tables in (4, 10, 16, 20)}
    matched = {tables: min(mask.bit_count() for mask in design.masks) for tables, design in designs.items()}
    assert matched == {4: 16, 10: 25, 16: 28, 20: 31}


def test_an_impossible_number_of_tables_is_refused_with_the_possible_ones() -> None:
    message = r"scheme\.tables must be one of 4, 10, 16, 20, .* for max_distance_bits = 3, got 7"
    with pytest.raises(SettingError, match=message):
        design_tables(3, 7)
    with pytest.raises(SettingError, match=r"must be one of 2\.\.64 for max_distance_bits = 1, got 65"):
        design_tables(1, 65)


@pytest.mark.parametrize("k", [-1, 8, 64])
def test_a_distance_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(SettingError, match=r"scheme\.max_distance_bits must be 0\.\.7, got"):
        design_tables(k, 10)


@pytest.mark.parametrize("k", range(8))
def test_every_distance_has_a_design_and_none_needs_the_kept_tags(k: int) -> None:
    counts = possible_tables(k)
    assert counts
    assert max(counts) <= MAX_TABLES
    assert min(counts) == k + 1


@pytest.mark.parametrize(("k", "tables"), [(0, 1), (1, 5), (2, 9), (3, 4), (3, 10), (3, 16), (3, 20), (7, 120)])
def test_keys_are_the_matched_bits_under_the_tables_tag(k: int, tables: int) -> None:
    design = design_tables(k, tables)
    fingerprints = np.random.default_rng(k).integers(0, 2**64, 50, np.uint64)
    fingerprints[:2] = 0, 2**64 - 1
    keys = design.keys(fingerprints)
    assert keys.shape == (50, tables)
    for row, fingerprint in enumerate(fingerprints.tolist()):
        expected = [obvious_key(fingerprint, table, mask) for table, mask in enumerate(design.masks)]
        assert keys[row].tolist() == expected


def test_keys_refuse_signed_fingerprints() -> None:
    with pytest.raises(TypeError, match=r"fingerprints must be uint64\[n\], got int64"):
        design_tables(3, 10).keys(np.zeros(3, np.int64))
