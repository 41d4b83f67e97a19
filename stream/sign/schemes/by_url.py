"""Wrappers around any scheme that depend on a page's URL: exempt pages, scopes, and keys of text and URL.

Exempt pages (UrlRulesScheme): a page that a rule exempts is signed as a page that is not judged, and the log records
that.

Scopes (HostScope, UrlRulesScheme): only pages of one scope are compared. Every key of a page is mixed with the hash of
its scope (the host in the scope `host`), so pages of two scopes share a bucket only by an accident of one in 2^56. The
pages of one host fill no bucket of another, are never read for its pages, and never make them duplicates. An accidental
or forged collision changes nothing either: the judge compares the scopes of a candidate pair (stream/judge/policy.py),
and inline bits, which decide without a second read, are mixed with the scope too. Within a scope nothing changes:
mixing keeps equal keys equal, different keys different, and the distance of inline bits. Pages without a host (no URL,
or a URL without a host) are a scope of their own. Pages without a scope keep the scheme's own keys.

Text and URL (RecrawlScheme, for policy.recrawl = "identical"): a page that was fetched again is found under a decisive
key if its text is unchanged. Its body's digest finds it only if every byte is equal. The text of a page is what its
signature holds of it, so each scheme decides by its own reading whether two texts are equal. For the default scheme
that is the main text without the menu.

    key = digest of text and URL (BLAKE2b-128): 56 bits, and 64 inline
"""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.page import FilterReason, Page
from spotsieve.stream.base.page_text import KEPT, WORDS_SHIFT
from spotsieve.stream.base.signature import CandidateColumns, Signatures, is_judged
from spotsieve.stream.base.urls import host_of, url_without_fragment
from spotsieve.stream.sign.fingerprints.permuted_tables import BARE_TAGS, KEY_BITS, KEY_MASK, URL_TAG
from spotsieve.stream.sign.schemes import Confirmations, Criterion, HostThresholds, Probes, Scheme, ThresholdTest
from spotsieve.stream.sign.schemes.identity import hash_hosts
from spotsieve.stream.sign.schemes.probes import Keys, build_probes, digest_keys, mixed_with_host
from spotsieve.stream.sign.schemes.url_rules import PageRules


class WrappedScheme:
    """A scheme that delegates to an inner one. Derived classes override what they change."""

    def __init__(self, inner: Scheme) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """Name of the inner scheme."""
        return self.inner.name

    @property
    def compares_features(self) -> bool:
        """Whether the inner scheme needs features."""
        return self.inner.compares_features

    @property
    def candidate_limit(self) -> int:
        """Candidate limit of the inner scheme."""
        return self.inner.candidate_limit

    @property
    def host_thresholds(self) -> HostThresholds | None:
        """Host thresholds of the inner scheme."""
        return self.inner.host_thresholds

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Signatures of the inner scheme."""
        return self.inner.sign(pages)

    def probe(self, signatures: Signatures) -> Probes:
        """Probes of the inner scheme."""
        return self.inner.probe(signatures)

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Confirmations of the inner scheme."""
        return self.inner.confirm(pages, others)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Criteria of the inner scheme."""
        return self.inner.ways(pages, others)

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Scores of the inner scheme."""
        return self.inner.score(distance)


_INLINE = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that multiplying modulo 2^64 loses nothing: SplitMix64's increment (Steele, Lea, Flood 2014)."""


class HostScope(WrappedScheme):
    """The scope `host`: a page is compared only with pages of its own host, or of its author there."""

    def __init__(self, inner: Scheme, owner_of: Callable[[str], str] = host_of) -> None:
        """owner_of: from a URL to its host, or to its host and author (stream/base/urls.py)"""
        super().__init__(inner)
        self._owner_of = owner_of

    @property
    def host_thresholds(self) -> HostThresholds | None:
        """Host thresholds of the inner scheme, which never compare two hosts."""
        host_thresholds = self.inner.host_thresholds
        return None if host_thresholds is None else host_thresholds._replace(one_host=True)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Signatures of the inner scheme with the host of every page, whether the scheme uses it or not."""
        return dataclasses.replace(self.inner.sign(pages), host=hash_hosts(pages, self._owner_of))

    def probe(self, signatures: Signatures) -> Probes:
        """Probes of the inner scheme. Keys (below their tags) and inline bits are mixed with the host."""
        probes = self.inner.probe(signatures)
        return _mixed(probes, np.repeat(signatures.host, sizes_of(probes.bounds)))

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Confirmations of the inner scheme. Pairs of two hosts are rejected."""
        inner = self.inner.confirm(pages, others)
        return inner._replace(accepted=inner.accepted & (pages.host == others.host))

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Criteria of the inner scheme, each with the same host as a further condition."""
        same = ThresholdTest(
            "the same host (index.scope = host)", (pages.host == others.host).astype(np.float64), 1.0, "yes"
        )
        return tuple(way._replace(tests=(same, *way.tests)) for way in self.inner.ways(pages, others))


def mixed_probes(probes: Probes, scopes: NDArray[np.uint64]) -> Probes:
    """Probes of n pages mixed with their scopes: uint64[n]. Scope 0 leaves the probes of a page unchanged."""
    key_scopes = np.repeat(scopes, sizes_of(probes.bounds))
    mixed, without = _mixed(probes, key_scopes), key_scopes == 0
    return dataclasses.replace(
        probes,
        keys=np.where(without, probes.keys, mixed.keys),
        inline=np.where(without, probes.inline, mixed.inline),
    )


def _mixed(probes: Probes, scope: NDArray[np.uint64]) -> Probes:
    """Mix m keys with their scopes. scope: uint64[m]"""
    tag = probes.keys >> np.uint64(KEY_BITS)
    bare = np.isin(tag, BARE_TAGS)
    return dataclasses.replace(
        probes,
        keys=tag << np.uint64(KEY_BITS) | mixed_with_host(probes.keys & KEY_MASK, scope),
        inline=np.where(bare, probes.inline, probes.inline ^ scope * _INLINE),
    )


class UrlRulesScheme(WrappedScheme):
    """A scheme under the rules of the settings: exempt pages and scopes by URL."""

    def __init__(self, inner: Scheme, rules: PageRules) -> None:
        super().__init__(inner)
        self._rules = rules

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Signatures of the inner scheme. Exempt pages are signed as pages that are not judged."""
        if self._rules.exempting:
            pages = [self._exempted(page) for page in pages]
        return self.inner.sign(pages)

    def probe(self, signatures: Signatures) -> Probes:
        """Probes of the inner scheme, mixed with the scope of each page that has one."""
        probes = self.inner.probe(signatures)
        if not self._rules.scoping:
            return probes
        return mixed_probes(probes, self._rules.scopes(signatures.url_texts()))

    def _exempted(self, page: Page) -> Page:
        if page.filtered or not self._rules.exempt(page.url):
            return page
        return page._replace(filtered=FilterReason.EXEMPT, judgeable=False)


class RecrawlScheme(WrappedScheme):
    """A scheme whose pages are also found by their text and URL together, for policy.recrawl = "identical"."""

    def probe(self, signatures: Signatures) -> Probes:
        """Probes of the inner scheme, with one more key for each page that has text and a URL."""
        probes = self.inner.probe(signatures)
        urls = list(map(url_without_fragment, signatures.url_texts()))
        which = is_judged(signatures.status) & np.array([bool(one) for one in urls], np.bool_)
        return appended(probes, digest_keys(URL_TAG, _digests(signatures, urls), which))


def appended(probes: Probes, keys: Keys) -> Probes:
    """Probes of n pages with one more kind of keys, after the keys that a page has."""
    more = build_probes(keys)
    counts, added = sizes_of(probes.bounds), sizes_of(more.bounds)
    pages = np.arange(len(counts))
    order = np.argsort(np.concatenate([np.repeat(pages, counts), np.repeat(pages, added)]), kind="stable")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(probes, name), getattr(more, name)])[order]
        for name in ("keys", "inline", "limit", "decisive", "cap")
    }
    return dataclasses.replace(probes, bounds=probes.bounds + more.bounds, **columns)


def _digests(signatures: Signatures, urls: Sequence[str]) -> NDArray[np.uint64]:
    """Digests of text and URL, one per page: uint64[n, 2]."""
    of_main_text = signatures.blocks & KEPT != 0
    bounds = bounds_of(of_main_text)[signatures.blocks_bounds]
    # Without the lowest byte, so that the same text in other links is the same.
    blocks = signatures.blocks[of_main_text] >> np.uint64(WORDS_SHIFT)
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
    for page, url in enumerate(urls):
        digest = hashlib.blake2b(fixed[page].tobytes(), digest_size=16, person=b"address")
        for column, ends in (
            (signatures.features, signatures.features_bounds),
            (blocks, bounds),
            (signatures.titles, signatures.titles_bounds),
        ):
            part = column[ends[page] : ends[page + 1]].tobytes()
            digest.update(len(part).to_bytes(4, "little") + part)
        digest.update(url.encode())
        digests += digest.digest()
    return np.frombuffer(bytes(digests), "<u8").astype(np.uint64).reshape(-1, 2)
