"""The verdict rule: the page that a page is a copy of, the page that it supersedes, and the pages that are indexed.

These kernels are compiled into both searches: the one among indexed pages (indexed.py) and the one within a record
(resolution.py). Change the rule here and in its reference implementation, tests/reference/judge.py.

A verdict depends on the order of the log only, because of these rules:

- The earlier pages that share keys with a page are visited in indexing order, that is by entry number, whatever
  bucket they lie in. A posting that passes (stream/sign/schemes) is accepted at once if its key is decisive. Otherwise
  its page is a candidate, which is accepted if the scheme confirms it.
- The original of a page is the EARLIEST accepted page that the page does not supersede. With KEEP_FIRST no page
  supersedes another. Otherwise a page supersedes an original whose preference is less than 1 / `longer_by` of its own
  (stream/judge/policy.py). If the preference is the length, a page never supersedes one with the same bytes. If it is
  time or rank, it also decides between pages with the same bytes.
- A page that supersedes all accepted pages has no original. If it is novel, and not unchecked, it replaces the accepted
  page of the highest preference; of equal ones, the earliest. If the preference is time or rank, nearly every copy may
  supersede another. Such a page teaches its host like a copy of the earliest accepted page
  (stream/judge/by_host/resolution.py). Otherwise an article that is ten times on a host would become template text.
- With policy.recrawl, a page is not a copy of a page with the same URL (stream/judge/policy.py), or only under the
  kinds of decisive keys that show that both have the same bytes or text. Such a page is neither dropped for the other
  page nor replaces it, but teaches its host like a copy of it (stream/judge/by_host/resolution.py). Under those kinds
  of keys it is a copy, whatever the preferences of the two pages are.
- Only the earliest `candidate_limit` candidates of a page are confirmed; a page with more is counted. Decisive keys
  have no such limit.
- Only novel and unchecked pages are indexed. An earlier page of the same record counts exactly as if an earlier record
  had indexed it: only through a bucket that really took its posting.
- A bucket takes `cap` postings, or fewer if the scheme says so, and then no more; it is still probed. A page that fits
  in no bucket is not indexed and has no entry number. Full buckets stay full, so submitting such a page again changes
  nothing either.
- A page whose original is the page itself (same source, partition, offset) was judged before: it gets the verdict of
  its first attempt and is not indexed again. Buckets only grow at their ends. So a page that is judged again has the
  same candidates as before, in the same order and within the same candidate limit, and then itself: through its
  decisive key if there are now more candidates than the limit. It therefore finds its old original, or itself. Pages
  that were forgotten on demand (state/removal.py) are the exception: they are no candidates any more.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.verdict import KeyKind, Reason
from spotsieve.stream.judge.policy import ANY_KIND, APART, KEEP_FIRST, SAME_URL, Policy, Preference
from spotsieve.stream.sign.schemes import Confirmations

LENGTH = int(Preference.LENGTH)
NO_PAIRS = Confirmations(np.empty(0, np.bool_), np.empty(0))
_BODY, _SAME_TEXT = np.uint8(KeyKind.BODY), np.uint8(KeyKind.TEXT | KeyKind.URL)
_EXACT, _TEXT_IS_SAME, _NEAR = np.uint8(Reason.EXACT), np.uint8(Reason.SAME_TEXT), np.uint8(Reason.NEAR)


class Limits(NamedTuple):
    """The limits and policy values that the rule reads.

    cap: maximum number of postings in a bucket
    candidates: maximum number of candidates per page that are confirmed
    longer_by: a copy supersedes its original if its preference is more than this multiple of the original's
    same_url: kinds of decisive keys (KeyKind) under which a page is a copy of a page with the same URL
    preference: the value that decides which copy is kept (Preference)
    """

    cap: int
    candidates: int
    longer_by: float
    same_url: int = ANY_KIND
    preference: int = LENGTH


def limits_of(policy: Policy, cap: int, candidates: int) -> Limits:
    """The limits under which a record is judged."""
    return Limits(cap, candidates, policy.longer_by, policy.same_url, int(policy.preference))


class Candidate(NamedTuple):
    """An earlier page that shares keys with a page, with all these keys taken together.

    number: the earlier page
    proof: kinds of the decisive keys (KeyKind); 0 if there are none and the scheme has to confirm the pair
    kinds: kinds of all shared keys (KeyKind)
    distance: smallest number of inline bits that differ, over the decisive keys; 255 without decisive keys
    """

    number: np.int64
    proof: np.uint8
    kinds: np.uint8
    distance: np.uint8


class OriginalSearch(NamedTuple):
    """The originals of n pages, as far as the search has come.

    number: int64[n], the original, or NOBODY
    distance: uint8[n], number of inline bits that differ, if a decisive key found the original
    score: float64[n], if the scheme confirmed the original
    proof: uint8[n], kinds of the decisive keys (KeyKind) that found it; 0 if the scheme confirmed it
    found_by: uint8[n], kinds of all keys that found it (KeyKind)
    reason: uint8[n] (Reason), why the scheme confirmed it
    compared: int64[n], number of candidates that were compared
    cut: bool[n], the page has more candidates than the limit
    replaced: int64[n], the page of the highest preference among the accepted pages that this page supersedes, or NOBODY
    replaced_preference: float64[n], the preference of that page, or -inf
    recrawl: bool[n], a page was accepted, but it has the same URL and therefore does not count as the original
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


_NO_NUMBER, _NO_SCORE, _NO_PREFERENCE = np.array([NOBODY], np.int64), np.array([np.nan]), np.array([-np.inf])
_FIRST_REASON = np.array([_NEAR])
"""The columns of a page before its search that are not 0."""


def empty_search(pages: int) -> OriginalSearch:
    """The state of the search before its first page. A kernel would take 1 us for each array that it returns."""
    return OriginalSearch(
        _NO_NUMBER.repeat(pages),
        np.zeros(pages, np.uint8),
        _NO_SCORE.repeat(pages),
        np.zeros(pages, np.uint8),
        np.zeros(pages, np.uint8),
        _FIRST_REASON.repeat(pages),
        np.zeros(pages, np.int64),
        np.zeros(pages, np.bool_),
        _NO_NUMBER.repeat(pages),
        _NO_PREFERENCE.repeat(pages),
        np.zeros(pages, np.bool_),
    )


def final_kinds(limits: Limits) -> np.uint8:
    """The kinds of decisive keys (KeyKind) that end a search: any page found under them is the original."""
    if limits.longer_by == KEEP_FIRST:
        return np.uint8(limits.same_url)
    return np.uint8(KeyKind.BODY & limits.same_url if limits.preference == LENGTH else 0)


@inlined
def reason_of(proof, confirmed):  # uint8, uint8 -> uint8
    """The reason why a pair was accepted: by the kinds of its decisive keys (KeyKind), or of its confirmation."""
    if proof & _BODY:
        return _EXACT
    if proof & _SAME_TEXT:
        return _TEXT_IS_SAME
    return _NEAR if proof else confirmed


@kernel
def reasons_of(proof: NDArray[np.uint8], confirmed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The reasons why m pairs were accepted: uint8[m] each -> uint8[m]."""
    reasons = np.empty(len(proof), np.uint8)
    for pair in range(len(proof)):
        reasons[pair] = reason_of(proof[pair], confirmed[pair])
    return reasons


@inlined
def supersedes(preference, other, proof, relation, limits):  # float64, float64, uint8, uint8, Limits -> bool
    """Whether a page supersedes another that it is a copy of. preference, other: preferences of the two pages

    Pages with the same bytes have the same length, whatever parser read them. If URLs affect the verdict, the same text
    under the same URL is the same page. In both cases no page supersedes the other. With longer_by = KEEP_FIRST no page
    supersedes another.
    """
    fetched_again = relation == SAME_URL and limits.same_url != ANY_KIND
    same = proof & _BODY != 0 if limits.preference == LENGTH else fetched_again
    return not same and preference > limits.longer_by * other


@inlined
def note_superseded(found, page, number, preference):  # OriginalSearch, int64, int64, float64
    """Record an accepted page of this preference that the page supersedes, if it is the best one so far."""
    if preference > found.replaced_preference[page]:
        found.replaced[page], found.replaced_preference[page] = number, preference


@inlined
def passes_recrawled(proof, relation, limits):  # uint8, uint8, Limits -> bool
    """Whether a page is not a copy of another because both have the same URL (policy.recrawl)."""
    return relation == SAME_URL and limits.same_url != ANY_KIND and np.int64(proof) & limits.same_url == 0


@inlined
def is_refused(found, page, pair, confirmed, row):
    """Whether the next earlier page, in indexing order, is a candidate that is not confirmed; counts candidates: bool.

    found: OriginalSearch  pair: Candidate
    confirmed: Confirmations
    row: int64, the candidate's row in `confirmed`; unused for decisive keys
    Nearly all candidates fail here, so nothing else of them is read.
    """
    if pair.proof:
        return False
    found.compared[page] += 1
    return not confirmed.accepted[row]


@inlined
def weigh(found, page, pair, confirmed, row, preference, other_preference, relation, limits):
    """Apply the rule to an accepted page; -> whether it is the original: bool.

    found: OriginalSearch  pair: Candidate  confirmed: Confirmations
    row: int64, the candidate's row in `confirmed`; unused for decisive keys
    preference, other_preference: float64, of the page and of the accepted page
    relation: uint8, relation of their URLs (PLAIN_PAIR, SAME_URL, APART)
    limits: Limits
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
