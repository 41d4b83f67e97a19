"""The default scheme `spotsieve`: packed blocks, a sample of shingles, title, and MinHash values of the main text.

    body -> title; blocks, each kept or dropped for a reason
         -> packed blocks; 3-shingles of each block -> samples; phrases of the main text -> MinHash values (bottom-k)

A page is indexed under keys that never depend on the memory of its host:

- the digest of its body, which is decisive;
- its MinHash values (Broder 1997), which find copies on any host;
- the identities of its heaviest blocks and the words of its title, mixed with its host.

All keys except the digest only find candidates. A key that many novel pages share is a common phrase or template text.
Its bucket takes few pages, so even pages built to share every key are compared with a bounded number of others.

The judge confirms a candidate with its memory of every host (stream/judge/by_host/pairs.py).
docs/measured/quality.md has the figures.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.page_text import identity_of, is_kept, words_of
from spotsieve.stream.base.settings.model import AUTHOR_PATHS
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import IN_NEED, CandidateColumns, Signatures, empty_rows, has_keys, is_judged
from spotsieve.stream.base.urls import owner_reader
from spotsieve.stream.sign.features.page_text import REMAINDER
from spotsieve.stream.sign.features.sieve import SieveSettings, sieve_pages
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    BLOCK_TAG,
    DIGEST_TAG,
    KEY_MASK,
    MINIMA_TAG,
    TITLE_TAG,
    tagged,
)
from spotsieve.stream.sign.schemes import (
    CANDIDATE_LIMIT,
    UNCAPPED,
    Confirmations,
    Criterion,
    HostThresholds,
    Probes,
)
from spotsieve.stream.sign.schemes.identity import hash_names, hash_sites, make_signatures, status_of
from spotsieve.stream.sign.schemes.probes import mixed_with_host

BLOCK_CAP = 4
"""Most pages of a host under one block: a block of more novel pages is template text."""
SHORT_FEATURES, MIDDLE_FEATURES = 150, 300
FEW_KEYS, SOME_KEYS, MOST_KEYS = 2, 4, 6
"""Numbers of blocks under which a page is indexed: MOST_KEYS if it has fewer than SHORT_FEATURES features, SOME_KEYS
below MIDDLE_FEATURES, otherwise FEW_KEYS."""
BOILERPLATE_WEIGHT = 0.4
"""Weight of a word of boilerplate; a word of main text weighs 1."""


_IN_NEED = np.uint8(IN_NEED)


class SpotsieveScheme:
    """Indexes by distinctive text, titles and MinHash values; compares samples of shingles and blocks."""

    name = "spotsieve"
    compares_features = False
    candidate_limit = CANDIDATE_LIMIT

    def __init__(self, settings: SpotsieveSettings) -> None:
        self.settings = settings
        self.sieve = SieveSettings(settings.shingle_words, settings.minima)
        self._owner_of = owner_reader(AUTHOR_PATHS)
        self.host_thresholds = HostThresholds(
            settings.template_share,
            settings.min_containment,
            float(settings.max_fresh_words),
            one_host=False,
            drop_parts=False,
            keep_variants=False,
        )

    def with_policy(
        self, keep_variants: bool, drop_parts: bool, owner_of: Callable[[str], str] | None = None
    ) -> "SpotsieveScheme":
        """The same scheme with policies: variants are not copies, and small parts of longer pages are.

        owner_of: from a URL to its host, or to its host and author (stream/base/urls.py)
        """
        scheme = SpotsieveScheme(self.settings)
        scheme._owner_of = owner_of or self._owner_of
        scheme.host_thresholds = self.host_thresholds._replace(keep_variants=keep_variants, drop_parts=drop_parts)
        return scheme

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body, and fingerprint those that are text.

        A page with too little main text has only a digest and a host.
        """
        batch = lay_out(pages)
        sieved = sieve_pages(batch.buffer, batch.bounds, batch.markup, self.sieve)
        status = status_of(pages, sieved.token_counts >= self.settings.min_features + self.settings.shingle_words - 1)
        judged, owners = is_judged(status), [self._owner_of(page.url) for page in pages]
        blocks, blocks_bounds = empty_rows(sieved.blocks, sieved.block_bounds, judged)
        samples, samples_bounds = empty_rows(sieved.samples, sieved.sample_bounds, judged)
        titles, titles_bounds = empty_rows(sieved.titles, sieved.title_bounds, judged)
        return make_signatures(
            pages,
            sieved.body_digest,
            status=status,
            feature_count=sieved.feature_counts,
            host=hash_names(owners),
            language=sieved.language | sieved.weak * _IN_NEED,
            features=sieved.minima,
            features_bounds=sieved.minima_bounds,
            site=hash_sites(owners),
            headline=sieved.headline * judged,
            blocks=blocks,
            blocks_bounds=blocks_bounds,
            samples=samples,
            samples_bounds=samples_bounds,
            titles=titles,
            titles_bounds=titles_bounds,
        )

    def probe(self, signatures: Signatures) -> Probes:
        """Keys of each page: body digest, MinHash values, blocks and title if it is fingerprinted.

        A page without a fingerprint has only its body digest, and an empty page has no keys.
        """
        status, own = signatures.status, signatures
        return Probes(
            *_probe_kernel(
                *(has_keys(status), is_judged(status), own.digest, own.features, own.features_bounds),
                *(own.titles, own.titles_bounds, own.blocks, own.blocks_bounds, own.host, own.feature_count),
                self.settings.minima_cap,
            )
        )

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Raises NotImplementedError: the judge confirms candidates (stream/judge/by_host)."""
        raise NotImplementedError("the judge confirms the candidates of a scheme with host memories")

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Raises NotImplementedError, as confirm() does."""
        raise NotImplementedError("the judge confirms the candidates of a scheme with host memories")

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Scores of decisive pairs: 1, because only equal digests are decisive."""
        return np.ones(len(distance))


@kernel
def _probe_kernel(
    indexed, judged, digest, minima, minima_bounds, titles, title_bounds, blocks, block_bounds, host, size, cap
):
    # indexed: bool[n], pages with the key of a digest  judged: bool[n], pages with the other keys
    # digest: uint64[n, 2]  minima: uint64[m], titles: uint16[t], blocks: uint64[b], each with bounds: int64[n + 1]
    # host: uint64[n]  size: uint32[n], number of features  cap: int64, of keys of MinHash values and titles
    # ->  keys, bounds, inline, limit, decisive, cap: the fields of Probes
    pages = len(indexed)
    most = pages * (2 + MOST_KEYS) + len(minima)
    keys, inline, caps = np.empty(most, np.uint64), np.zeros(most, np.uint64), np.full(most, cap)
    decisive, bounds = np.zeros(most, np.bool_), np.zeros(pages + 1, np.int64)
    weights, at = np.empty(MOST_KEYS, np.float64), 0
    for page in range(pages):
        if indexed[page]:
            keys[at], inline[at] = tagged(DIGEST_TAG, digest[page, 0]), digest[page, 1]
            decisive[at], caps[at] = True, UNCAPPED
            at += 1
        if judged[page]:
            for place in range(minima_bounds[page], minima_bounds[page + 1]):
                keys[at] = tagged(MINIMA_TAG, minima[place])
                at += 1
            first, end = title_bounds[page], title_bounds[page + 1]
            if first < end:
                words = _title_words(titles, first, end) & KEY_MASK
                keys[at] = tagged(TITLE_TAG, mixed_with_host(words, host[page]))
                at += 1
            few = SOME_KEYS if size[page] < MIDDLE_FEATURES else FEW_KEYS
            wanted = MOST_KEYS if size[page] < SHORT_FEATURES else few
            first, end = block_bounds[page], block_bounds[page + 1]
            chosen = _heaviest(blocks, first, end, host[page], wanted, weights, keys, at)
            caps[at : at + chosen] = BLOCK_CAP
            at += chosen
        bounds[page + 1] = at
    return keys[:at], bounds, inline[:at], np.zeros(at, np.uint8), decisive[:at], caps[:at]


@part
def _heaviest(blocks, first, end, host, wanted, weights, keys, at):
    """Write the heaviest different identities of blocks[first:end] as keys, the heaviest first.

    Of equal weights, the first block in page order comes first: keys depend on the salt, and verdicts must not.

    blocks: uint64[b]  host: uint64  wanted: int64, number of keys  weights: float64[MOST_KEYS], overwritten
    ->  keys: uint64[...], written from `at` on; returns their number: int64
    """
    held = 0
    for place in range(first, end):
        block = blocks[place]
        weight = float(words_of(block)) * (1.0 if is_kept(block) else BOILERPLATE_WEIGHT)
        if identity_of(block) == REMAINDER or (held == wanted and weight <= weights[held - 1]):
            continue
        key = tagged(BLOCK_TAG, mixed_with_host(identity_of(block), host))
        # Blocks that differ in their numbers have one identity, which has the place of the heaviest.
        last = 0
        while last < held and keys[at + last] != key:
            last += 1
        if last < held and weight <= weights[last]:
            continue
        if last == held:
            held = min(held + 1, wanted)
            last = held - 1
        while last > 0 and weight > weights[last - 1]:
            weights[last], keys[at + last] = weights[last - 1], keys[at + last - 1]
            last -= 1
        weights[last], keys[at + last] = weight, key
    return held


@part
def _title_words(titles, first, end):
    """Hash of the words titles[first:end]: uint16[t] -> uint64 (FNV-1a over 16-bit words)."""
    mixed = np.uint64(0xCBF29CE484222325)
    for place in range(first, end):
        mixed = (mixed ^ np.uint64(titles[place])) * np.uint64(0x100000001B3)
    return mixed
