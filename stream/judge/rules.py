"""The verdict rule: which earlier page a page is a copy of, which one it replaces, and what is filed.

These kernels are compiled into both searches: the one among indexed pages (indexed.py) and the one within a record
(resolution.py). Change the policy here and in its reference implementation, tests/reference/judge.py.

The rules, so that a verdict depends on the log's order and on nothing else:

- A page meets the postings of its buckets in the order of filing, that is by entry number, whatever bucket they lie in.
  A posting that passes (stream/sign/schemes) is accepted at once where its key is decisive. Else it is a candidate, and
  accepted if the scheme confirms it.
- The original of a page is the EARLIEST accepted page that it does not outgrow. With KEEP_FIRST no page outgrows any.
  Else a page outgrows one that is worth less than 1 / `longer_by` of it (stream/judge/policy.py). Where worth is
  length,
  none outgrows one of the same bytes; where it is time or rank, pages of the same bytes are told apart by it too.
- A page that outgrows all that are accepted is let through. If it is novel, and not unchecked, it replaces the one of
  them that is worth most, of equal ones the earliest. Where worth is time or rank, nearly every copy may replace
  another. It then teaches its host as a copy of the earliest of them does (stream/judge/by_host/resolution.py): else
  a story
  that is on a host ten times would be a template.
- Where policy.recrawl says so, a page is no copy of one of its own address (stream/judge/policy.py), or only under
  the kinds of decisive keys that tell that both have the same bytes or text. It is neither dropped for that page nor
  replaces it, but teaches as a copy of it (stream/judge/by_host/resolution.py). Under those kinds it is a
  copy, whatever both are worth.
- Of the candidates only the earliest `candidate_limit` different pages are confirmed; a page that met more is counted.
  Decisive keys have no such limit.
- Only novel pages and unchecked ones are filed. An earlier page of the same record counts exactly as if it had been
  filed in a record before: only through a bucket that it was really filed in.
- A bucket takes `cap` postings, or fewer where the scheme says so, and then no more; it is still probed. A page that
  fits no bucket is not filed and has no entry number. Full buckets stay full, so submitting such a page again changes
  nothing either.
- A page whose original is itself (same source, partition, offset) was judged before: it gets the verdict of its first
  attempt and is not filed again. Buckets only grow at their ends, so a page judged again meets the pages that it met
  then, in the same order and within the same candidate limit, and after them itself: through its decisive key, should
  there be more candidates by now than the limit. So it finds the original it had, or itself. Pages that were forgotten
  on demand (state/removal.py) are the exception: they are met no more.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.verdict import KeyKind, Reason
from spotsieve.stream.judge.policy import ANY_KIND, APART, KEEP_FIRST, SAME_ADDRESS, Policy, Preference
from spotsieve.stream.sign.schemes import Confirmations

LENGTH = int(Preference.LENGTH)
NO_PAIRS = Confirmations(np.empty(0, np.bool_), np.empty(0))
_BODY, _SAME_TEXT = np.uint8(KeyKind.BODY), np.uint8(KeyKind.TEXT | KeyKind.ADDRESS)
_EXACT, _TEXT_IS_SAME, _NEAR = np.uint8(Reason.EXACT), np.uint8(Reason.SAME_TEXT), np.uint8(Reason.NEAR)


class Limits(NamedTuple):
    """cap: most postings of a bucket  candidates: most candidates of a page that are confirmed
    longer_by, same_url, preference: as of Policy
    """

    cap: int
    candidates: int
    longer_by: float
    same_url: int = ANY_KIND
    preference: int = LENGTH


def limits_of(policy: Policy, cap: int, candidates: int) -> Limits:
    """The limits by which a record is judged."""
    return Limits(cap, candidates, policy.longer_by, policy.same_url, int(policy.preference))


class Candidate(NamedTuple):
    """A page that another one meets, under all the keys that found it.

    number: who was met  proof: kinds of the decisive keys (KeyKind); 0: it is a candidate  kinds: of all the keys
    distance: fewest inline bits that differ over the decisive ones, 255 without any
    """

    number: np.int64
    proof: np.uint8
    kinds: np.uint8
    distance: np.uint8


class OriginalSearch(NamedTuple):
    """Who is whose original, as far as the search has come; n pages.

    number: int64[n], the original, or NOBODY  distance: uint8[n], inline bits that differ, where a decisive key found
    it  score: float64[n], where it was confirmed  proof: uint8[n], the kinds of the decisive keys that found it
    (KeyKind), 0 where it was confirmed  found_by: uint8[n], the kinds of all keys that found it
    reason: uint8[n] (Reason), why a candidate was accepted, where it was confirmed
    compared: int64[n], candidates compared  cut: bool[n], there were more than the limit
    replaced: int64[n], of the accepted pages that the page outgrows the one that is worth most, or NOBODY
    replaced_preference: float64[n], what that page is worth, or -inf
    recrawl: bool[n], a page of the same address was accepted but for the address
    """

    number: NDArray[np.int64]
    distance: NDArray[np.uint8]
    score: NDArray[np.float64]
    proof: NDArray[np.uint8]
    found_by: NDArray[np.uint8]
    reason: NDArray[np.uint8]
    compared: NDArray[np.int64]
    cut: NDArray[np.bool_]
    replaced: NDArray[np.int64]
    replaced_preference: NDArray[np.float64]
    recrawl: NDArray[np.bool_]


def empty_search(pages: int) -> OriginalSearch:
    """What is known before any page has looked for its original."""
    return OriginalSearch(
        np.full(pages, NOBODY, np.int64),
        np.zeros(pages, np.uint8),
        np.full(pages, np.nan),
        np.zeros(pages, np.uint8),
        np.zeros(pages, np.uint8),
        np.full(pages, Reason.NEAR, np.uint8),
        np.zeros(pages, np.int64),
        np.zeros(pages, np.bool_),
        np.full(pages, NOBODY, np.int64),
        np.full(pages, -np.inf),
        np.zeros(pages, np.bool_),
    )


def final_kinds(limits: Limits) -> np.uint8:
    """The kinds of decisive keys (KeyKind) that end a search: a page under them is the original, whoever it is."""
    if limits.longer_by == KEEP_FIRST:
        return np.uint8(limits.same_url)
    return np.uint8(KeyKind.BODY & limits.same_url if limits.preference == LENGTH else 0)


@inlined
def reason_of(proof, confirmed):  # uint8, uint8 -> uint8
    """Why a pair was accepted, by the kinds of decisive keys (KeyKind), or by what confirmed it."""
    if proof & _BODY:
        return _EXACT
    if proof & _SAME_TEXT:
        return _TEXT_IS_SAME
    return _NEAR if proof else confirmed


@kernel
def reasons_of(proof: NDArray[np.uint8], confirmed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same of m pairs: uint8[m] each -> uint8[m]."""
    reasons = np.empty(len(proof), np.uint8)
    for pair in range(len(proof)):
        reasons[pair] = reason_of(proof[pair], confirmed[pair])
    return reasons


@inlined
def supersedes(preference, other, proof, relation, limits):  # float64, float64, uint8, uint8, Limits -> bool
    """Whether a page replaces another that it is a copy of. preference, other: what both are worth

    The same bytes have one length, however they were read. Of one address the same text is the same page, where
    addresses make a difference. With longer_by = KEEP_FIRST no page outgrows any.
    """
    if limits.preference == LENGTH:
        same = proof & _BODY != 0
    else:
        same = relation == SAME_ADDRESS and limits.same_url != ANY_KIND
    return not same and preference > limits.longer_by * other


@inlined
def note_superseded(found, page, number, preference):  # OriginalSearch, int64, int64, float64
    """Note an accepted page of this worth that the page outgrows."""
    if preference > found.replaced_preference[page]:
        found.replaced[page], found.replaced_preference[page] = number, preference


@inlined
def passes_recrawled(proof, relation, limits):  # uint8, uint8, Limits -> bool
    """Whether the address that two pages have in common keeps one from being a copy of the other."""
    return relation == SAME_ADDRESS and limits.same_url != ANY_KIND and np.int64(proof) & limits.same_url == 0


@inlined
def is_refused(found, page, pair, confirmed, row):
    """Whether the next page that `page` met, in the order of filing, is a candidate that is no copy; counted: bool.

    found: OriginalSearch  pair: Candidate  confirmed: Confirmations, row: int64, of the answer to a candidate, else not
    used
    Nearly all are refused, so nothing else is read of them.
    """
    if pair.proof:
        return False
    found.compared[page] += 1
    return not confirmed.accepted[row]


@inlined
def weigh(found, page, pair, confirmed, row, preference, other_preference, relation, limits):
    """Take in a page that `page` met and that is not refused; -> whether it is the original: bool.

    found, pair, confirmed, row: as of is_refused  preference, other_preference: float64, of the two
    relation: uint8, what their addresses make of them  limits: Limits
    """
    score = np.nan if pair.proof else confirmed.score[row]
    if relation == APART:
        return False
    if passes_recrawled(pair.proof, relation, limits):
        found.recrawl[page] = True
        return False
    if supersedes(preference, other_preference, pair.proof, relation, limits):
        note_superseded(found, page, pair.number, other_preference)
        return False
    found.number[page], found.score[page], found.proof[page] = pair.number, score, pair.proof
    found.distance[page] = pair.distance if pair.proof else 0
    found.found_by[page] = pair.kinds
    return True
