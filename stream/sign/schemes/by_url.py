"""Has a scheme keep to what the settings say of pages by their addresses: exempt ones, and which pages may meet.

An exempt page is signed as one that is not judged, and the log says so. Keys of pages with a scope are mixed with it,
as those of a host are in the scope `host` (stream/sign/schemes/by_url.py); pages without one have the scheme's own
keys. A pair of two scopes that meets by an accident, or is made to, is refused by the judge
(stream/judge/policy.py).

A scheme around another one, which does everything that it does not say itself.

The scope `host`: pages meet only pages of their own host, whatever the scheme compares them by.

Every key of a page is mixed with the hash of its host, so pages of two hosts share a bucket only by an accident of one
in 2^56. What one host publishes fills no bucket of another, is read for none of its pages and drops none of them. Such
an accident, made or not, changes nothing either: the hosts of a candidate pair are compared, and inline bits, which
decide without a second read, are mixed with the host as well. Pages of one host are compared as ever: mixing keeps
equal keys equal, different keys different, and the distance of inline bits.

Pages without a host (no address, or one without a host) are a scope of their own.

Files pages under their text and address together, for policy.recrawl = "identical".

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

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.page import FilterReason, Page
from spotsieve.stream.base.signature import FINGERPRINTED, CandidateColumns, Signatures
from spotsieve.stream.base.urls import url_without_fragment
from spotsieve.stream.sign.features.block_fingerprints import KEPT
from spotsieve.stream.sign.fingerprints.permuted_tables import ADDRESS_TAG, BARE_TAGS, KEY_BITS, KEY_MASK
from spotsieve.stream.sign.schemes import Confirmations, Criterion, HostThresholds, Probes, Scheme, ThresholdTest
from spotsieve.stream.sign.schemes.identity import hash_hosts
from spotsieve.stream.sign.schemes.probes import Keys, build_probes, digest_keys, mixed_with_host
from spotsieve.stream.sign.schemes.url_rules import PageRules


class WrappedScheme:
    """A scheme that leaves all to the inner one; derived classes say what they do otherwise."""

    def __init__(self, inner: Scheme) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The inner scheme's."""
        return self.inner.name

    @property
    def compares_features(self) -> bool:
        """The inner scheme's."""
        return self.inner.compares_features

    @property
    def candidate_limit(self) -> int:
        """The inner scheme's."""
        return self.inner.candidate_limit

    @property
    def bars(self) -> HostThresholds | None:
        """The inner scheme's."""
        return self.inner.bars

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """The inner scheme's signatures."""
        return self.inner.sign(pages)

    def probe(self, signatures: Signatures) -> Probes:
        """The inner scheme's probes."""
        return self.inner.probe(signatures)

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """The inner scheme's answer."""
        return self.inner.confirm(pages, others)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """The inner scheme's ways."""
        return self.inner.ways(pages, others)

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The inner scheme's score."""
        return self.inner.score(distance)


_INLINE = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that multiplying modulo 2^64 loses nothing: SplitMix64's increment (Steele, Lea, Flood 2014)."""


class HostScope(WrappedScheme):
    """A scheme whose pages meet no page of another host."""

    @property
    def bars(self) -> HostThresholds | None:
        """The scheme's own, but for pages of two hosts."""
        bars = self.inner.bars
        return None if bars is None else bars._replace(one_host=True)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """The scheme's signatures, with the host of every page, also where the scheme has no use for it."""
        return dataclasses.replace(self.inner.sign(pages), host=hash_hosts(pages))

    def probe(self, signatures: Signatures) -> Probes:
        """The scheme's probes, keys below their tags and inline bits, where there are any, mixed with the host."""
        probes = self.inner.probe(signatures)
        return _mixed(probes, np.repeat(signatures.host, sizes_of(probes.bounds)))

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """The scheme's answer, but for pairs of two hosts: these are refused."""
        found = self.inner.confirm(pages, others)
        return found._replace(accepted=found.accepted & (pages.host == others.host))

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """The scheme's, which need the same host too."""
        same = ThresholdTest(
            "the same host (index.scope = host)", (pages.host == others.host).astype(np.float64), 1.0, "yes"
        )
        return tuple(way._replace(bars=(same, *way.bars)) for way in self.inner.ways(pages, others))


def mixed_probes(probes: Probes, scopes: NDArray[np.uint64]) -> Probes:
    """Probes of n pages mixed with their scopes: uint64[n]. Those of a page whose scope is 0 stay as they are."""
    of_keys = np.repeat(scopes, sizes_of(probes.bounds))
    mixed, without = _mixed(probes, of_keys), of_keys == 0
    return dataclasses.replace(
        probes,
        keys=np.where(without, probes.keys, mixed.keys),
        inline=np.where(without, probes.inline, mixed.inline),
    )


def _mixed(probes: Probes, scope: NDArray[np.uint64]) -> Probes:
    """scope: uint64[m], of each key"""
    tag = probes.keys >> np.uint64(KEY_BITS)
    bare = np.isin(tag, BARE_TAGS)
    return dataclasses.replace(
        probes,
        keys=tag << np.uint64(KEY_BITS) | mixed_with_host(probes.keys & KEY_MASK, scope),
        inline=np.where(bare, probes.inline, probes.inline ^ scope * _INLINE),
    )


class AddressedScheme(WrappedScheme):
    """A scheme under rules."""

    def __init__(self, inner: Scheme, rules: PageRules) -> None:
        super().__init__(inner)
        self._rules = rules

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """The scheme's signatures, of pages of which some are exempt."""
        if self._rules.exempting:
            pages = [self._judged(page) for page in pages]
        return self.inner.sign(pages)

    def probe(self, signatures: Signatures) -> Probes:
        """The scheme's probes, mixed with the scope of each page that has one."""
        probes = self.inner.probe(signatures)
        if not self._rules.scoping:
            return probes
        return mixed_probes(probes, self._rules.scopes(signatures.addresses()))

    def _judged(self, page: Page) -> Page:
        if page.filtered or not self._rules.exempt(page.url):
            return page
        return page._replace(filtered=FilterReason.EXEMPT, judgeable=False)


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
