"""Terms of the schemes with term statistics, and the files of their frozen models.

Terms are tokens without stop-words, shingles of them, or spots. A model is built once from a sample of pages. Its
digest, the XXH3-128 of its bytes, is a setting, and so part of the digest that a state and its log are bound to,
because another model would give other verdicts. All integers are little endian.

Version 1 (`imatch`, `imatch-s`, `spotsigs`, `spotsigs-lsh`): the number of sample pages on which each term occurs.

    model    = version u8 (1), pages u64 (N), terms u64 (t), about length u32, about, term u64[t], pages of it u32[t],
               checksum u64
    about    = UTF-8 JSON: description of a term
    term     = its hash, ascending
    checksum = xxh3-64 of all before it

Version 2 (`concept`): weights of shingles, and the concepts of terms.

    model    = version u8 (2), pages u64 (N), shingles u64 (s), terms u64 (t), dimensions u32 (d), unseen u16,
               about length u32, about, shingle u64[s], weight u16[s], term u64[t], row i16[t, d], checksum u64
    about    = UTF-8 JSON: description of shingles and terms
    shingle  = 64 bits of its SHA-1, ascending; those on at least two pages of the sample
    weight   = log(N / df) in steps of 1/2048; `unseen` is log N, the weight of a shingle on one page or none
    term     = a token's hash, ascending
    row      = IDF times row of U, in steps of a 32,767th of the largest number of all
    checksum = xxh3-64 of all before it

It holds weights and rows instead of the counts that they follow from, because logarithms and decompositions of two
machines may differ in the last bit. Sums of these integers do not.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.settings.schemes import ConceptSettings, ImatchSettings, ModelledSettings
from spotsieve.stream.sign.features.spots import (
    DEFAULT_ANTECEDENTS,
    DEFAULT_STOP_WORDS,
    SpotModel,
    SpotSettings,
    check_words,
    extract_spots,
)
from spotsieve.stream.sign.fingerprints.digests import sha1_shingles
from spotsieve.stream.sign.fingerprints.lsi import directory_of
from spotsieve.stream.sign.fingerprints.simhash import Weights
from spotsieve.stream.sign.text.hashing import hash_token
from spotsieve.stream.sign.text.tokens import PageTokens, extract_tokens

VERSION = 1
DECIMALS = 9
"""An IDF is rounded to so many decimals, because logarithms of two machines may differ in the last bit."""
_HEAD = struct.Struct("<BQQI")
CONCEPT_VERSION = 2
STEPS = 2048
"""Steps of a weight per unit of log(N / df). A u16 then holds the logarithm of any number of pages."""
_CONCEPT_HEAD = struct.Struct("<BQQQIHI")
_CHECKSUM_BYTES = 8
_BUILD = "spotsieve model build --scheme {scheme} FILES -o MODEL"


class Terms(Protocol):
    """The terms that a scheme counts on pages."""

    @property
    def about(self) -> str:
        """JSON that describes the terms. A model is only valid for terms with the same description."""

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Terms of n pages, with repeats.

        -> hashes: uint64[m], page i has hashes[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
        """


class TokenTerms:
    """All tokens except stop-words."""

    def __init__(self, stop_words: tuple[str, ...]) -> None:
        """Raises SettingError if a stop-word is no token."""
        check_words("scheme.stop_words", stop_words)
        self.about = json.dumps({"term": "token", "stop_words": sorted(set(stop_words))}, sort_keys=True)
        self._excluded = np.unique(np.array([hash_token(word.encode()) for word in stop_words], np.uint64))

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Token hashes of n pages, with repeats, and their bounds."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup).without(self._excluded)
        return tokens.hashes, tokens.bounds


class SpotTerms:
    """All spots (Theobald et al. 2008, sec. 3)."""

    def __init__(self, settings: SpotSettings) -> None:
        self._model = SpotModel(settings)
        described = {
            "term": "spot",
            "antecedents": sorted(set(settings.antecedents)),
            "stop_words": sorted(set(settings.stop_words)),
            "distance": settings.distance,
            "chain_length": settings.chain_length,
        }
        self.about = json.dumps(described, sort_keys=True)

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Spot hashes of n pages, with repeats, and their bounds."""
        batch = lay_out(pages)
        found = extract_spots(batch.buffer, batch.bounds, batch.markup, self._model)
        return found.spots, found.spot_bounds


class ConceptTerms:
    """Terms of the scheme `concept`: tokens except stop-words, and shingles of them."""

    def __init__(self, settings: ConceptSettings) -> None:
        """Raises SettingError if a stop-word is no token."""
        self.stop_words = settings.stop_words or DEFAULT_STOP_WORDS
        self.shingle_size, self.dimensions = settings.shingle_size, settings.dimensions
        self._tokens = TokenTerms(self.stop_words)
        described = {
            "term": "concept",
            "stop_words": sorted(set(self.stop_words)),
            "shingle_size": self.shingle_size,
            "dimensions": self.dimensions,
        }
        self.about = json.dumps(described, sort_keys=True)

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Token hashes of n pages, with repeats, and their bounds."""
        return self._tokens.of(pages)

    def shingles(self, tokens: PageTokens) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Shingle hashes of n pages, with repeats: uint64[m], and their bounds: int64[n + 1]."""
        return sha1_shingles(tokens, self.shingle_size)


def terms_of(settings: ModelledSettings) -> Terms:
    """The terms of a scheme with an IDF model. Raises SettingError if a word of a list is no token."""
    stop_words = settings.stop_words or DEFAULT_STOP_WORDS
    if isinstance(settings, ImatchSettings):
        return TokenTerms(stop_words)
    antecedents = settings.antecedents or DEFAULT_ANTECEDENTS
    return SpotTerms(SpotSettings(antecedents, stop_words, settings.distance, settings.chain_length))


@dataclass(frozen=True, slots=True)
class IdfModel:
    """Term frequencies of a sample of pages.

    about: JSON description of the terms  pages: N
    terms: uint64[t], ascending  frequencies: uint32[t], number of pages with the term
    """

    about: str
    pages: int
    terms: NDArray[np.uint64]
    frequencies: NDArray[np.uint32]

    def idf(self) -> NDArray[np.float64]:
        """log(N / df) / log(N) of each term (Theobald et al. 2008, sec. 5.1), in [0, 1]: float64[t]."""
        idf: NDArray[np.float64] = np.round(np.log(self.pages / self.frequencies) / np.log(self.pages), DECIMALS)
        return idf

    def between(self, least: float, most: float) -> NDArray[np.uint64]:
        """Terms with an IDF in [least, most]: uint64[], ascending. Terms that the sample lacks are in no range."""
        idf = self.idf()
        return self.terms[(idf >= least) & (idf <= most)]


def encode_model(model: IdfModel) -> bytes:
    """Bytes of a model file of version 1."""
    about = model.about.encode()
    head = _HEAD.pack(VERSION, model.pages, len(model.terms), len(about))
    body = head + about + model.terms.astype("<u8").tobytes() + model.frequencies.astype("<u4").tobytes()
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body))


def decode_model(content: bytes, name: str) -> IdfModel:
    """Decode a model file of version 1. Raises SettingError if the bytes are not a whole model of this version.

    name: of the file, for errors
    """
    body, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    whole = len(body) >= _HEAD.size and checksum == struct.pack("<Q", xxhash.xxh3_64_intdigest(body))
    version, pages, terms, about_bytes = _HEAD.unpack_from(body) if whole else (0, 0, 0, 0)
    if not whole or len(body) != _HEAD.size + about_bytes + terms * 12:
        raise SettingError(
            name, "must be a model that `spotsieve model build` wrote, whole to its checksum", None, "build it again"
        )
    if version != VERSION:
        raise SettingError(name, f"must be of model version {VERSION}", version, "build it with this release")
    first = _HEAD.size + about_bytes
    return IdfModel(
        body[_HEAD.size : first].decode(),
        pages,
        np.frombuffer(body, "<u8", terms, first).astype(np.uint64),
        np.frombuffer(body, "<u4", terms, first + 8 * terms).astype(np.uint32),
    )


@dataclass(frozen=True, slots=True)
class ConceptModel:
    """Shingle weights and term rows of the scheme `concept`.

    about: JSON description of the terms  pages: N  unseen: weight of a shingle that is not stored
    shingles: uint64[s], ascending  weights: uint16[s]  terms: uint64[t], ascending  rows: int16[t, d]
    """

    about: str
    pages: int
    unseen: int
    shingles: NDArray[np.uint64]
    weights: NDArray[np.uint16]
    terms: NDArray[np.uint64]
    rows: NDArray[np.int16]

    def shingle_weights(self) -> Weights:
        """Weights of shingles, for the fold into a fingerprint."""
        return Weights(directory_of(self.shingles), self.weights, self.unseen)


def encode_concepts(model: ConceptModel) -> bytes:
    """Bytes of a model file of version 2."""
    about = model.about.encode()
    terms, dimensions = model.rows.shape
    head = _CONCEPT_HEAD.pack(
        CONCEPT_VERSION, model.pages, len(model.shingles), terms, dimensions, model.unseen, len(about)
    )
    columns = (
        model.shingles.astype("<u8"),
        model.weights.astype("<u2"),
        model.terms.astype("<u8"),
        model.rows.astype("<i2"),
    )
    body = b"".join([head, about, *(column.tobytes() for column in columns)])
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body))


def decode_concepts(content: bytes, name: str) -> ConceptModel:
    """Decode a model file of version 2. Raises SettingError if the bytes are not a whole model.

    name: of the file, for errors
    """
    body, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    whole = len(body) >= _CONCEPT_HEAD.size and checksum == struct.pack("<Q", xxhash.xxh3_64_intdigest(body))
    version, pages, shingles, terms, dimensions, unseen, about = _CONCEPT_HEAD.unpack_from(body) if whole else (0,) * 7
    ends = np.cumsum(
        [_CONCEPT_HEAD.size, about, 8 * shingles, 2 * shingles, 8 * terms, 2 * terms * dimensions]
    ).tolist()
    if version != CONCEPT_VERSION or len(body) != ends[-1]:
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


def digest_of(content: bytes) -> str:
    """Digest of a model file, for the setting idf_digest: 32 hex digits."""
    return xxhash.xxh3_128_hexdigest(content)


def read_model(path: str) -> tuple[IdfModel | ConceptModel, str]:
    """The model in a file, of either kind, and its digest. Raises SettingError if the file is not a readable model."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SettingError(
            "scheme.idf_model", f"must name a readable file: {error.strerror}", path, "check the path"
        ) from None
    decode = decode_concepts if content[:1] == bytes([CONCEPT_VERSION]) else decode_model
    return decode(content, path), digest_of(content)


def load_model(path: str, digest: str, about: str, scheme: str) -> IdfModel | ConceptModel:
    """The model that the settings name.

    digest: the expected digest  about: JSON description of the scheme's terms
    Raises SettingError if the file is missing, or the model has other terms or another digest.
    """
    build = _BUILD.format(scheme=scheme)
    if not path:
        raise SettingError(
            "scheme.idf_model",
            f"must name a model of term statistics for the scheme {scheme}",
            None,
            f"build one: {build}",
        )
    model, found = read_model(path)
    if model.about != about:
        rule = f"must be a model of the terms that the settings describe; in {path} {_other(model.about, about)}"
        raise SettingError("scheme.idf_model", rule, None, f"build it with these settings: {build}")
    if found != digest:
        raise SettingError(
            "scheme.idf_digest",
            f"must be the digest of {path}, {found}",
            digest or "none",
            "set it to that digest, if this is the model that you want",
        )
    return model


def _other(theirs: str, ours: str) -> str:
    """The first difference between two descriptions of terms, as text."""
    there, here = json.loads(theirs), json.loads(ours)
    name = next(name for name in sorted(there.keys() | here.keys()) if there.get(name) != here.get(name))
    shown = [json.dumps(side.get(name)) for side in (there, here)]
    return f"{name} is {shown[0]} and not {shown[1]}" if max(map(len, shown)) < 60 else f"{name} differs"


def lexicon_of(settings: ModelledSettings, about: str) -> NDArray[np.uint64]:
    """The terms in the IDF range of a scheme's settings: uint64[], ascending.

    about: JSON description of the scheme's terms
    Raises SettingError if the range is empty, or the model is missing, or has other terms or another digest.
    """
    return _model_of(settings, about).between(settings.idf_min, settings.idf_max)


def ranked_lexicon(settings: ModelledSettings, about: str) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The terms in the IDF range, and the rank of each in the model: uint64[] each, by ascending term.

    Rank 0 is the rarest term; equally rare terms are ranked by hash. Raises SettingError like lexicon_of.
    """
    model = _model_of(settings, about)
    lexicon = model.between(settings.idf_min, settings.idf_max)
    rank = np.empty(len(model.terms), np.uint64)
    rank[np.argsort(model.frequencies, kind="stable")] = np.arange(len(rank), dtype=np.uint64)
    return lexicon, rank[np.searchsorted(model.terms, lexicon)]


def _model_of(settings: ModelledSettings, about: str) -> IdfModel:
    if settings.idf_min > settings.idf_max:
        rule, paper = f"must be at most idf_max, {settings.idf_max:g}", type(settings)()
        then = f"the paper's range is {paper.idf_min:g} to {paper.idf_max:g}"
        raise SettingError("scheme.idf_min", rule, settings.idf_min, then)
    model = load_model(settings.idf_model, settings.idf_digest, about, settings.name)
    assert isinstance(model, IdfModel), "load_model checks the terms, which only an IDF model has"
    return model


def keep_lexicon_terms(
    hashes: NDArray[np.uint64], bounds: NDArray[np.int64], lexicon: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The terms of pages that are in the lexicon, as hashes and bounds of the same shape.

    hashes: uint64[m], page i has hashes[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]  lexicon: uint64[], ascending
    """
    return ranks_of(hashes, bounds, lexicon, lexicon)


def ranks_of(
    hashes: NDArray[np.uint64], bounds: NDArray[np.int64], lexicon: NDArray[np.uint64], ranks: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Ranks of the terms of pages that are in the lexicon, in their order on the page, and their bounds.

    hashes: uint64[m], page i has hashes[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    lexicon: uint64[], ascending  ranks: uint64[], rank of each term of the lexicon
    """
    if not len(lexicon):
        return hashes[:0], np.zeros_like(bounds)
    place = np.minimum(np.searchsorted(lexicon, hashes), len(lexicon) - 1)
    known = lexicon[place] == hashes
    before = bounds_of(known)
    return ranks[place[known]], before[bounds]


def order_repeats(
    terms: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Terms in ascending order within each page, and the number of equal terms before each: uint64[m] each.

    terms: uint64[m], page i has terms[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    """
    page = np.repeat(np.arange(len(bounds) - 1), sizes_of(bounds))
    ordered = terms[np.lexsort((terms, page))]
    new = np.ones(len(ordered), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]) | (page[1:] != page[:-1])
    place = np.arange(len(ordered))
    return ordered, (place - np.maximum.accumulate(np.where(new, place, 0))).astype(np.uint64)
