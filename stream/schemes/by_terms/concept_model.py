"""Reads and writes the frozen model of the scheme `concept`: what shingles weigh, and which concepts terms stand for.

    model    = version u8 (2), pages u64 (N), shingles u64 (s), terms u64 (t), dimensions u32 (d), unseen u16,
               about length u32, about, shingle u64[s], weight u16[s], term u64[t], row i16[t, d], checksum u64
    about    = UTF-8 JSON: what a shingle and a term are
    shingle  = 64 bits of its SHA-1, ascending; those on two pages of the sample or more
    weight   = log(N / df) in steps of 1/2048; `unseen` is that of a shingle which is on one page or none, log N
    term     = a token's hash, ascending
    row      = IDF times row of U, in steps of a 32,767th of the greatest of all
    checksum = xxh3-64 of all before it

All integers little endian. The model holds weights and rows, and not the counts that they follow from: logarithms and
decompositions of two machines may differ in the last bit, sums of these numbers do not.
"""

import struct
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.stream.errors import SettingError
from spotsieve.stream.fingerprints.directory import directory_of
from spotsieve.stream.fingerprints.weighted_simhash import Weights

VERSION = 2
STEPS = 2048
"""Of a weight, to 1: u16 holds the logarithm of more pages than there are."""
_HEAD = struct.Struct("<BQQQIHI")
_CHECKSUM_BYTES = 8


@dataclass(frozen=True, slots=True)
class ConceptModel:
    """pages: N  unseen: weight of a shingle that is not stored  shingles: uint64[s], ascending  weights: uint16[s]
    terms: uint64[t], ascending  rows: int16[t, d]
    """

    about: str
    pages: int
    unseen: int
    shingles: NDArray[np.uint64]
    weights: NDArray[np.uint16]
    terms: NDArray[np.uint64]
    rows: NDArray[np.int16]

    def shingle_weights(self) -> Weights:
        """For the fold of a page's shingles."""
        return Weights(directory_of(self.shingles), self.weights, self.unseen)


def encode_concepts(model: ConceptModel) -> bytes:
    """The file's bytes."""
    about = model.about.encode()
    terms, dimensions = model.rows.shape
    head = _HEAD.pack(VERSION, model.pages, len(model.shingles), terms, dimensions, model.unseen, len(about))
    columns = (
        model.shingles.astype("<u8"),
        model.weights.astype("<u2"),
        model.terms.astype("<u8"),
        model.rows.astype("<i2"),
    )
    body = b"".join([head, about, *(column.tobytes() for column in columns)])
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body))


def decode_concepts(content: bytes, name: str) -> ConceptModel:
    """name: of the file, for errors. Raises SettingError where these are not the bytes of a whole model."""
    body, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    whole = len(body) >= _HEAD.size and checksum == struct.pack("<Q", xxhash.xxh3_64_intdigest(body))
    version, pages, shingles, terms, dimensions, unseen, about = _HEAD.unpack_from(body) if whole else (0,) * 7
    ends = np.cumsum([_HEAD.size, about, 8 * shingles, 2 * shingles, 8 * terms, 2 * terms * dimensions]).tolist()
    if version != VERSION or len(body) != ends[-1]:
        raise SettingError(
            name, "must be a model that `spotsieve model build` wrote, whole to its checksum", None, "build it again"
        )
    text, *columns = [body[first:last] for first, last in pairwise(ends)]
    return ConceptModel(
        text.decode(),
        pages,
        unseen,
        np.frombuffer(columns[0], "<u8").astype(np.uint64),
        np.frombuffer(columns[1], "<u2").astype(np.uint16),
        np.frombuffer(columns[2], "<u8").astype(np.uint64),
        np.frombuffer(columns[3], "<i2").astype(np.int16).reshape(terms, dimensions),
    )
