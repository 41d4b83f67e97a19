"""Columns that the signatures of all schemes share: identity and origin of a page, and the digest of its body."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.page import Page, rank_words
from spotsieve.stream.base.signature import (
    FINGERPRINTED,
    MAX_FEATURES,
    Signatures,
    SignatureStatus,
    empty_rows,
    is_judged,
    unused_columns,
)
from spotsieve.stream.base.urls import host_of


def identity_columns(pages: Sequence[Page], digests: NDArray[np.uint64] | None = None) -> dict[str, Any]:
    """Columns of Signatures that do not depend on the text, by name.

    digests: uint64[n, 2], XXH3-128 of bodies that a kernel has digested, (0, 0) for the others
    """
    named = [page.source for page in pages]
    sources = tuple(dict.fromkeys(named))
    if len(sources) > 1:
        number = {source: index for index, source in enumerate(sources)}
        source = np.array([number[source] for source in named], np.uint16)
    else:
        source = np.zeros(len(pages), np.uint16)
    return {
        "sources": sources,
        "source": source,
        "partition": np.array([page.partition for page in pages], np.int32),
        "offset": np.array([page.offset for page in pages], np.int64),
        "event_time_ms": np.array([page.event_time_ms for page in pages], np.int64),
        "digest": digest_bodies(pages, digests),
        "urls": tuple([page.url.encode("utf-8", "replace") for page in pages]),
        "labels": tuple([page.label.encode("utf-8", "replace") for page in pages]),
    }


def status_of(pages: Sequence[Page], enough: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """SignatureStatus of n pages: uint8[n]. enough: bool[n], whether a page has the features that the scheme needs"""
    return np.array(list(map(_status_of, pages, enough.tolist())), np.uint8)


def _status_of(page: Page, enough: bool) -> int:
    if page.filtered:
        return page.filtered
    if page.encoded is not None:
        compared = enough and page.judgeable and page.body
        return SignatureStatus.PARTIAL if compared else SignatureStatus.INCOMPLETE
    if not page.body:
        return SignatureStatus.EMPTY
    if not page.judgeable:
        return SignatureStatus.NOT_TEXT
    return SignatureStatus.FINGERPRINTED if enough else SignatureStatus.TOO_FEW_FEATURES


def features_compared(
    status: NDArray[np.uint8], features: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns status, features and features_bounds of a scheme that compares features.

    status: uint8[n]  features: uint64[m], page i has features[bounds[i]:bounds[i + 1]], all different, ascending
    bounds: int64[n + 1]
    A page with more features than a record holds becomes TOO_MANY_FEATURES, or INCOMPLETE if it is partial. Only judged
    pages keep features.
    """
    too_many = sizes_of(bounds) > MAX_FEATURES
    status = np.where(too_many & (status == FINGERPRINTED), np.uint8(SignatureStatus.TOO_MANY_FEATURES), status)
    status = np.where(too_many & (status == SignatureStatus.PARTIAL), np.uint8(SignatureStatus.INCOMPLETE), status)
    features, bounds = empty_rows(features, bounds, is_judged(status))
    return {"status": status, "features": features, "features_bounds": bounds}


def make_signatures(
    pages: Sequence[Page], digests: NDArray[np.uint64] | None = None, *, feature_count: NDArray[Any], **columns: Any
) -> Signatures:
    """Signatures of pages. Every scheme makes them here, so all digests are sealed.

    digests: uint64[n, 2], XXH3-128 of bodies that a kernel has digested, (0, 0) for the others
    feature_count, columns: columns of Signatures that the scheme fills, including status
    """
    own = columns | identity_columns(pages, digests)
    own["rank"] = rank_words([page.rank for page in pages])
    own["feature_count"] = feature_count.astype(np.uint32, copy=False)
    own.setdefault("fingerprint", np.zeros(len(pages), np.uint64))
    own |= unused_columns(len(pages), own)
    own["digest"] = _sealed(own, pages)
    return Signatures(**own)


def _sealed(columns: Mapping[str, Any], pages: Sequence[Page]) -> NDArray[np.uint64]:
    """Digests that cannot be forged, one per page: uint64[n, 2].

    columns: of the signatures, with the XXH3-128 of the bodies as digest

    A digest decides alone, so it must be cryptographic. XXH3 has no key: bytes with the digest of another page's body
    can be built in milliseconds. The digest of a page with features is therefore BLAKE2b-128 (RFC 7693) over its body's
    XXH3 and everything that was read from its text. Equal bodies that are read alike have equal digests; a forger would
    need the same features, and with them the victim's own text. The body of a page without features is digested by
    BLAKE2b itself, which is a tenth as fast as XXH3. The digest of a partial page is over its payload as sent, too, and
    not over this alone: the same bytes under another Content-Encoding are another text.
    """
    if not pages:
        return np.empty((0, 2), np.uint64)
    fixed = [(columns[name].tobytes(), columns[name].nbytes // len(pages)) for name in _SEALED]
    ragged = [
        (columns[name].tobytes(), columns[name].itemsize, columns[bounds].tolist())
        for name, bounds in _RAGGED
        if len(columns[name])
    ]
    judged = is_judged(columns["status"]).tolist()
    digests = bytearray()
    for index, page in enumerate(pages):
        if judged[index]:
            person = b"page" if page.encoded is None else b"partial"
            parts = [column[index * size : (index + 1) * size] for column, size in fixed]
            parts += [column[size * bounds[index] : size * bounds[index + 1]] for column, size, bounds in ragged]
            parts.append(page.encoded or b"")
            digest = hashlib.blake2b(b"".join(parts), digest_size=16, person=person)
        else:
            digest = hashlib.blake2b(page.body, digest_size=16, person=b"body")
        digests += digest.digest()
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)


_SEALED = ("digest", "fingerprint", "feature_count", "text_digest", "language", "sketch")
"""The fixed-size columns that a digest covers, in their order. Machines with kernels are little endian."""
_RAGGED = tuple((name, f"{name}_bounds") for name in ("features", "blocks", "samples", "titles"))
"""The ragged columns that a digest covers after them, and their bounds."""


def digest_bodies(pages: Sequence[Page], known: NDArray[np.uint64] | None = None) -> NDArray[np.uint64]:
    """XXH3-128 of each body in UTF-8: uint64[n, 2], low word first. known: digests to keep, all except (0, 0)"""
    digests = np.zeros((len(pages), 2), np.uint64) if known is None else known.copy()
    missing = [row for row, words in enumerate(digests.tolist()) if not any(words)]
    if not missing:
        return digests
    raw = b"".join([xxhash.xxh3_128_digest(pages[row].body) for row in missing])
    digests[missing] = np.frombuffer(raw, ">u8").reshape(-1, 2)[:, ::-1]
    return digests


def hash_hosts(pages: Sequence[Page], owner_of: Callable[[str], str] = host_of) -> NDArray[np.uint64]:
    """BLAKE2b-64 of each page's host: uint64[n], 0 for a URL without a host.

    owner_of: from a URL to its host, or to its host and author (stream/base/urls.py)
    It is not XXH3, because a name with the hash of another host would be taken for that host. BLAKE2b takes 1 us per
    host.
    """
    return hash_names([owner_of(page.url) for page in pages])


def hash_sites(owners: Sequence[str]) -> NDArray[np.uint16]:
    """16 bits of the hash of the host of each owner (owner_reader), whoever the author is: uint16[n], 0 without one."""
    return np.array([_hash_name(owner.partition("/")[0]) & 0xFFFF for owner in owners], np.uint16)


def hash_names(names: Sequence[str]) -> NDArray[np.uint64]:
    """BLAKE2b-64 of the names of hosts: uint64[n], 0 for an empty name."""
    return np.array([_hash_name(name) for name in names], np.uint64)


@lru_cache(maxsize=4096)
def _hash_name(name: str) -> int:
    if not name:
        return 0
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "little")
