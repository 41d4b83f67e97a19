"""Judges one record of the log over a view of the state: the verdict of each page, and what is to be filed.

slots.py   the keys of the pages, and the postings that these lead to, as the kernels see them
met.py     which earlier pages a page meets: the one merge of postings
policy.py  what the settings ask beside the scheme
worth.py   what pages are worth where one of two copies is kept
rules.py   the verdict rule
addresses.py which pairs are one address fetched twice
filed.py   the search for originals among the filed pages
walk.py    the search within the record, and filing
verdicts.py what each page is, by what was found
learning.py what pages teach their hosts, and what entries keep of pages
hosts.py   both searches and filing, page by page, for a scheme whose pages are compared by what their hosts share
known.py   pages that were judged before get the verdict that they had
recalled.py what a record needs of the state, read at once
memory.py  what is remembered of hosts
pairs.py   the rule for two pages, with the memory of a host
ways.py    the names of its bars, and the ways of reaching enough of them
confirming.py asks about every pair that is met, for a scheme with a memory of hosts
isolation.py a record with poison pages
alone.py   the verdicts of pages that are not filed, and all matches of a page
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, IndexUpdate, StateView
from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.judge.by_host.walk import judge_with_hosts
from spotsieve.stream.judge.filed import IndexedOriginals, find_originals
from spotsieve.stream.judge.policy import KEEP_FIRST, PLAIN, Policy, policy_of
from spotsieve.stream.judge.rules import limits_of
from spotsieve.stream.judge.slots import slots_of
from spotsieve.stream.judge.verdicts import entry_of, verdicts_of
from spotsieve.stream.judge.walk import Resolution, grown_buckets, resolve_record
from spotsieve.stream.judge.worth import Preference, keeps_ranks, preferences_of_pages
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.signature import Signatures, candidate_columns
from spotsieve.stream.verdict import Reason, Verdicts

__all__ = [
    "KEEP_FIRST",
    "PLAIN",
    "Policy",
    "RecordJudgment",
    "entry_of",
    "judge",
    "judge_record",
    "policy_of",
    "verdicts_of",
]


class RecordJudgment(NamedTuple):
    """What is found of the n pages of a record. indexed, resolution: their originals among the filed pages, and in the record

    taught: uint8[n], is_new: bool[n], as of HostJudgment; None without a memory of hosts
    """

    verdicts: Verdicts
    index_update: IndexUpdate
    indexed: IndexedOriginals
    resolution: Resolution
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
) -> tuple[Verdicts, IndexUpdate]:
    """Verdicts of a record's pages, and what filing them adds to the state. As judge_record"""
    judged = judge_record(signatures, scheme, view, cap, candidate_limit, policy, alone=alone)
    return judged.verdicts, judged.index_update


def judge_record(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    cap: int,
    candidate_limit: int,
    policy: Policy = PLAIN,
    *,
    alone: bool = False,
) -> RecordJudgment:
    """Judge the pages of a record.

    cap: most postings of a bucket  candidate_limit: most candidates of a page that are confirmed; 0: the scheme's own
    alone: each page is judged by itself, as if it had never come before; pass a cap of 0, so that none is filed
    """
    limits = limits_of(policy, cap, candidate_limit or scheme.candidate_limit)
    preferences = preferences_of_pages(signatures, limits.preference)
    keys, slots = slots_of(scheme.probe(signatures))
    buckets = view.buckets(keys)
    first_number, learned, taught, is_new = view.entry_count, None, None, None
    if scheme.bars is not None:
        indexed, resolution, learned, taught, is_new = judge_with_hosts(
            signatures, slots, buckets, view, scheme.bars, preferences, limits, policy.rules, alone
        )
    else:
        pages = candidate_columns(signatures, scheme.compares_features)
        indexed = find_originals(slots, buckets, view, scheme, signatures, pages, preferences, limits, policy.rules)
        resolution = resolve_record(
            slots, sizes_of(buckets.bounds), indexed, scheme, pages, preferences, first_number, limits
        )
    grown, contents = grown_buckets(buckets, resolution.added, resolution.entry)
    to_file = np.flatnonzero(resolution.entry != NOBODY)
    index_update = IndexUpdate(
        signatures,
        to_file,
        first_number,
        keys[grown],
        contents,
        resolution.capped,
        scheme.compares_features,
        learned,
        keeps_ranks=keeps_ranks(limits.preference),
    )
    verdicts = verdicts_of(signatures, scheme, indexed, resolution)
    if limits.preference != Preference.LENGTH:
        verdicts.reason[verdicts.reason == Reason.LONGER] = Reason.BETTER
    return RecordJudgment(verdicts, index_update, indexed, resolution, taught, is_new)
