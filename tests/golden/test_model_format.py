"""The bytes of a model of term statistics: a change here is a new version, told in CHANGELOG and FORMATS.md."""

import numpy as np

from stream.schemes.idf import IdfModel, decode_model, encode_model


def test_a_model_comes_out_of_its_bytes_as_it_went_in_and_its_bytes_are_these() -> None:
    model = IdfModel('{"term": "x"}', 3, np.array([4, 2**63 + 1], np.uint64), np.array([1, 3], np.uint32))
    content = encode_model(model)
    assert content.hex() == (
        "01" "0300000000000000" "0200000000000000" "0d000000" "7b227465726d223a202278227d"
        "0400000000000000" "0100000000000080" "01000000" "03000000" "27b7d0785bb80ed9"
    )  # fmt: skip
    found = decode_model(content, "m.idf")
    assert (found.about, found.pages, found.terms.tolist(), found.frequencies.tolist()) == (
        model.about, 3, model.terms.tolist(), [1, 3],
    )  # fmt: skip
