"""Tells all that one page meets in a state: under which keys, what each pair has and needs, and what became of it.

The verdict is the judge's own (stream/judge/__init__.py), and so is what a pair has and needs: the kernels of
stream/judge/by_host/pairs.py note it, or the scheme tells it by the function that its confirm() is made of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Buckets, IndexedPages, StateView
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.page import PageId, ranks_of
from spotsieve.stream.base.signature import Entry, Signatures, candidate_columns
from spotsieve.stream.base.urls import url_without_fragment
from spotsieve.stream.base.verdict import KeyKind, Reason, Verdicts
from spotsieve.stream.insight.explain.explanation import (
    CandidatePage,
    Fate,
    HostFacts,
    JudgeTrace,
    LookupCounts,
    PairCriterion,
    PairThreshold,
)
from spotsieve.stream.judge import judge_alone
from spotsieve.stream.judge.by_host import thresholds
from spotsieve.stream.judge.by_host.confirmation import PageConfirmations, confirm_page
from spotsieve.stream.judge.by_host.distinctive_text import host_figures
from spotsieve.stream.judge.candidates import NEVER, CandidatePairs, find_candidates
from spotsieve.stream.judge.policy import ANY_KIND, KEEP_FIRST, PLAIN, Policy, Preference
from spotsieve.stream.judge.rules import final_kinds, limits_of, reasons_of
from spotsieve.stream.judge.slots import Slots, slots_of
from spotsieve.stream.sign.features.block_fingerprints import identity_of
from spotsieve.stream.sign.schemes import Scheme

_NOTHING_ENDS = np.uint8(0)
MOST_FAR = 64
"""Postings that share a bucket and whose inline bits are too far, the nearest ones, that are told of."""


def trace_page(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    candidate_limit: int,
    policy: Policy = PLAIN,
    also: Sequence[int] = (),
    fingerprints: Mapping[int, int] | None = None,
) -> JudgeTrace:
    """Tell of one page, the only one of `signatures`. Limits as of spotsieve.stream.judge.judge.

    also: numbers of filed pages that it is compared with, whether it meets them or not
    fingerprints: of filed pages, as far as known: entries do not hold them, and postings are found by keys alone
    """
    verdicts = judge_alone(signatures, scheme, view, candidate_limit, policy)
    also = [*also, *_original_of_attempt(signatures, view)]
    limit = candidate_limit or scheme.candidate_limit
    keys, slots = slots_of(scheme.probe(signatures))
    buckets = view.buckets(keys)
    judged = find_candidates(slots, buckets, limit, final_kinds(limits_of(policy, 0, limit)))
    met = find_candidates(slots, buckets, NEVER, _NOTHING_ENDS)
    far = _too_far(slots, buckets, set(met.number.tolist()))
    if (slots.decisive & (slots.limit > 0)).any():
        own = int(signatures.fingerprint[0])
        unmet = (fingerprints or {}).keys() - set(met.number.tolist())
        far |= {number: (own ^ (fingerprints or {})[number]).bit_count() for number in unmet}
    every = _with_others(met, sorted({*far, *also} - set(met.number.tolist())))
    most_bits = int(slots.limit.max(initial=0))
    found, host = _compared(signatures, scheme, view, every, far, most_bits, policy)
    found = _with_worth(found, signatures, view, policy)
    keys_of = _keys_shared(slots, buckets)
    return JudgeTrace(
        verdicts,
        tuple(_with_fates(found, verdicts, set(judged.number.tolist()), signatures, keys_of, policy)),
        _looked(slots, buckets),
        limit,
        host,
    )


def _compared(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    met: CandidatePairs,
    far: dict[int, int],
    most_bits: int,
    policy: Policy,
) -> tuple[list[CandidatePage], HostFacts | None]:
    """Every pair by the bars of the scheme; its fate and its keys are still open.

    far: the bits that differ, of those whose inline bits are too far  most_bits: that may differ
    """
    if scheme.bars is not None:
        told = confirm_page(signatures, met, view, scheme.bars, policy.rules)
        indexed, place = told.read.indexed, told.place
        compared = [_by_host(signatures, told, pair) for pair in range(len(met.number))]
        host = _host_memory(signatures, told)
    else:
        host = None
        numbers, place = np.unique(met.number, return_inverse=True)
        indexed = view.indexed(numbers.astype(np.uint64)) if len(numbers) else None
        compared = _by_scheme(signatures, scheme, indexed, place)
    if indexed is None:
        return [], host
    reasons = reasons_of(met.proof, np.array([reason for _, _, reason, _ in compared], np.uint8))
    scores = scheme.score(met.distance)
    found = []
    for pair, (entry, (pair_ways, score, reason, figures)) in enumerate(
        zip(indexed.entries(place), compared, strict=True)
    ):
        number, proof = int(met.number[pair]), KeyKind(int(met.proof[pair]))
        if number in far:
            told_ways: tuple[PairCriterion, ...] = (_near_bits(far[number], most_bits),)
        elif proof & KeyKind.TABLES:
            told_ways = (_near_bits(int(met.distance[pair]), most_bits),)
        elif not pair_ways and not proof:
            told_ways = (_no_key(),)
        else:
            told_ways = pair_ways
        by_bars = any(way.reached for way in told_ways)
        found.append(
            CandidatePage(
                number,
                entry,
                Fate.REFUSED,
                {},
                proof,
                told_ways,
                bool(proof) or by_bars,
                float(scores[pair]) if proof else score,
                Reason(int(reasons[pair])) if proof else reason,
                figures,
            )
        )
    return found, host


_Compared = tuple[tuple[PairCriterion, ...], float, Reason, dict[str, float]]


def _by_host(signatures: Signatures, told: PageConfirmations, pair: int) -> _Compared:
    """A pair as the kernel of a scheme with a memory of hosts has noted it."""
    bars, figures = told.noted.bars[pair], told.noted.figures[pair]
    one_host = bool(signatures.host[0] == told.read.texts.host[told.place[pair]])
    pair_ways = tuple(
        PairCriterion(
            way.name,
            way.reason,
            tuple(
                PairThreshold(about.name, float(bars[bar, 0]), float(bars[bar, 1]), about.unit, about.at_most)
                for bar, about in _thresholds_of(way)
            ),
        )
        for way in (thresholds.ON_HOST if one_host else thresholds.ACROSS)
    )
    named = {"Jaccard of the kept texts, by their sketches": figures[thresholds.PAIR_JACCARD]}
    named["one host"] = float(one_host)
    if figures[thresholds.PAIR_TITLE] != thresholds.NONE:
        named["rare title words that both have"] = figures[thresholds.PAIR_TITLE]
    if one_host:
        named["words of own text"] = figures[thresholds.PAIR_OWN]
        named["words of the other's own text"] = figures[thresholds.PAIR_OTHERS]
        named["words of own text that both have"] = figures[thresholds.PAIR_SHARED]
        named["own text that both share, by prints"] = figures[thresholds.PAIR_BY_PRINTS]
        if figures[thresholds.PAIR_BY_SKETCHES] != thresholds.NONE:
            named["own text that both share, by sketches"] = figures[thresholds.PAIR_BY_SKETCHES]
    reason = Reason(int(told.reason[pair])) if told.accepted[pair] else Reason.NO_MATCH
    return pair_ways, float(told.score[pair]), reason, {name: float(value) for name, value in named.items()}


def _thresholds_of(way: thresholds.HostCriterion) -> list[tuple[int, thresholds.ThresholdInfo]]:
    return [(bar, thresholds.ABOUT[bar]) for bar in way.bars]


def _by_scheme(
    signatures: Signatures, scheme: Scheme, indexed: IndexedPages | None, place: NDArray[np.int64]
) -> list[_Compared]:
    """Every pair as the scheme that confirms by itself tells it."""
    if indexed is None:
        return []
    others = indexed.compared(scheme.compares_features).take(place)
    pages = candidate_columns(signatures, scheme.compares_features).take(np.zeros(len(place), np.int64))
    confirmed, told = scheme.confirm(pages, others), scheme.ways(pages, others)
    rows = []
    for row in range(len(place)):
        pair_ways = tuple(
            PairCriterion(
                way.name,
                Reason.NEAR,
                tuple(
                    PairThreshold(
                        bar.name,
                        float(bar.had[row]),
                        float(np.broadcast_to(bar.needed, bar.had.shape)[row]),
                        bar.unit,
                        bar.at_most,
                        bar.beyond,
                    )
                    for bar in way.bars
                ),
            )
            for way in told
        )
        reason = Reason.NEAR if confirmed.accepted[row] else Reason.NO_MATCH
        rows.append((pair_ways, float(confirmed.score[row]), reason, dict[str, float]()))
    return rows


def _near_bits(apart: int, most: int) -> PairCriterion:
    """The test of a posting's inline bits."""
    bar = PairThreshold("bits of the fingerprint that differ", float(apart), float(most), "bits", at_most=True)
    return PairCriterion("the fingerprints are near", Reason.NEAR, (bar,))


def _no_key() -> PairCriterion:
    """The test of a pair that a scheme accepts by its keys alone, and that has none in common."""
    return PairCriterion("a key that decides is the same", Reason.NEAR, (PairThreshold("such keys", 0.0, 1.0, "keys"),))


def _too_far(slots: Slots, buckets: Buckets, met: set[int]) -> dict[int, int]:
    """Of pages in the buckets of a fingerprint whose bits are too far: number -> how many bits differ."""
    found = dict[int, int]()
    for slot in np.flatnonzero(slots.limit).tolist():
        start, end = buckets.bounds[slots.bucket[slot] : slots.bucket[slot] + 2]
        apart = np.bitwise_count(buckets.inlines[start:end] ^ slots.inline[slot]).tolist()
        for number, bits in zip(buckets.numbers[start:end].tolist(), apart, strict=True):
            if number not in met:
                found[number] = min(bits, found.get(number, bits))
    nearest = sorted(found, key=lambda number: (found[number], number))[:MOST_FAR]
    return {number: found[number] for number in nearest}


def _with_others(met: CandidatePairs, numbers: Sequence[int]) -> CandidatePairs:
    """The pairs of one page and these, which no key found, in the order of filing."""
    some = len(numbers)
    number = np.concatenate([met.number, np.array(numbers, np.int64)])
    order = np.argsort(number, kind="stable")
    none = np.zeros(some, np.uint8)
    return CandidatePairs(
        np.array([0, len(number)], np.int64),
        number[order],
        np.concatenate([met.proof, none])[order],
        np.concatenate([met.kinds, none])[order],
        np.concatenate([met.distance, none])[order],
        met.cut_at,
    )


def _with_fates(
    found: Sequence[CandidatePage],
    verdicts: Verdicts,
    judged: set[int],
    signatures: Signatures,
    keys_of: dict[int, dict[KeyKind, int]],
    policy: Policy,
) -> list[CandidatePage]:
    """Say of every pair what became of it, and which keys it was met under. judged: what the judge met

    signatures: of the page
    """
    original = verdicts.originals[0]
    address, by_address = url_without_fragment(signatures.addresses()[0]), policy.same_url != ANY_KIND
    named = _page_id(signatures) if original is None else _id_of(original)
    first = min((page.number for page in found if _id_of(page.entry) == named), default=NEVER)
    told = []
    for page in found:
        shared = keys_of.get(page.number, {})
        if page.number == first:
            fate = Fate.ITSELF if original is None else Fate.ORIGINAL
        elif original is None and page.number > first:
            fate = Fate.LATER
        elif not shared:
            fate = Fate.NOT_MET
        elif not page.accepted:
            fate = Fate.REFUSED
        elif page.number > first:
            fate = Fate.COPY_TOO
        elif page.number not in judged:
            fate = Fate.BEYOND
        elif by_address and address and url_without_fragment(page.entry.url) == address:
            fate = Fate.FETCHED_AGAIN
        else:
            longest = Fate.SUPERSEDED if policy.preference == Preference.LENGTH else Fate.BETTERED
            fate = longest if policy.longer_by != KEEP_FIRST else Fate.BY_NOW
        told.append(replace(page, fate=fate, keys=shared))
    return told


def _with_worth(
    found: list[CandidatePage], signatures: Signatures, view: StateView, policy: Policy
) -> list[CandidatePage]:
    """Say beside every pair by what one of the two would be kept, where that is neither order nor length."""
    if policy.preference == Preference.LENGTH or not found:
        return found
    numbers = np.array(sorted({page.number for page in found}), np.uint64)
    indexed = view.indexed(numbers)
    if policy.preference == Preference.TIME:
        name, own, others = "fetch time, seconds", signatures.event_time_ms / 1000, indexed.event_times_ms() / 1000
    else:
        name, own, others = "rank", ranks_of(signatures.rank), ranks_of(indexed.ranks())
    known = dict(zip(numbers.tolist(), others.tolist(), strict=True))
    told = []
    for page in found:
        figures = {f"this page's {name}": float(own[0]), f"the other's {name}": known[page.number]}
        figures = {figure: value for figure, value in figures.items() if not np.isnan(value)}
        told.append(replace(page, figures=page.figures | figures))
    return told


def _page_id(signatures: Signatures) -> PageId:
    return signatures.sources[signatures.source[0]], int(signatures.partition[0]), int(signatures.offset[0])


def _id_of(entry: Entry) -> PageId:
    return entry.source, entry.partition, entry.offset


def _original_of_attempt(signatures: Signatures, view: StateView) -> list[int]:
    """The entry that a page was judged a copy of before, if that is remembered and it is still there."""
    (attempt,) = view.pending_verdicts([_page_id(signatures)])
    if attempt is None or attempt.original == NOBODY:
        return []
    gone = view.page_ids(np.array([attempt.original], np.uint64))[0] is None
    return [] if gone else [attempt.original]


def _keys_shared(slots: Slots, buckets: Buckets) -> dict[int, dict[KeyKind, int]]:
    """Of each page in the buckets: by kind, under how many keys it lies there."""
    found = dict[int, dict[KeyKind, int]]()
    for slot, kind in enumerate(slots.kind.tolist()):
        start, end = buckets.bounds[slots.bucket[slot] : slots.bucket[slot] + 2]
        for number in buckets.numbers[start:end].tolist():
            kinds = found.setdefault(number, {})
            kinds[KeyKind(kind)] = kinds.get(KeyKind(kind), 0) + 1
    return found


def _looked(slots: Slots, buckets: Buckets) -> dict[KeyKind, LookupCounts]:
    sizes = sizes_of(buckets.bounds)[slots.bucket]
    found = {}
    for kind in np.unique(slots.kind).tolist():
        of_kind = sizes[slots.kind == kind]
        found[KeyKind(kind)] = LookupCounts(len(of_kind), int(np.count_nonzero(of_kind)), int(of_kind.sum()))
    return found


def _host_memory(signatures: Signatures, told: PageConfirmations) -> HostFacts:
    identities = identity_of(signatures.prints).tolist()
    template = told.asked.template[: len(identities)].tolist()
    return HostFacts(*host_figures(told.asked), dict(zip(identities, template, strict=True)))
