"""The scope `host`: pages meet only pages of their own host, whatever the scheme compares them by.

Every key of a page is mixed with the hash of its host, so pages of two hosts share a bucket only by an accident of one
in 2^56. What one host publishes fills no bucket of another, is read for none of its pages and drops none of them. Such
an accident, made or not, changes nothing either: the hosts of a candidate pair are compared, and inline bits, which
decide without a second read, are mixed with the host as well. Pages of one host are compared as ever: mixing keeps
equal keys equal, different keys different, and the distance of inline bits.

Pages without a host (no address, or one without a host) are a scope of their own.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.fingerprints.tables import BARE_TAGS, KEY_BITS, KEY_MASK
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Confirmations, Criterion, HostThresholds, Probes, ThresholdTest
from spotsieve.stream.schemes.by_address.wrapped import WrappedScheme
from spotsieve.stream.schemes.identity import hash_hosts
from spotsieve.stream.schemes.probes import mixed_with_host
from spotsieve.stream.signature import CandidateColumns, Signatures

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
