"""The scheme `subhash`: token simhash and sub-hash tables (Williams, Giles, DocEng 2013, sec. 3.1).

    all tokens, each of equal weight -> simhash 64 -> k + 1 sub-hashes, a table each -> Hamming distance <= k

Two fingerprints that differ in at most k bits agree on at least one of their k + 1 sub-hashes, so every copy is met.
Defaults are the best of figure 1 (k = 3: precision .94, recall .88) and the 15 tokens of section 4.

What the paper leaves open: its "standard information retrieval processing" of the text is here the splitting into
tokens in lower case, without stemming and with stop-words. Its two passes, file all and then query all, are one: a page
queries what was filed before it. A sub-hash has 64 / (k + 1) bits, so with k = 10 there are 64 buckets in a table:
what a bucket takes no more (index.bucket_cap) is not found through it, and raising the cap is paid by longer scans.
"""

from collections.abc import Sequence

import numpy as np

from spotsieve.stream.features.page_shingles import shingle_pages
from spotsieve.stream.fingerprints.tables import sub_hash_tables
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes.simhash.fingerprinted import FingerprintSearch, fold_signatures
from spotsieve.stream.settings.schemes import SubhashSettings
from spotsieve.stream.signature import Signatures
from spotsieve.stream.text.tokens import extract_tokens


class SubhashScheme(FingerprintSearch):
    """Tokens -> simhash -> k + 1 sub-hash tables -> Hamming distance <= k."""

    name = "subhash"

    def __init__(self, settings: SubhashSettings) -> None:
        super().__init__(sub_hash_tables(settings.k))
        self.min_tokens = settings.min_tokens

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; fold the tokens of pages that have at least min_tokens."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_))
        return fold_signatures(pages, *shingle_pages(tokens, 1, 1), tokens.counts, self.min_tokens)
