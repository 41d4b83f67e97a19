"""The judge for a scheme with a memory of hosts: one page after the other. Reference for spotsieve.stream.judge."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from spotsieve.stream.base.signature import MATCHING_NOTHING, Signatures, SignatureStatus, page_id_text
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.judge.policy import ANY_KIND, PLAIN, Policy, Preference
from tests.reference.common_text import CommonText
from tests.reference.containment import EntryText, PageView, entry_of, look_up
from tests.reference.host_memory import Memory, hash_of_text, hash_of_url
from tests.reference.judge import Key, Outcome, caps_of_status, digest_key, reason_without_original
from tests.reference.packed_text import PageText, text_of
from tests.reference.page_pairs import PairThresholds, compare
from tests.reference.worth import is_better, preference_of

PageId = tuple[str, int, int]
JUDGED = (SignatureStatus.FINGERPRINTED, SignatureStatus.PARTIAL)


class CopyReason(NamedTuple):
    """Why a page is a copy of another, and its score."""

    reason: str
    score: float


class IndexedPage(NamedTuple):
    """An entry: the page, and its text when it was indexed."""

    page: PageId
    text: EntryText
    address: str
    preference: float


class PageVerdict(NamedTuple):
    """The verdict of a page. original: the entry that it is a copy of, or else replaces; None: none"""

    outcome: Outcome
    original: int | None = None
    indexed: bool = False


class JudgedPage(NamedTuple):
    """A page that is judged now."""

    page: PageId
    address: str
    view: PageView
    preference: float
    keys: list[Key]
    status: SignatureStatus


@dataclass
class RememberingJudge:
    """keys_of: the keys of a page  cap: most postings of a bucket  candidate_limit: most candidates that are compared
    policy: as in tests.reference.judge.ObviousJudge

    entries: by number, None for one that was forgotten  memories: by host  floor: entries below it are dead
    pending_verdicts: by page, the verdicts of pages that could come back, if no entry says them
    """

    keys_of: Callable[[Signatures, int], list[Key]]
    thresholds: PairThresholds
    cap: int
    candidate_limit: int
    policy: Policy = PLAIN
    entries: list[IndexedPage | None] = field(default_factory=list)
    buckets: dict[object, list[tuple[int, int]]] = field(default_factory=dict)
    memories: dict[int, Memory] = field(default_factory=dict)
    common: CommonText = field(default_factory=CommonText)
    pending_verdicts: dict[PageId, PageVerdict] = field(default_factory=dict)
    floor: int = 0
    capped: int = 0

    def judge(self, signatures: Signatures, committed: Iterable[PageId] = ()) -> list[Outcome]:
        """-> the outcome of each page of a record, in order.

        committed: pages of a source and partition below an offset cannot come back; partition -1: no page can
        """
        found: dict[PageId, PageVerdict] = {}
        outcomes, pending_verdicts = [], dict[PageId, PageVerdict]()
        for index in range(len(signatures)):
            page, text = id_of(signatures, index), text_of(signatures, index)
            status = SignatureStatus(int(signatures.status[index]))
            if status in JUDGED:
                text = self.common.look_up(text, learns=status is SignatureStatus.FINGERPRINTED)
            known = self._known(signatures, index, found.get(page))
            found[page] = known or self._judge_page(signatures, index, text)
            outcomes.append(found[page].outcome)
            if known is None and status in JUDGED and (not found[page].indexed or found[page].original is not None):
                pending_verdicts[page] = found[page]
        for source, partition, offset in committed:
            self.pending_verdicts = {
                page: attempt
                for page, attempt in self.pending_verdicts.items()
                if not (partition == -1 or (page[:2] == (source, partition) and page[2] < offset))
            }
        self.pending_verdicts |= pending_verdicts
        return outcomes

    def forget(self, numbers: Iterable[int], with_hosts: bool = False) -> None:
        """Remove entries: their pages are no candidates any more. with_hosts: with the memories of their hosts"""
        for number in numbers:
            entry = self._entry(number)
            if entry and with_hosts:
                self.memories.pop(entry.text.host, None)
            if entry:
                self.entries[number] = None
                self.pending_verdicts.pop(entry.page, None)
        self._sweep()

    def move_floor(self, floor: int) -> None:
        """Let everything die that is older than the entry of this number."""
        self.floor = floor
        self.memories = {host: memory for host, memory in self.memories.items() if memory.last >= floor}
        self._sweep()

    def _entry(self, number: int | None) -> IndexedPage | None:
        return self.entries[number] if number is not None and number >= self.floor else None

    def _sweep(self) -> None:
        for bucket, postings in self.buckets.items():
            self.buckets[bucket] = [posting for posting in postings if self._entry(posting[0])]

    def _known(self, signatures: Signatures, index: int, earlier: PageVerdict | None) -> PageVerdict | None:
        """The verdict that the page had, if it was judged before and could come back."""
        page, status = id_of(signatures, index), SignatureStatus(int(signatures.status[index]))
        remembered = self.pending_verdicts.get(page) if status in JUDGED else None
        if remembered and remembered.original is not None and not self._entry(remembered.original):
            remembered = None
        for key in self.keys_of(signatures, index):
            if key.kind is KeyKind.BODY:
                for number, inline in self.buckets.get(key.bucket, []):
                    entry = self._entry(number)
                    if entry and inline == key.inline and entry.page == page:
                        itself = PageVerdict((*without_original(status), 0, False), indexed=True)
                        return again(remembered or earlier or itself)
        known = remembered or earlier
        return again(known) if known else None

    def _judge_page(self, signatures: Signatures, index: int, text: PageText) -> PageVerdict:
        status = SignatureStatus(int(signatures.status[index]))
        judged = status is SignatureStatus.FINGERPRINTED
        page = JudgedPage(
            id_of(signatures, index),
            signatures.urls[index].decode().partition("#")[0],
            look_up(text, self.memories.get(text.host, Memory()), self.thresholds.template_share),
            preference_of(signatures, index, self.policy.preference),
            caps_of_status(self.keys_of(signatures, index), status),
            status,
        )
        verdict = self._resolve(page)
        if judged:
            memory = self.memories.setdefault(text.host, Memory())
            url, words = hash_of_url(signatures.urls[index]), hash_of_text(sample.hash for sample in text.samples)
            memory.learn(url, words, [block.identity for block in text.blocks], text.titles, len(self.entries))
        return verdict

    def _resolve(self, page: JudgedPage) -> PageVerdict:
        number, cut, (response, found_by), superseded, recrawl = self._original(page)
        if number is not None:
            original = self.entries[number]
            assert original
            outcome = ("duplicate", page_id_text(*original.page), response.score, response.reason, int(found_by), cut)
            return PageVerdict(outcome, number)
        judged = page.status is SignatureStatus.FINGERPRINTED
        best = max(superseded, key=self._preference) if superseded and judged else None
        indexed = self._index(page)
        novel, replaced = without_original(page.status), self._entry(best)
        if recrawl and judged:
            novel = ("novel", "", None, "recrawl")
        if replaced:
            reason = "longer" if self.policy.preference == Preference.LENGTH else "better"
            novel = ("novel", page_id_text(*replaced.page), None, reason)
        return PageVerdict((*novel, 0, cut), best, indexed)

    def _preference(self, number: int) -> float:
        entry = self.entries[number]
        assert entry
        return entry.preference

    def _original(self, page: JudgedPage) -> tuple[int | None, bool, tuple[CopyReason, KeyKind], list[int], bool]:
        """The original, whether candidates were cut, the reason, superseded entries, and whether it is a recrawl."""
        met: dict[int, list[Key]] = {}
        for key in page.keys:
            for number, inline in self.buckets.get(key.bucket, []):
                if inline == key.inline:
                    met.setdefault(number, []).append(key)
        compared, cut, superseded, recrawl = 0, False, list[int](), False
        policy = self.policy
        for number in sorted(met):
            through = [key for key in met[number] if key.decisive or not cut]
            found_by = KeyKind(0)
            for key in through:
                found_by |= key.kind
            entry = self.entries[number]
            assert entry
            better = is_better(page.preference, entry.preference, page.status, policy.preference, policy.longer_by)
            same = bool(page.address) and page.address == entry.address and page.page != entry.page
            decisive = [key.kind for key in through if key.decisive]
            if decisive and same and not any(kind & policy.same_url for kind in decisive):
                recrawl = True
                continue
            settled = policy.preference == Preference.LENGTH or (same and policy.same_url != ANY_KIND)
            if decisive and better and not settled:
                superseded.append(number)
                continue
            if decisive:
                return number, cut, (CopyReason("exact", 1.0), found_by), superseded, recrawl
            if compared == self.candidate_limit:
                cut = True
                continue
            compared += 1
            score = compare(page.view, entry.text, self.thresholds)
            if score is None:
                continue
            if same and policy.same_url != ANY_KIND:
                recrawl = True
            elif better:
                superseded.append(number)
            else:
                return number, cut, (CopyReason("contained", score), found_by), superseded, recrawl
        return None, cut, (CopyReason("", 0.0), KeyKind(0)), superseded, recrawl

    def _index(self, page: JudgedPage) -> bool:
        open_keys = [key for key in page.keys if len(self.buckets.get(key.bucket, [])) < self.cap]
        self.capped += sum(key.cap > 0 for key in page.keys) - sum(key.cap > 0 for key in open_keys)
        open_keys = [key for key in open_keys if len(self.buckets.get(key.bucket, [])) < key.cap]
        if not open_keys:
            return False
        for key in open_keys:
            self.buckets.setdefault(key.bucket, []).append((len(self.entries), key.inline))
        text = entry_of(page.view)
        if page.status is not SignatureStatus.FINGERPRINTED:
            text = EntryText(text.host, text.site, 0, 0, 0, 0, (), frozenset(), ())
        self.entries.append(IndexedPage(page.page, text, page.address, page.preference))
        return True


def without_original(status: SignatureStatus) -> tuple[str, str, None, str]:
    """The first four of the outcome of a page that is no copy."""
    if status is SignatureStatus.FINGERPRINTED:
        return "novel", "", None, "no_match"
    return "unchecked", "", None, reason_without_original(status)


def again(found: PageVerdict) -> PageVerdict:
    """What the page turned out to be, for the page submitted again."""
    verdict, other, score, reason, found_by, _ = found.outcome
    if found.indexed and verdict == "novel":
        reason = "first_attempt"
    return found._replace(outcome=(verdict, other, score, reason, found_by, False))


def id_of(signatures: Signatures, index: int) -> PageId:
    """The id of a page."""
    source = signatures.sources[signatures.source[index]]
    return source, int(signatures.partition[index]), int(signatures.offset[index])


@dataclass(frozen=True)
class KeysOfPages:
    """The keys of the default scheme.

    minima_cap: what a bucket of minima or of a title takes
    """

    minima_cap: int = 16
    block_cap: int = 4

    def __call__(self, signatures: Signatures, index: int) -> list[Key]:
        """The keys of a page, one by one."""
        status = SignatureStatus(int(signatures.status[index]))
        if status in MATCHING_NOTHING:
            return []
        body = digest_key(signatures, index, "digest", KeyKind.BODY)
        if status not in JUDGED:
            return [body]
        text = text_of(signatures, index)
        features = signatures.features[slice(*signatures.features_bounds[index : index + 2])].tolist()
        plain = [Key(("minima", one), 0, 0, False, KeyKind.MINIMA, self.minima_cap) for one in features]
        words = text.titles
        title = [Key(("title", text.host, words), 0, 0, False, KeyKind.TITLE, self.minima_cap)] if words else []
        length = int(signatures.feature_count[index])
        blocks = [
            Key(("block", text.host, identity), 0, 0, False, KeyKind.BLOCKS, self.block_cap)
            for identity in heaviest(text)[: 6 if length < 150 else 4 if length < 300 else 2]
        ]
        return [body, *plain, *title, *blocks]


def heaviest(text: PageText) -> list[int]:
    """The identities of the blocks of a page, the heaviest first; of equal ones, the first on the page.

    An identity weighs what its heaviest block weighs: its words, of boilerplate 0.4 of them.
    """
    weights: dict[int, tuple[float, int]] = {}
    for place, block in enumerate(text.blocks):
        weight = block.words * (1.0 if block.kept else 0.4)
        if block.identity and weight > weights.get(block.identity, (0.0, 0))[0]:
            weights[block.identity] = weight, place
    return sorted(weights, key=lambda identity: (-weights[identity][0], weights[identity][1]))
