"""Finds what the schemes with term statistics count on pages: tokens without stop-words, their shingles, or spots.

Reads and writes the frozen term statistics of some schemes: on how many pages of a sample each term is.

    model    = version u8 (1), pages u64 (N), terms u64 (t), about length u32, about, term u64[t], pages of it u32[t],
               checksum u64
    about    = UTF-8 JSON: what a term is
    term     = its hash, ascending
    checksum = xxh3-64 of all before it

All integers little endian. A model's digest is the XXH3-128 of its bytes: it stands in the settings, and so in the
digest that a state and its log are bound to, as another model would give other verdicts.

Reads and writes the frozen model of the scheme `concept`: what shingles weigh, and which concepts terms stand for.

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

CONCEPT_VERSION = 2
STEPS = 2048
"""Of a weight, to 1: u16 holds the logarithm of more pages than there are."""
_CONCEPT_HEAD = struct.Struct("<BQQQIHI")


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
    """name: of the file, for errors. Raises SettingError where these are not the bytes of a whole model."""
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


VERSION = 1
DECIMALS = 9
"""Logarithms of different machines may differ in the last bit; an IDF is rounded, so that they agree on its range."""
_HEAD = struct.Struct("<BQQI")
_CHECKSUM_BYTES = 8
_BUILD = "spotsieve model build --scheme {scheme} FILES -o MODEL"


class Terms(Protocol):
    """What a scheme counts on pages."""

    @property
    def about(self) -> str:
        """JSON that tells these terms from any others."""

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Pages -> hashes: uint64[m], bounds: int64[n + 1], of page i hashes[bounds[i]:bounds[i + 1]], repeats kept."""


@dataclass(frozen=True, slots=True)
class IdfModel:
    """pages: N  about: what a term is  terms: uint64[t], ascending  frequencies: uint32[t], pages that have the term"""

    about: str
    pages: int
    terms: NDArray[np.uint64]
    frequencies: NDArray[np.uint32]

    def idf(self) -> NDArray[np.float64]:
        """log(N / df) / log(N) of each term (Theobald et al. 2008, sec. 5.1), in [0, 1]: float64[t]."""
        idf: NDArray[np.float64] = np.round(np.log(self.pages / self.frequencies) / np.log(self.pages), DECIMALS)
        return idf

    def between(self, least: float, most: float) -> NDArray[np.uint64]:
        """Terms whose IDF is in [least, most]: uint64[], ascending. One that the sample has not is in no range."""
        idf = self.idf()
        return self.terms[(idf >= least) & (idf <= most)]


def encode_model(model: IdfModel) -> bytes:
    """The file's bytes."""
    about = model.about.encode()
    head = _HEAD.pack(VERSION, model.pages, len(model.terms), len(about))
    body = head + about + model.terms.astype("<u8").tobytes() + model.frequencies.astype("<u4").tobytes()
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body))


def decode_model(content: bytes, name: str) -> IdfModel:
    """name: of the file, for errors. Raises SettingError where these are not the bytes of a whole model."""
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


def digest_of(content: bytes) -> str:
    """What the setting idf_digest holds: 32 hex digits."""
    return xxhash.xxh3_128_hexdigest(content)


def read_model(path: str) -> tuple[IdfModel | ConceptModel, str]:
    """The model in a file, of either kind, and its digest. Raises SettingError where there is none."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SettingError(
            "scheme.idf_model", f"must name a readable file: {error.strerror}", path, "check the path"
        ) from None
    decode = decode_concepts if content[:1] == bytes([CONCEPT_VERSION]) else decode_model
    return decode(content, path), digest_of(content)


def load_model(path: str, digest: str, about: str, scheme: str) -> IdfModel | ConceptModel:
    """The model that the settings name, if it is the one they mean.

    about: what the scheme's terms are. Raises SettingError where it is missing, of other terms, or another one.
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
            "write that, if this is the model you mean: a state of another one is then refused",
        )
    return model


def lexicon_of(settings: ModelledSettings, about: str) -> NDArray[np.uint64]:
    """The terms in the IDF range of a scheme's settings: uint64[], ascending.

    about: what the scheme's terms are. Raises SettingError where the range is none, or as load_model does.
    """
    return _model_of(settings, about).between(settings.idf_min, settings.idf_max)


def _model_of(settings: ModelledSettings, about: str) -> IdfModel:
    if settings.idf_min > settings.idf_max:
        rule, paper = f"must be at most idf_max, {settings.idf_max:g}", type(settings)()
        then = f"the paper's range is {paper.idf_min:g} to {paper.idf_max:g}"
        raise SettingError("scheme.idf_min", rule, settings.idf_min, then)
    model = load_model(settings.idf_model, settings.idf_digest, about, settings.name)
    assert isinstance(model, IdfModel), "its terms are those of this scheme"
    return model


def ranked_lexicon(settings: ModelledSettings, about: str) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """As lexicon_of, and the rank of each of its terms in the model: 0 for the rarest, equally rare ones by hash."""
    model = _model_of(settings, about)
    lexicon = model.between(settings.idf_min, settings.idf_max)
    rank = np.empty(len(model.terms), np.uint64)
    rank[np.argsort(model.frequencies, kind="stable")] = np.arange(len(rank), dtype=np.uint64)
    return lexicon, rank[np.searchsorted(model.terms, lexicon)]


def _other(theirs: str, ours: str) -> str:
    """The first thing that differs between two descriptions of terms."""
    there, here = json.loads(theirs), json.loads(ours)
    name = next(name for name in sorted(there.keys() | here.keys()) if there.get(name) != here.get(name))
    shown = [json.dumps(side.get(name)) for side in (there, here)]
    return f"{name} is {shown[0]} and not {shown[1]}" if max(map(len, shown)) < 60 else f"{name} is another"


def keep_lexicon_terms(
    hashes: NDArray[np.uint64], bounds: NDArray[np.int64], lexicon: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The terms of pages that are in the lexicon: hashes, bounds as of Terms.of; lexicon: uint64[], ascending."""
    return ranks_of(hashes, bounds, lexicon, lexicon)


def ranks_of(
    hashes: NDArray[np.uint64], bounds: NDArray[np.int64], lexicon: NDArray[np.uint64], ranks: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The ranks of those terms of pages that are in the lexicon, in their order on the page, and bounds as of Terms.of.

    ranks: uint64[], of each term of the lexicon
    """
    if not len(lexicon):
        return hashes[:0], np.zeros_like(bounds)
    place = np.minimum(np.searchsorted(lexicon, hashes), len(lexicon) - 1)
    kept = lexicon[place] == hashes
    before = bounds_of(kept)
    return ranks[place[kept]], before[bounds]


class TokenTerms:
    """All tokens that are no stop-words."""

    def __init__(self, stop_words: tuple[str, ...]) -> None:
        """Raises SettingError where a stop-word is no token."""
        check_words("scheme.stop_words", stop_words)
        self.about = json.dumps({"term": "token", "stop_words": sorted(set(stop_words))}, sort_keys=True)
        self._left_out = np.unique(np.array([hash_token(word.encode()) for word in stop_words], np.uint64))

    def of(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """As of spotsieve.stream.sign.schemes.terms.Terms."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_)).without(self._left_out)
        return tokens.hashes, tokens.bounds


class ConceptTerms:
    """What `concept` counts on pages: tokens that are no stop-words, and shingles of them."""

    def __init__(self, settings: ConceptSettings) -> None:
        """Raises SettingError where a stop-word is no token."""
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
        """As of spotsieve.stream.sign.schemes.terms.Terms: the tokens."""
        return self._tokens.of(pages)

    def shingles(self, tokens: PageTokens) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Hashes: uint64[m], bounds: int64[n + 1], repeats kept."""
        return sha1_shingles(tokens, self.shingle_size)


class SpotTerms:
    """All spots."""

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
        """As of spotsieve.stream.sign.schemes.terms.Terms."""
        batch = lay_out(pages)
        found = extract_spots(batch.buffer, batch.bounds, batch.markup.view(np.bool_), self._model)
        return found.spots, found.spot_bounds


def order_repeats(
    terms: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The terms of pages, ascending within each, and how many equal ones of the page are before each: both uint64[m].

    bounds: int64[n + 1], page i's are terms[bounds[i]:bounds[i + 1]]
    """
    page = np.repeat(np.arange(len(bounds) - 1), sizes_of(bounds))
    ordered = terms[np.lexsort((terms, page))]
    new = np.ones(len(ordered), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]) | (page[1:] != page[:-1])
    place = np.arange(len(ordered))
    return ordered, (place - np.maximum.accumulate(np.where(new, place, 0))).astype(np.uint64)


def terms_of(settings: ModelledSettings) -> Terms:
    """What the scheme counts. Raises SettingError where a word of a list is no token."""
    stop_words = settings.stop_words or DEFAULT_STOP_WORDS
    if isinstance(settings, ImatchSettings):
        return TokenTerms(stop_words)
    antecedents = settings.antecedents or DEFAULT_ANTECEDENTS
    return SpotTerms(SpotSettings(antecedents, stop_words, settings.distance, settings.chain_length))
