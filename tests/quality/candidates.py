"""Owns which keys found the originals: permuted tables, bottom-k spots, or an exact digest.

The judge does not tell. Here the probes of a page and of its original are compared: a key found it where both have the
key and its inline bits differ within the key's limit.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from state.logrecord import decode
from stream.fingerprints.tables import DIGEST_TAG, KEY_BITS, MAX_TABLES, MINIMA_TAG, TEXT_TAG
from stream.schemes import Scheme
from stream.scoring import Label, Truth

KINDS = {DIGEST_TAG: "body digest", TEXT_TAG: "text digest", MINIMA_TAG: "spots"}
TABLES = "tables"
Keys = dict[int, tuple[int, int]]
"""Key to its inline bits and limit."""


def ways_of_finding(
    scheme: Scheme, records: Sequence[bytes], truth: Truth, originals: Sequence[int | None]
) -> Counter[frozenset[str]]:
    """Duplicates that were found, by the kinds of keys that lead from them to their originals.

    records: the log of the set's pages, in the truth's order
    """
    keys = [of_page for record in records for of_page in keys_of(scheme, record)]
    ways: Counter[frozenset[str]] = Counter()
    for place, original in enumerate(originals):
        if original is not None and truth.labels[place][0] is Label.DUPLICATE:
            ways[common_kinds(keys[place], keys[original])] += 1
    return ways


def keys_of(scheme: Scheme, record: bytes) -> list[Keys]:
    """The keys of each page of a log record."""
    probes = scheme.probe(decode(record).signatures)
    columns = zip(probes.keys.tolist(), probes.inline.tolist(), probes.limit.tolist(), strict=True)
    every = [(key, (inline, limit)) for key, inline, limit in columns]
    bounds = probes.bounds.tolist()
    return [dict(every[first:last]) for first, last in pairwise(bounds)]


def common_kinds(page: Keys, original: Keys) -> frozenset[str]:
    """Kinds of the keys of a page under which its original is found."""
    found = set()
    for key, (inline, limit) in page.items():
        if key in original and (inline ^ original[key][0]).bit_count() <= limit:
            found.add(kind_of(key))
    return frozenset(found)


def kind_of(key: int) -> str:
    """What a key was made of, by its tag."""
    tag = int(np.uint64(key) >> np.uint64(KEY_BITS))
    return TABLES if tag < MAX_TABLES else KINDS.get(tag, f"tag {tag}")


def summary(ways: Counter[frozenset[str]]) -> dict[str, int]:
    """Found by an exact digest; of the others by tables only, by spots only, by both; by other ways together."""
    digests = {KINDS[DIGEST_TAG], KINDS[TEXT_TAG]}
    rows = {"exact digest": 0, "tables only": 0, "spots only": 0, "both": 0, "other": 0}
    named = {frozenset({TABLES}): "tables only", frozenset({"spots"}): "spots only"}
    named[frozenset({TABLES, "spots"})] = "both"
    for kinds, count in ways.items():
        rows["exact digest" if kinds & digests else named.get(kinds, "other")] += count
    return rows
