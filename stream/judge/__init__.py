"""Owns judging: probe, resolve, and what is to be filed, for one record of the log over a view of the state.

The rules, so that a verdict depends on the log's order and on nothing else:
- A page meets the postings of its buckets in the order of filing, that is by entry number, whatever bucket they lie in.
  A posting that passes (stream/schemes) is accepted at once where its key is decisive. Else it is a candidate, and
  accepted if the scheme confirms it.
- The original of a page is the EARLIEST accepted filed page that it does not outgrow. With KEEP_FIRST no page outgrows
  any. Else one does that has more than `longer_by` times the other's features, unless both have the same bytes.
- A page that outgrows all that are accepted is let through. If it is novel, and not unchecked, it replaces the LONGEST
  of them, of equal ones the earliest.
- Of the candidates only the earliest `candidate_limit` different pages are confirmed; a page that met more is counted.
  Decisive keys have no such limit.
- Only novel pages and unchecked ones are filed. An earlier page of the same record counts exactly as if it had been
  filed in a record before: only through a bucket that it was really filed in.
- A filed page has a template: the most features that it shares with any of the candidates of its host that it was
  compared with and is no copy of, or what the scheme presumes where it met none (stream/schemes). It never changes.
- A bucket takes `cap` postings, or fewer where the scheme says so, and then no more; it is still probed. A page that
  fits no bucket is not filed and has no entry number. Full buckets stay full, so submitting such a page again changes
  nothing either.
- A page whose original is itself (same source, partition, offset) was judged before: it gets the verdict of its first
  attempt and is not filed again. Buckets only grow at their ends, so a page judged again meets the pages that it met
  then, in the same order and within the same candidate limit, and after them itself: through its decisive key, should
  there be more candidates by now than the limit. So it finds the original it had, or itself. Pages
  that were forgotten on demand (state/forgetting.py) are the exception: they are met no more.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Filing, StateView
from spotsieve.stream.judge.filed import KEEP_FIRST, NOBODY, FiledOriginals, find_filed, slots_of
from spotsieve.stream.judge.record import Walked, grown_buckets, walk_record
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.signature import Entry, Signatures, Status, compared_pages
from spotsieve.stream.verdict import FoundBy, Kind, Reason, Verdicts

__all__ = ["KEEP_FIRST", "entry_of", "judge"]

_REASON_OF_STATUS = np.array(
    [Reason.NO_MATCH, Reason.TOO_FEW_FEATURES, Reason.EMPTY, Reason.NOT_TEXT, Reason.TOO_MANY_FEATURES], np.uint8
)  # indexed by Status


def judge(
    signatures: Signatures,
    scheme: Scheme,
    view: StateView,
    cap: int,
    candidate_limit: int,
    longer_by: float = KEEP_FIRST,
) -> tuple[Verdicts, Filing]:
    """Verdicts of a record's pages, and what filing them adds to the state.

    cap: most postings of a bucket  candidate_limit: most candidates of a page that are confirmed; 0: the scheme's own
    longer_by: a copy with more than so many times the features of what it is a copy of replaces it
    """
    candidate_limit = candidate_limit or scheme.candidate_limit
    keys, slots = slots_of(scheme.probe(signatures))
    buckets = view.buckets(keys)
    pages = compared_pages(signatures, scheme.compares_features)
    filed = find_filed(slots, buckets, view, scheme, pages, candidate_limit, longer_by)
    first_number = view.entry_count
    walked = walk_record(slots, buckets, filed.found, scheme, pages, first_number, cap, candidate_limit, longer_by)
    grown, contents = grown_buckets(slots, buckets, walked)
    to_file = np.flatnonzero(walked.entry != NOBODY)
    template = walked.template[to_file].astype(np.uint32)
    filing = Filing(
        signatures, to_file, first_number, template, keys[grown], contents, walked.capped, scheme.compares_features
    )
    return _verdicts(signatures, scheme, filed, walked), filing


def _verdicts(signatures: Signatures, scheme: Scheme, filed: FiledOriginals, walked: Walked) -> Verdicts:
    """Say what each page is."""
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
    proof, distance, confirmed, found_by[copies] = (
        np.where(in_state, getattr(filed.found, name)[copies], getattr(walked.found, name)[copies])
        for name in ("proof", "distance", "score", "found_by")
    )
    kind[copies] = Kind.DUPLICATE
    reason[copies] = np.where(proof & FoundBy.TEXT, Reason.SAME_TEXT, Reason.NEAR)
    reason[copies[(proof & FoundBy.BODY) != 0]] = Reason.EXACT
    reason[again[fingerprinted[again]]] = Reason.FIRST_ATTEMPT
    score[copies] = np.where(proof, scheme.score(distance), confirmed)
    replaces = _replaced(signatures, filed, walked, kind == Kind.NOVEL)
    longer = [page for page, replaced in enumerate(replaces) if replaced and reason[page] == Reason.NO_MATCH]
    reason[longer] = Reason.LONGER
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
