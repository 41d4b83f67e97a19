"""The bytes of models of terms and of concepts: a change here is a new version, listed in CHANGELOG and FORMATS.md."""

import numpy as np
import pytest

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.sign.schemes.terms import (
    ConceptModel,
    IdfModel,
    decode_concepts,
    decode_model,
    encode_concepts,
    encode_model,
)


def test_a_model_comes_out_of_its_bytes_as_it_went_in_and_its_bytes_are_these() -> None:
    model = IdfModel('{"term": "x"}', 3, np.array([4, 2**63 + 1], np.uint64), np.array([1, 3], np.uint32))
    content = encode_model(model)
    assert content.hex() == (
        "01" "0300000000000000" "0200000000000000" "0d000000" "7b227465726d223a202278227d"
        "0400000000000000" "0100000000000080" "01000000" "03000000" "27b7d0785bb80ed9"
    )  # fmt: skip
    found = decode_model(content, "m.idf")
    assert (found.about, found.pages, found.terms.tolist(), found.frequencies.tolist()) == (
        model.about,
        3,
        model.terms.tolist(),
        [1, 3],
    )


CONCEPTS = ConceptModel(
    '{"term": "y"}',
    5,
    3296,
    np.array([7, 2**64 - 1], np.uint64),
    np.array([1877, 0], np.uint16),
    np.array([9, 2**63, 2**63 + 4], np.uint64),
    np.array([[1, -2], [32767, 0], [-32767, 256]], np.int16),
)


def test_a_model_of_concepts_is_read_as_it_was_written_and_its_bytes_are_these() -> None:
    content = encode_concepts(CONCEPTS)
    assert content.hex() == (
        "02" "0500000000000000" "0200000000000000" "0300000000000000" "02000000" "e00c" "0d000000"
        "7b227465726d223a202279227d" "0700000000000000" "ffffffffffffffff" "5507" "0000"
        "0900000000000000" "0000000000000080" "0400000000000080" "0100feff" "ff7f0000" "01800001" "1b7f4d71d811f02d"
    )  # fmt: skip
    found = decode_concepts(content, "m.idf")
    for name in ("about", "pages", "unseen"):
        assert getattr(found, name) == getattr(CONCEPTS, name)
    for name in ("shingles", "weights", "terms", "rows"):
        assert getattr(found, name).tolist() == getattr(CONCEPTS, name).tolist()
        assert getattr(found, name).dtype == getattr(CONCEPTS, name).dtype


def test_a_model_of_concepts_that_was_cut_or_changed_anywhere_is_refused() -> None:
    content = encode_concepts(CONCEPTS)
    damaged = [content[:length] for length in range(len(content))]
    damaged += [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in range(len(content))]
    for one in damaged:
        with pytest.raises(SettingError, match=r"m\.idf must be a model that `spotsieve model build` wrote"):
            decode_concepts(one, "m.idf")
