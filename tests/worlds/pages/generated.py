"""Generated pages for the properties of judging: two schemes, and pages that exercise their corner cases."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import xxhash
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.base.signature import Signatures, SignatureStatus, no_own_text
from spotsieve.stream.base.verdict import KeyKind, Kind, Reason, Verdicts
from spotsieve.stream.judge import PLAIN, Policy
from spotsieve.stream.judge.policy import ANY_BETTER, Preference
from spotsieve.stream.sign.fingerprints.permuted_tables import design_tables
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.simhash import ChainScheme
from tests.reference.confirming import MINIMA_CAP, ConfirmingScheme
from tests.reference.judge import Key, ObviousJudge, Outcome, Pair, Row, digest_key, original_id
from tests.worlds.pages.ranks import made_ranks

ADDRESSES = 5
"""Number of distinct URLs of the pages; a few pages have none."""
FINGERPRINTED = int(SignatureStatus.FINGERPRINTED)


class Look(NamedTuple):
    """The features of a page: fingerprint (its digest depends on it and on everything but the host), status, sketch,
    MinHash values, main text (0: none), host, length (the digest does not depend on it).
    """

    word: int
    status: int = FINGERPRINTED
    sketch: int = 0
    minima: tuple[int, ...] = ()
    text: int = 0
    host: int = 0
    length: int = 10


Submitted = tuple[Look, int]
"""A page and its id."""

NEAR = [0, 1, 3, 7, 15, 31, 1 << 20, (1 << 20) | 1, 1 << 40, (1 << 40) | 3, (1 << 60) | (1 << 40), 2**64 - 1]
"""Fingerprints that share buckets and differ in 1..6 bits: chains of near pages and full buckets are common."""
SKETCHES = [0, 1, 3, 7, 15, 0xFF, 0xFF00, 0xFFFF]
LENGTHS = st.sampled_from([0, 8, 9, 10, 10, 10, 11, 12, 14, 30])
STATUS = st.sampled_from(
    [SignatureStatus.FINGERPRINTED] * 6
    + [SignatureStatus.TOO_FEW_FEATURES, SignatureStatus.EMPTY, SignatureStatus.NOT_TEXT]
).map(int)


@dataclass(frozen=True)
class World:
    """A scheme, pages that exercise its corner cases, and the same scheme for the reference judge."""

    scheme: Scheme
    looks: st.SearchStrategy[Look]
    masks: tuple[int, ...]
    decisive_tables: bool

    def reference_kernel(self, cap: int, candidate_limit: int, policy: Policy = PLAIN) -> ObviousJudge:
        """The reference judge of this scheme."""
        return ObviousJudge(self.keys_of, confirm, cap, candidate_limit, policy)

    def keys_of(self, signatures: Signatures, index: int) -> list[Key]:
        """The keys of a page, one by one."""
        status = signatures.status[index]
        if status == SignatureStatus.EMPTY:
            return []
        word = int(signatures.fingerprint[index])
        tables = [
            Key((table, word & mask), word, 3, self.decisive_tables, KeyKind.TABLES)
            for table, mask in enumerate(self.masks)
        ]
        body = digest_key(signatures, index, "digest", KeyKind.BODY)
        if self.decisive_tables:
            return tables if status == SignatureStatus.FINGERPRINTED else [body]
        keys = [body]
        if signatures.text_digest[index].any():
            keys.append(digest_key(signatures, index, "text_digest", KeyKind.TEXT))
        if status == SignatureStatus.FINGERPRINTED:
            first, last = signatures.features_bounds[index : index + 2]
            minima = [int(hash_) % 2**56 for hash_ in signatures.features[first:last]]
            keys += tables + [Key(("minima", hash_), 0, 0, False, KeyKind.MINIMA, MINIMA_CAP) for hash_ in minima]
            if signatures.host[index]:
                keys.append(Key(("host", int(signatures.host[index])), 0, 0, False, KeyKind.TITLE, 1))
        return keys


def any_look(dice: random.Random, confirmed: bool) -> Look:
    """A page of a fixture; confirmed: of the one whose scheme confirms candidates"""
    status, length = dice.choice([0] * 6 + [1, 2, 3]), dice.choice([0, 8, 9, 10, 10, 11, 12, 14, 30])
    if not confirmed:
        return Look(dice.choice(NEAR), status, length=length)
    word, sketch, minima = dice.choice([0, 1, 1 << 20]), dice.choice(SKETCHES), sorted(dice.sample(range(6), 2))
    return Look(word, status, sketch, tuple(minima), dice.choice([0, 0, 1, 2]), dice.randrange(3), length)


def looks_of(*columns: st.SearchStrategy[Any]) -> st.SearchStrategy[Look]:
    """A strategy for each of the first columns of a look."""
    return st.tuples(*columns).map(lambda drawn: Look(*drawn))


def confirm(page: Row, other: Row) -> Pair:
    """Like ConfirmingScheme(.., 4)."""
    distance = sum((one ^ two).bit_count() for one, two in zip(page.sketch, other.sketch, strict=True))
    return Pair(distance <= 4, 1 - distance / 64)


CHAIN = ChainScheme(ChainSettings(max_distance_bits=3, tables=4))
DESIGN = design_tables(3, 4)
DECIDED = st.tuples(st.sampled_from(NEAR), STATUS, LENGTHS).map(lambda drawn: Look(*drawn[:2], length=drawn[2]))
CONFIRMED = looks_of(
    st.sampled_from([0, 1, 1 << 20, 2**64 - 1]),
    STATUS,
    st.sampled_from(SKETCHES),
    st.sets(st.integers(0, 5), max_size=3).map(lambda hashes: tuple(sorted(hashes))),
    st.sampled_from([0, 0, 1, 2]),
    st.integers(0, 2),
    LENGTHS,
)
WORLDS = {
    "chain": World(CHAIN, DECIDED, CHAIN.design.masks, True),
    "confirming": World(ConfirmingScheme(DESIGN, 4), CONFIRMED, DESIGN.masks, False),
}
PROFILE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
caps = st.integers(1, 4)
limits = st.integers(1, 4)
NEWEST, HIGHEST, LOWEST = (
    Policy(ANY_BETTER, preference=preference) for preference in (Preference.TIME, Preference.RANK, Preference.LOW_RANK)
)
SAME_BYTES = Policy(same_url=int(KeyKind.BODY))
POLICIES = [PLAIN, Policy(1.0), Policy(1.1), Policy(2.5), Policy(same_url=0), Policy(1.1, 0), SAME_BYTES]
POLICIES += [NEWEST, HIGHEST, LOWEST, Policy(ANY_BETTER, int(KeyKind.BODY), preference=Preference.RANK)]
policies = st.sampled_from(POLICIES)


def some(world: World, data: st.DataObject, most: int = 40) -> list[Submitted]:
    """Pages of that fixture, each with a unique id."""
    looks = data.draw(st.lists(world.looks, min_size=1, max_size=most))
    # Sometimes many similar ones: more than a chunk of the sequential resolution.
    looks += data.draw(st.sampled_from([[], [], [], looks[:1] * 70, looks[:4] * 20]))
    return pages_of(looks)


def pages_of(looks: Sequence[Look]) -> list[Submitted]:
    """Give every page a unique id."""
    return [(look, page_id) for page_id, look in enumerate(looks)]


def signatures_of(pages: Sequence[Submitted]) -> Signatures:
    """Pages of two sources; the id is spread over source, partition and offset."""
    looks, ids = [look for look, _ in pages], [page_id for _, page_id in pages]
    count = len(pages)
    return Signatures(
        ("one", "two"),
        np.array([i % 2 for i in ids], np.uint16),
        np.array([i % 3 for i in ids], np.int32),
        np.array(ids, np.int64),
        np.array(ids, np.int64) * 1000,
        np.array([words_of(look[:5]) for look in looks], np.uint64).reshape(-1, 2),
        np.array([look.word for look in looks], np.uint64),
        np.array([look.status for look in looks], np.uint8),
        np.array([look.length for look in looks], np.uint32),
        tuple(b"http://x/%d" % (i % ADDRESSES) if i % 7 else b"" for i in ids),
        (b"",) * count,
        np.array([words_of(look.text) if look.text else (0, 0) for look in looks], np.uint64).reshape(-1, 2),
        np.array([look.host for look in looks], np.uint64),
        np.zeros(count, np.uint8),
        np.array([hash_ for look in looks for hash_ in look.minima], np.uint64),
        np.cumsum([0, *(len(look.minima) for look in looks)]),
        np.array([look.sketch for look in looks], np.uint64).reshape(-1, 1),
        **no_own_text(count),
        rank=made_ranks(ids),
    )


def words_of(content: object) -> tuple[int, int]:
    """A digest of content: low word, high word."""
    digest = xxhash.xxh3_128_intdigest(repr(content).encode())
    return digest % 2**64, digest >> 64


def outcomes_of(verdicts: Verdicts) -> list[Outcome]:
    """Verdicts in the form of the reference judge."""
    outcomes: list[Outcome] = []
    for index in range(len(verdicts)):
        score = float(verdicts.score[index])
        outcomes.append(
            (
                Kind(verdicts.kind[index]).name.lower(),
                original_id(verdicts.originals[index] or verdicts.replaces[index]),
                None if np.isnan(score) else score,
                Reason(verdicts.reason[index]).label,
                int(verdicts.found_by[index]),
                bool(verdicts.cut[index]),
            )
        )
    return outcomes


def without_reason(outcomes: Sequence[Outcome]) -> list[tuple[str, str, float | None, int]]:
    """The verdict proper: a page's second pending verdict differs only in its reason."""
    return [(verdict, original, score, found_by) for verdict, original, score, _, found_by, _ in outcomes]
