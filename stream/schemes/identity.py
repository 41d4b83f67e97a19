"""Fills the columns that every scheme's signatures share: who a page is, where it is from, and its body's digest."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.stream.hosts import host_of, site_of
from spotsieve.stream.page import Page
from spotsieve.stream.signature import MAX_FEATURES, Status


def identity_columns(pages: Sequence[Page], digests: NDArray[np.uint64] | None = None) -> dict[str, Any]:
    """The columns of spotsieve.stream.signature.Signatures that need no look into the text, by name.

    digests: uint64[n, 2], of the bodies that a kernel has digested, (0, 0) for the others
    """
    sources = tuple(dict.fromkeys(page.source for page in pages))
    number = {source: index for index, source in enumerate(sources)}
    return {
        "sources": sources,
        "source": np.array([number[page.source] for page in pages], np.uint16),
        "partition": np.array([page.partition for page in pages], np.int32),
        "offset": np.array([page.offset for page in pages], np.int64),
        "event_time_ms": np.array([page.event_time_ms for page in pages], np.int64),
        "digest": digest_bodies(pages, digests),
        "urls": tuple([page.url.encode("utf-8", "replace") for page in pages]),
        "labels": tuple([page.label.encode("utf-8", "replace") for page in pages]),
    }


def status_of(pages: Sequence[Page], enough: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """enough: bool[n], whether a page has the features that the scheme needs -> Status: uint8[n]."""
    status = np.where(enough, Status.FINGERPRINTED, Status.TOO_FEW_FEATURES).astype(np.uint8)
    for index, page in enumerate(pages):
        if page.filtered:
            status[index] = page.filtered
        elif not page.body:
            status[index] = Status.EMPTY
        elif not page.judgeable:
            status[index] = Status.NOT_TEXT
    return status


def features_compared(
    status: NDArray[np.uint8], features: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> dict[str, Any]:
    """The columns status, features and features_bounds of a scheme that compares features.

    status: uint8[n]  features: uint64[m], bounds: int64[n + 1] (page i's are features[bounds[i]:bounds[i + 1]], all
    different and ascending). A page with more of them than a record holds is TOO_MANY_FEATURES; it has none then, like
    all that are not FINGERPRINTED.
    """
    sizes, judged = np.diff(bounds), status == Status.FINGERPRINTED
    status = np.where(judged & (sizes > MAX_FEATURES), np.uint8(Status.TOO_MANY_FEATURES), status)
    kept = status == Status.FINGERPRINTED
    kept_bounds = np.zeros_like(bounds)
    np.cumsum(np.where(kept, sizes, 0), out=kept_bounds[1:])
    return {"status": status, "features": features[np.repeat(kept, sizes)], "features_bounds": kept_bounds}


def digest_bodies(pages: Sequence[Page], known: NDArray[np.uint64] | None = None) -> NDArray[np.uint64]:
    """XXH3-128 of each body, in UTF-8: uint64[n, 2], low word first; `known` ones, all but (0, 0), are taken over."""
    digests = np.zeros((len(pages), 2), np.uint64) if known is None else known.copy()
    missing = np.flatnonzero(~digests.any(axis=1))
    raw = b"".join([xxhash.xxh3_128_digest(pages[page].body) for page in missing.tolist()])
    digests[missing] = np.frombuffer(raw, ">u8").reshape(-1, 2)[:, ::-1]
    return digests


def hash_hosts(pages: Sequence[Page]) -> NDArray[np.uint64]:
    """BLAKE2b-64 of each page's host: uint64[n], 0 where its address has none.

    Not XXH3: whoever finds another name with a host's hash would be taken for that host (RFC 7693 costs 1 us a host).
    """
    return _hashed([host_of(page.url) for page in pages])


def hash_sites(pages: Sequence[Page]) -> NDArray[np.uint16]:
    """16 bits of the hash of each page's registered name: uint16[n], 0 where its address has no host."""
    return (_hashed([site_of(host_of(page.url)) for page in pages]) & np.uint64(0xFFFF)).astype(np.uint16)


def _hashed(names: Sequence[str]) -> NDArray[np.uint64]:
    """BLAKE2b-64 of names: uint64[n], 0 for an empty one."""
    known = {"": 0}
    for name in names:
        if name not in known:
            digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()
            known[name] = int.from_bytes(digest, "little")
    return np.array([known[name] for name in names], np.uint64)
