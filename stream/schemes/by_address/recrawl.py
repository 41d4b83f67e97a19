"""Files pages under their text and address together, for policy.recrawl = "identical".

A page that was fetched again is then found under a key that decides, where its text is the same: under its body's
digest it is found only where every byte is. The text of a page is what its signature holds of it. So each scheme tells
by what it reads of a page whether two texts are the same: of the default scheme that is the kept text, not the menu.

    key = digest of text and address (BLAKE2b-128): 56 bits, and 64 inline
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import bounds_of, sizes_of
from spotsieve.stream.features.prints import KEPT
from spotsieve.stream.fingerprints.tables import ADDRESS_TAG
from spotsieve.stream.hosts import url_without_fragment
from spotsieve.stream.schemes import Probes
from spotsieve.stream.schemes.by_address.wrapped import WrappedScheme
from spotsieve.stream.schemes.probes import Keys, build_probes, digest_keys
from spotsieve.stream.signature import FINGERPRINTED, Signatures


class TextsByAddress(WrappedScheme):
    """A scheme whose pages are also found by their text, where they have one address."""

    def probe(self, signatures: Signatures) -> Probes:
        """The scheme's probes, and one key more for each page that has text and an address."""
        probes = self.inner.probe(signatures)
        addresses = list(map(url_without_fragment, signatures.addresses()))
        which = (signatures.status == FINGERPRINTED) & np.array([bool(one) for one in addresses], np.bool_)
        return appended(probes, digest_keys(ADDRESS_TAG, _digests(signatures, addresses), which))


def appended(probes: Probes, keys: Keys) -> Probes:
    """Probes of n pages with the keys of one more kind, behind those that a page has."""
    more = build_probes(keys)
    counts, added = sizes_of(probes.bounds), sizes_of(more.bounds)
    pages = np.arange(len(counts))
    order = np.argsort(np.concatenate([np.repeat(pages, counts), np.repeat(pages, added)]), kind="stable")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(probes, name), getattr(more, name)])[order]
        for name in ("keys", "inline", "limit", "decisive", "cap")
    }
    return dataclasses.replace(probes, bounds=probes.bounds + more.bounds, **columns)


def _digests(signatures: Signatures, addresses: Sequence[str]) -> NDArray[np.uint64]:
    """Of what each signature holds of the text, and of the address: uint64[n, 2]."""
    kept = signatures.prints & KEPT != 0
    bounds = bounds_of(kept)[signatures.prints_bounds]
    prints = signatures.prints[kept]
    fixed = np.empty(
        len(signatures),
        [
            ("fingerprint", "<u8"),
            ("feature_count", "<u4"),
            ("text_digest", "<u8", (2,)),
            ("sketch", "<u8", (signatures.sketch.shape[1],)),
        ],
    )
    for name in fixed.dtype.names or ():
        fixed[name] = getattr(signatures, name)
    digests = bytearray()
    for page, address in enumerate(addresses):
        digest = hashlib.blake2b(fixed[page].tobytes(), digest_size=16, person=b"address")
        for column, ends in (
            (signatures.features, signatures.features_bounds),
            (prints, bounds),
            (signatures.titles, signatures.titles_bounds),
        ):
            part = column[ends[page] : ends[page + 1]].tobytes()
            digest.update(len(part).to_bytes(4, "little") + part)
        digest.update(address.encode())
        digests += digest.digest()
    return np.frombuffer(bytes(digests), "<u8").astype(np.uint64).reshape(-1, 2)
