"""Judges one record of the log over a view of the state: the verdict of each page, and what is to be filed.

slots.py   the keys of the pages, and the postings that these lead to, as the kernels see them
met.py     which earlier pages a page meets: the one merge of postings
policy.py  what the settings ask beside the scheme
worth.py   what pages are worth where one of two copies is kept
rules.py   the verdict rule
addresses.py which pairs are one address fetched twice
filed.py   the search for originals among the filed pages
walk.py    the search within the record, and filing
learning.py what pages teach their hosts, and what entries keep of pages
hosts.py   both searches and filing, page by page, for a scheme whose pages are compared by what their hosts share
known.py   pages that were judged before get the verdict that they had
recalled.py what a record needs of the state, read at once
memory.py  what is remembered of hosts
pairs.py   the rule for two pages, with the memory of a host
ways.py    the names of its bars, and the ways of reaching enough of them
confirming.py asks about every pair that is met, for a scheme with a memory of hosts
sparing.py a record with a page that breaks the code
alone.py   the verdicts of pages that are not filed, and all matches of a page
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Filing, StateView
from spotsieve.stream.judge.by_host.walk import judge_with_hosts
from spotsieve.stream.judge.filed import FiledOriginals, find_filed
from spotsieve.stream.judge.policy import KEEP_FIRST, PLAIN, Policy, policy_of
from spotsieve.stream.judge.rules import limits_of, reasons_of
from spotsieve.stream.judge.slots import slots_of
from spotsieve.stream.judge.walk import Walked, grown_buckets, walk_record
from spotsieve.stream.judge.worth import Worth, keeps_ranks, worth_of_pages
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.signature import Entry, Signatures, Status, compared_pages
from spotsieve.stream.verdict import Kind, Reason, Verdicts

__all__ = ["KEEP_FIRST", "PLAIN", "Judged", "Policy", "entry_of", "judge", "judge_record", "policy_of", "verdicts_of"]

_REASON_OF_STATUS = np.zeros(max(Status) + 1, np.uint8)
"""Indexed by Status: a page that could not be judged has the reason of its status' name."""
_REASON_OF_STATUS[Status.FINGERPRINTED] = Reason.NO_MATCH
for _status in Status:
    if _status is not Status.FINGERPRINTED:
        _REASON_OF_STATUS[_status] = Reason[_status.name]


class Judged(NamedTuple):
    """What is found of the n pages of a record. filed, walked: their originals among the filed pages, and in the record

    taught: uint8[n], is_new: bool[n], as of JudgedWithHosts; None without a memory of hosts
    """

    verdicts: Verdicts
    filing: Filing
    filed: FiledOriginals
    walked: Walked
    taught: NDArray[np.uint8] | None = None
    is_new: NDArray[np.bool_] | None = None


def judge(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    cap: int,
    candidate_limit: int,
    policy: Policy = PLAIN,
    *,
    alone: bool = False,
) -> tuple[Verdicts, Filing]:
    """Verdicts of a record's pages, and what filing them adds to the state. As judge_record"""
    judged = judge_record(signatures, scheme, view, cap, candidate_limit, policy, alone=alone)
    return judged.verdicts, judged.filing


def judge_record(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    cap: int,
    candidate_limit: int,
    policy: Policy = PLAIN,
    *,
    alone: bool = False,
) -> Judged:
    """Judge the pages of a record.

    cap: most postings of a bucket  candidate_limit: most candidates of a page that are confirmed; 0: the scheme's own
    alone: each page is judged by itself, as if it had never come before; pass a cap of 0, so that none is filed
    """
    limits = limits_of(policy, cap, candidate_limit or scheme.candidate_limit)
    worths = worth_of_pages(signatures, limits.worth)
    keys, slots = slots_of(scheme.probe(signatures))
    buckets = view.buckets(keys)
    first_number, learned, taught, is_new = view.entry_count, None, None, None
    if scheme.bars is not None:
        filed, walked, learned, taught, is_new = judge_with_hosts(
            signatures, slots, buckets, view, scheme.bars, worths, limits, policy.rules, alone
        )
    else:
        pages = compared_pages(signatures, scheme.compares_features)
        filed = find_filed(slots, buckets, view, scheme, signatures, pages, worths, limits, policy.rules)
        walked = walk_record(slots, np.diff(buckets.bounds), filed, scheme, pages, worths, first_number, limits)
    grown, contents = grown_buckets(buckets, walked.added, walked.entry)
    to_file = np.flatnonzero(walked.entry != NOBODY)
    filing = Filing(
        signatures,
        to_file,
        first_number,
        keys[grown],
        contents,
        walked.capped,
        scheme.compares_features,
        learned,
        keeps_ranks=keeps_ranks(limits.worth),
    )
    verdicts = verdicts_of(signatures, scheme, filed, walked)
    if limits.worth != Worth.LENGTH:
        verdicts.reason[verdicts.reason == Reason.LONGER] = Reason.BETTER
    return Judged(verdicts, filing, filed, walked, taught, is_new)


def verdicts_of(signatures: Signatures, scheme: Scheme, filed: FiledOriginals, walked: Walked) -> Verdicts:
    """Say what each page is, by what was found among the filed pages and within the record."""
    fingerprinted = signatures.status == Status.FINGERPRINTED
    reason = _REASON_OF_STATUS[signatures.status]
    kind = np.where(fingerprinted, Kind.NOVEL, Kind.UNCHECKED).astype(np.uint8)
    score = np.full(len(signatures), np.nan)
    found_by = np.zeros(len(signatures), np.uint8)
    originals: list[Entry | None] = [None] * len(signatures)
    accepted, entries = _accepted(signatures, filed, walked)
    own = _are_themselves(signatures, accepted, entries)
    for index, entry, itself in zip(accepted.tolist(), entries, own.tolist(), strict=True):
        if not itself:
            originals[index] = entry
    copies, again = accepted[~own], accepted[own]
    in_state = filed.found.number[copies] != NOBODY
    proof, distance, confirmed, found_by[copies], by_scheme = (
        np.where(in_state, getattr(filed.found, name)[copies], getattr(walked.found, name)[copies])
        for name in ("proof", "distance", "score", "found_by", "reason")
    )
    kind[copies] = Kind.DUPLICATE
    reason[copies] = reasons_of(proof, by_scheme)
    reason[again[fingerprinted[again]]] = Reason.FIRST_ATTEMPT
    score[copies] = np.where(proof, scheme.score(distance), confirmed)
    replaces = _replaced(signatures, filed, walked, kind == Kind.NOVEL)
    longer = [page for page, replaced in enumerate(replaces) if replaced and reason[page] == Reason.NO_MATCH]
    reason[longer] = Reason.LONGER
    recrawl = filed.found.recrawl | walked.found.recrawl
    reason[recrawl & (kind == Kind.NOVEL) & (reason == Reason.NO_MATCH)] = Reason.RECRAWL
    return Verdicts(kind, reason, score, tuple(originals), walked.postings, found_by, walked.found.cut, replaces)


def _replaced(
    signatures: Signatures, filed: FiledOriginals, walked: Walked, novel: NDArray[np.bool_]
) -> tuple[Entry | None, ...]:
    """What each page replaces; novel: bool[n]."""
    replaces: list[Entry | None] = [None] * len(signatures)
    within = walked.found.replaced
    for page in np.flatnonzero(novel & (within != NOBODY)).tolist():
        replaces[page] = entry_of(signatures, within[page])
    pages = np.flatnonzero(novel & (within == NOBODY) & (filed.found.replaced != NOBODY))
    for page, entry in zip(pages.tolist(), filed.entries(filed.found.replaced[pages]), strict=True):
        replaces[page] = entry
    return tuple(replaces)


def _accepted(signatures: Signatures, filed: FiledOriginals, walked: Walked) -> tuple[NDArray[np.int64], list[Entry]]:
    """The pages for which an original was accepted: int64[a], and their originals, filed or of this record."""
    from_state = np.flatnonzero(filed.found.number != NOBODY)
    entries = filed.entries(filed.found.number[from_state])
    within = np.flatnonzero(walked.found.number != NOBODY)
    entries += [entry_of(signatures, page) for page in walked.found.number[within].tolist()]
    return np.concatenate([from_state, within]), entries


def _are_themselves(signatures: Signatures, pages: NDArray[np.int64], entries: list[Entry]) -> NDArray[np.bool_]:
    """Whether each entry is the very page, by its page id: bool[a]."""
    ids = zip(
        signatures.offset[pages].tolist(),
        signatures.partition[pages].tolist(),
        signatures.source[pages].tolist(),
        entries,
        strict=True,
    )
    sources = signatures.sources
    same = (
        offset == entry.offset and partition == entry.partition and sources[source] == entry.source
        for offset, partition, source, entry in ids
    )
    return np.fromiter(same, np.bool_, len(entries))


def entry_of(signatures: Signatures, index: int) -> Entry:
    """A page of a record, as an entry."""
    return Entry(
        signatures.sources[signatures.source[index]],
        int(signatures.partition[index]),
        int(signatures.offset[index]),
        int(signatures.event_time_ms[index]),
        signatures.urls[index].decode("utf-8", "replace"),
        signatures.labels[index].decode("utf-8", "replace"),
    )
