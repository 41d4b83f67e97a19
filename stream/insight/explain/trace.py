"""Traces the verdict on one page: its candidates, the keys in common, every threshold, and each candidate's fate.

Nothing is judged twice: the verdict comes from the judge (stream/judge/__init__.py). The values and thresholds of a
pair come from the kernels of stream/judge/by_host/pairs.py, or from the scheme's ways(), on which its confirm() is
built. Of several parts of a page, the one with the smallest margin decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Buckets, IndexedPages, StateView
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.page import PageId, ranks_of
from spotsieve.stream.base.signature import Entry, Signatures, candidate_columns, page_ids_of
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
    TextPart,
)
from spotsieve.stream.insight.explain.texts import PageBlocks
from spotsieve.stream.judge import judge_alone
from spotsieve.stream.judge.by_host import criteria
from spotsieve.stream.judge.by_host.confirmation import PageConfirmations, confirm_page, look_up_page
from spotsieve.stream.judge.by_host.containment import PARTS
from spotsieve.stream.judge.by_host.criteria import thresholds_of_pages
from spotsieve.stream.judge.by_host.distinctive_text import host_figures
from spotsieve.stream.judge.candidates import NEVER, CandidatePairs, find_candidates
from spotsieve.stream.judge.policy import ANY_KIND, KEEP_FIRST, PLAIN, Policy, Preference
from spotsieve.stream.judge.rules import final_kinds, limits_of, reasons_of
from spotsieve.stream.judge.slots import Slots, slots_of
from spotsieve.stream.sign.schemes import HostThresholds, Scheme

_NOTHING_ENDS = np.uint8(0)
MAX_FAR = 64
"""How many postings with a common bucket but too distant fingerprint bits are listed, the nearest first."""


def trace_page(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    candidate_limit: int,
    policy: Policy = PLAIN,
    also: Sequence[int] = (),
    fingerprints: Mapping[int, int] | None = None,
) -> JudgeTrace:
    """Judge one page, the only one of `signatures`, and record how the verdict came about.

    candidate_limit: most candidates without a decisive key; 0 for the scheme's own limit
    also: entry numbers of indexed pages to compare the page with, even without a common key
    fingerprints: fingerprints of indexed pages by entry number, if known (entries do not hold them)
    """
    verdicts = judge_alone(signatures, scheme, view, candidate_limit, policy)
    also = [*also, *_original_of_pending(signatures, view)]
    limit = candidate_limit or scheme.candidate_limit
    keys, slots = slots_of(scheme.probe(signatures), signatures.status)
    buckets = view.buckets(keys)
    judged = find_candidates(slots, buckets, limit, final_kinds(limits_of(policy, 0, limit)))
    pairs = find_candidates(slots, buckets, NEVER, _NOTHING_ENDS)
    found = set(pairs.number.tolist())
    far = _too_far(slots, buckets, found)
    if (slots.decisive & (slots.limit > 0)).any():
        own = int(signatures.fingerprint[0])
        others = (fingerprints or {}).keys() - found
        far |= {number: (own ^ (fingerprints or {})[number]).bit_count() for number in others}
    pairs = _with_others(pairs, sorted({*far, *also} - found))
    max_bits = int(slots.limit.max(initial=0))
    candidates, host = _compare(signatures, scheme, view, pairs, far, max_bits, policy)
    candidates = _with_preference(candidates, signatures, view, policy)
    keys_of = _common_keys(slots, buckets)
    return JudgeTrace(
        verdicts,
        tuple(_with_fates(candidates, verdicts, set(judged.number.tolist()), signatures, keys_of, policy)),
        _lookups(slots, buckets),
        limit,
        host,
    )


def _compare(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    pairs: CandidatePairs,
    far: dict[int, int],
    max_bits: int,
    policy: Policy,
) -> tuple[list[CandidatePage], HostFacts | None]:
    """The candidates with the scheme's criteria, and the host facts. Fates and keys are filled in later.

    far: differing bits of the candidates whose fingerprint bits are too distant, by entry number
    max_bits: the most bits that may differ
    """
    if scheme.host_thresholds is not None:
        confirmed = confirm_page(signatures, pairs, view, scheme.host_thresholds, policy.rules)
        indexed, place = confirmed.read.indexed, confirmed.place
        chosen, table = thresholds_of_pages(signatures, scheme.host_thresholds, policy.rules)
        host_thresholds = HostThresholds(*table[chosen[0]])
        compared = [_compare_by_host(signatures, confirmed, pair, host_thresholds) for pair in range(len(pairs.number))]
        host = _host_facts(signatures, confirmed)
    else:
        host = None
        numbers, place = np.unique(pairs.number, return_inverse=True)
        indexed = view.indexed(numbers.astype(np.uint64)) if len(numbers) else None
        compared = _compare_by_scheme(signatures, scheme, indexed, place)
    if indexed is None:
        return [], host
    reasons = reasons_of(pairs.proof, np.array([row.reason for row in compared], np.uint8))
    scores = scheme.score(pairs.distance)
    candidates = []
    for pair, (entry, row) in enumerate(zip(indexed.entries(place), compared, strict=True)):
        number, proof = int(pairs.number[pair]), KeyKind(int(pairs.proof[pair]))
        if number in far:
            criteria: tuple[PairCriterion, ...] = (_near_fingerprints(far[number], max_bits),)
        elif proof & KeyKind.TABLES:
            criteria = (_near_fingerprints(int(pairs.distance[pair]), max_bits),)
        elif not row.criteria and not proof:
            criteria = (_no_decisive_key(),)
        else:
            criteria = row.criteria
        accepted = bool(proof) or any(criterion.reached for criterion in criteria)
        candidates.append(
            CandidatePage(
                number,
                entry,
                Fate.REFUSED,
                {},
                proof,
                criteria,
                accepted,
                float(scores[pair]) if proof else row.score,
                Reason(int(reasons[pair])) if proof else row.reason,
                row.figures,
                row.part,
            )
        )
    return candidates, host


class _Comparison(NamedTuple):
    """One pair: its criteria, its score and reason, and other values. part: the part of the page that decides"""

    criteria: tuple[PairCriterion, ...]
    score: float
    reason: Reason
    figures: dict[str, float]
    part: TextPart | None = None


def _compare_by_host(
    signatures: Signatures, confirmed: PageConfirmations, pair: int, host_thresholds: HostThresholds
) -> _Comparison:
    """One pair with the values that the kernel of a scheme with host memories recorded. host_thresholds: of the page"""
    values, title = confirmed.noted.values[pair], float(confirmed.noted.other_values[pair][criteria.PAIR_TITLE])
    one_host = bool(signatures.host[0] == confirmed.read.texts.host[confirmed.place[pair]])
    unused = {criteria.LENGTH} if host_thresholds.drop_parts else set()
    tested = [row for row in criteria.ABOUT if values[row].max() != criteria.NONE and row not in unused]
    reached = tuple(_threshold(row, values[row]) for row in tested)
    nothing = PairThreshold("any block or sampled shingle in common", 0.0, 1.0, "yes")
    criterion = PairCriterion("the text is contained", Reason.CONTAINED, reached or (nothing,))
    figures = {"one host": float(one_host)}
    if title != criteria.NONE:
        figures[criteria.ABOUT[criteria.TITLE].name] = title
    accepted = bool(confirmed.accepted[pair])
    return _Comparison(
        (criterion,),
        float(confirmed.score[pair]),
        Reason(int(confirmed.reason[pair])) if accepted else Reason.NO_MATCH,
        figures,
        _deciding_part(values),
    )


def _rows_of_part(part: int) -> tuple[int, int]:
    """The rows of a part's criteria: containment and fresh words."""
    row = criteria.PART_FIRST + 2 * part
    return row, row + 1


def _deciding_part(values: NDArray[np.float64]) -> TextPart | None:
    """The measured part with the smallest margin; None if none was measured."""
    parts = [
        TextPart(part, criteria.PART_NAMES[part], *(_threshold(row, values[row]) for row in _rows_of_part(part)))
        for part in range(PARTS)
        if values[_rows_of_part(part)[0]].max() != criteria.NONE
    ]
    return min(parts, key=lambda part: part.margin, default=None)


def _threshold(row: int, noted: NDArray[np.float64]) -> PairThreshold:
    """One threshold of the default scheme. noted: float64[2], the value and the needed value"""
    info = criteria.ABOUT[row]
    return PairThreshold(info.name, float(noted[0]), float(noted[1]), info.unit, info.at_most)


def _compare_by_scheme(
    signatures: Signatures, scheme: Scheme, indexed: IndexedPages | None, place: NDArray[np.int64]
) -> list[_Comparison]:
    """Every pair with the values of a scheme that confirms pairs itself."""
    if indexed is None:
        return []
    others = indexed.compared(scheme.compares_features).take(place)
    pages = candidate_columns(signatures, scheme.compares_features).take(np.zeros(len(place), np.int64))
    confirmed, tests = scheme.confirm(pages, others), scheme.ways(pages, others)
    comparisons = []
    for row in range(len(place)):
        criteria = tuple(
            PairCriterion(
                criterion.name,
                Reason.NEAR,
                tuple(
                    PairThreshold(
                        test.name,
                        float(test.had[row]),
                        float(np.broadcast_to(test.needed, test.had.shape)[row]),
                        test.unit,
                        test.at_most,
                        test.beyond,
                    )
                    for test in criterion.tests
                ),
            )
            for criterion in tests
        )
        reason = Reason.NEAR if confirmed.accepted[row] else Reason.NO_MATCH
        comparisons.append(_Comparison(criteria, float(confirmed.score[row]), reason, {}))
    return comparisons


def _near_fingerprints(distance: int, max_bits: int) -> PairCriterion:
    """The test of a posting's fingerprint bits."""
    threshold = PairThreshold(
        "bits of the fingerprint that differ", float(distance), float(max_bits), "bits", at_most=True
    )
    return PairCriterion("the fingerprints are near", Reason.NEAR, (threshold,))


def _no_decisive_key() -> PairCriterion:
    """The unmet criterion of a pair without a decisive key, for schemes in which keys alone decide."""
    threshold = PairThreshold("decisive keys in common", 0.0, 1.0, "keys")
    return PairCriterion("a decisive key is the same", Reason.NEAR, (threshold,))


def _too_far(slots: Slots, buckets: Buckets, found: set[int]) -> dict[int, int]:
    """The MAX_FAR nearest pages that share a fingerprint bucket but are too distant: entry number -> differing bits.

    found: entry numbers of the candidates
    """
    far = dict[int, int]()
    for slot in np.flatnonzero(slots.limit).tolist():
        start, end = buckets.bounds[slots.bucket[slot] : slots.bucket[slot] + 2]
        distances = np.bitwise_count(buckets.inlines[start:end] ^ slots.inline[slot]).tolist()
        for number, bits in zip(buckets.numbers[start:end].tolist(), distances, strict=True):
            if number not in found:
                far[number] = min(bits, far.get(number, bits))
    nearest = sorted(far, key=lambda number: (far[number], number))[:MAX_FAR]
    return {number: far[number] for number in nearest}


def _with_others(pairs: CandidatePairs, numbers: Sequence[int]) -> CandidatePairs:
    """The pairs, and one for each of these entries without a common key; in the order of indexing."""
    number = np.concatenate([pairs.number, np.array(numbers, np.int64)])
    order = np.argsort(number, kind="stable")
    none = np.zeros(len(numbers), np.uint8)
    return CandidatePairs(
        np.array([0, len(number)], np.int64),
        number[order],
        np.concatenate([pairs.proof, none])[order],
        np.concatenate([pairs.kinds, none])[order],
        np.concatenate([pairs.distance, none])[order],
        pairs.cut_at,
    )


def _with_fates(
    candidates: Sequence[CandidatePage],
    verdicts: Verdicts,
    judged: set[int],
    signatures: Signatures,
    keys_of: dict[int, dict[KeyKind, int]],
    policy: Policy,
) -> list[CandidatePage]:
    """The candidates with their fates and common keys. judged: entry numbers of the judge's candidates"""
    original = verdicts.originals[0]
    url, by_url = url_without_fragment(signatures.url_texts()[0]), policy.same_url != ANY_KIND
    page_id = page_ids_of(signatures)[0] if original is None else _id_of(original)
    first = min((page.number for page in candidates if _id_of(page.entry) == page_id), default=NEVER)
    decided = []
    for page in candidates:
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
        elif by_url and url and url_without_fragment(page.entry.url) == url:
            fate = Fate.FETCHED_AGAIN
        else:
            longest = Fate.SUPERSEDED if policy.preference == Preference.LENGTH else Fate.BETTERED
            fate = longest if policy.longer_by != KEEP_FIRST else Fate.BY_NOW
        decided.append(replace(page, fate=fate, keys=shared))
    return decided


def _with_preference(
    candidates: list[CandidatePage], signatures: Signatures, view: StateView, policy: Policy
) -> list[CandidatePage]:
    """The candidates, with the fetch times or ranks that decide which copy is kept, if the policy prefers by them."""
    if policy.preference == Preference.LENGTH or not candidates:
        return candidates
    numbers = np.array(sorted({page.number for page in candidates}), np.uint64)
    indexed = view.indexed(numbers)
    if policy.preference == Preference.TIME:
        name, own, others = "fetch time, seconds", signatures.event_time_ms / 1000, indexed.event_times_ms() / 1000
    else:
        name, own, others = "rank", ranks_of(signatures.rank), ranks_of(indexed.ranks())
    of_number = dict(zip(numbers.tolist(), others.tolist(), strict=True))
    with_figures = []
    for page in candidates:
        figures = {f"this page's {name}": float(own[0]), f"the other's {name}": of_number[page.number]}
        figures = {figure: value for figure, value in figures.items() if not np.isnan(value)}
        with_figures.append(replace(page, figures=page.figures | figures))
    return with_figures


def _id_of(entry: Entry) -> PageId:
    return entry.source, entry.partition, entry.offset


def _original_of_pending(signatures: Signatures, view: StateView) -> list[int]:
    """The entry number of the original in the page's pending verdict, if there is one and the entry still exists."""
    (pending,) = view.pending_verdicts(page_ids_of(signatures))
    if pending is None or pending.original == NOBODY:
        return []
    gone = view.page_ids(np.array([pending.original], np.uint64))[0] is None
    return [] if gone else [pending.original]


def _common_keys(slots: Slots, buckets: Buckets) -> dict[int, dict[KeyKind, int]]:
    """The number of common keys by kind, for each page in the buckets (by entry number)."""
    found = dict[int, dict[KeyKind, int]]()
    for slot, kind in enumerate(slots.kind.tolist()):
        start, end = buckets.bounds[slots.bucket[slot] : slots.bucket[slot] + 2]
        for number in buckets.numbers[start:end].tolist():
            kinds = found.setdefault(number, {})
            kinds[KeyKind(kind)] = kinds.get(KeyKind(kind), 0) + 1
    return found


def _lookups(slots: Slots, buckets: Buckets) -> dict[KeyKind, LookupCounts]:
    sizes = sizes_of(buckets.bounds)[slots.bucket]
    counts = {}
    for kind in np.unique(slots.kind).tolist():
        of_kind = sizes[slots.kind == kind]
        counts[KeyKind(kind)] = LookupCounts(len(of_kind), int(np.count_nonzero(of_kind)), int(of_kind.sum()))
    return counts


def blocks_by_host(signatures: Signatures, scheme: Scheme, view: StateView, policy: Policy) -> PageBlocks | None:
    """The blocks of one page by today's memory of its host; None for schemes without host memories."""
    if scheme.host_thresholds is None:
        return None
    return PageBlocks(signatures.blocks, look_up_page(signatures, view, scheme.host_thresholds, policy.rules))


def _page_blocks(signatures: Signatures, confirmed: PageConfirmations) -> PageBlocks:
    return PageBlocks(signatures.blocks, confirmed.page_view.flags[: len(signatures.blocks)].copy())


def _host_facts(signatures: Signatures, confirmed: PageConfirmations) -> HostFacts:
    return HostFacts(*host_figures(confirmed.page_view), _page_blocks(signatures, confirmed))
