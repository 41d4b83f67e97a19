"""The obvious judge for a scheme with a memory of hosts: one page after the other. Twin of spotsieve.stream.judge."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from spotsieve.stream.base.signature import MATCHING_NOTHING, Signatures, SignatureStatus, page_id_text
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.judge.policy import ANY_KIND, PLAIN, Policy, Preference
from tests.reference.host_memory import Answer, Bars, Host, Memory, PageText, compare, print_of
from tests.reference.judge import Key, Outcome, digest_key
from tests.reference.worth import is_better, preference_of

PageId = tuple[str, int, int]


class Filed(NamedTuple):
    """An entry: who the page is, and its own text as of its filing, with the share in 255ths."""

    page: PageId
    text: PageText
    share: int
    address: str
    preference: float


class Found(NamedTuple):
    """What a page turned out to be. original: the entry that it is a copy of, or else replaces; None: none"""

    outcome: Outcome
    original: int | None = None
    answer: Answer | None = None
    indexed: bool = False


@dataclass
class RememberingJudge:
    """keys_of: the keys of a page  cap: most postings of a bucket  candidate_limit: most candidates that are compared
    policy: as in tests.reference.judge.ObviousJudge

    entries: by number, None for one that was forgotten  memories: by host  floor: entries below it are dead
    pending_verdicts: by page, what pages turned out to be that could come back, and whose entry, if any, does not say
    it
    """

    keys_of: Callable[[Signatures, int], list[Key]]
    bars: Bars
    cap: int
    candidate_limit: int
    policy: Policy = PLAIN
    entries: list[Filed | None] = field(default_factory=list)
    buckets: dict[object, list[tuple[int, int]]] = field(default_factory=dict)
    memories: dict[int, Memory] = field(default_factory=dict)
    pending_verdicts: dict[PageId, Found] = field(default_factory=dict)
    floor: int = 0
    capped: int = 0

    def judge(self, signatures: Signatures, committed: Iterable[PageId] = ()) -> list[Outcome]:
        """-> the outcome of each page of a record, in order.

        committed: pages of a source and partition below an offset cannot come back; partition -1: no page can
        """
        found: dict[PageId, Found] = {}
        outcomes, pending_verdicts = [], dict[PageId, Found]()
        for index in range(len(signatures)):
            page = id_of(signatures, index)
            known = self._known(signatures, index, found.get(page))
            found[page] = known or self._judge_page(signatures, index)
            outcomes.append(found[page].outcome)
            judged = signatures.status[index] == SignatureStatus.FINGERPRINTED
            if known is None and judged and (not found[page].indexed or found[page].original is not None):
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
        """Take entries out: their pages are met no more, and what their hosts know through them alone is lost.

        with_hosts: with all else that is known of their hosts
        """
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

    def host(self, host: int) -> Host:
        """What the host's next page is judged by."""
        memory = self.memories.get(host, Memory())
        first = self._entry(memory.first)
        if first is None:
            return Host(memory.pages, memory.items, memory.words, self.bars)
        items = {one.identity: 1 for one in first.text.prints}
        return Host(memory.pages, items, dict.fromkeys(first.text.titles, 1), self.bars)

    def _entry(self, number: int | None) -> Filed | None:
        return self.entries[number] if number is not None and number >= self.floor else None

    def _sweep(self) -> None:
        for bucket, postings in self.buckets.items():
            self.buckets[bucket] = [posting for posting in postings if self._entry(posting[0])]

    def _known(self, signatures: Signatures, index: int, earlier: Found | None) -> Found | None:
        """The verdict that the page had, if it was judged before and could come back."""
        page, status = id_of(signatures, index), SignatureStatus(int(signatures.status[index]))
        remembered = self.pending_verdicts.get(page) if status is SignatureStatus.FINGERPRINTED else None
        if remembered and remembered.original is not None and not self._entry(remembered.original):
            remembered = None
        for key in self.keys_of(signatures, index):
            if key.kind is KeyKind.BODY:
                for number, inline in self.buckets.get(key.bucket, []):
                    entry = self._entry(number)
                    if entry and inline == key.inline and entry.page == page:
                        itself = Found((*without_original(status), 0, False), indexed=True)
                        return again(remembered or earlier or itself)
        known = remembered or earlier
        return again(known) if known else None

    def _judge_page(self, signatures: Signatures, index: int) -> Found:
        status = SignatureStatus(int(signatures.status[index]))
        judged = status is SignatureStatus.FINGERPRINTED
        text, keys = text_of(signatures, index), self.keys_of(signatures, index)
        host = self.host(text.host)
        page, address = id_of(signatures, index), signatures.urls[index].decode().partition("#")[0]
        preference = preference_of(signatures, index, self.policy.preference)
        number, cut, found, outgrown, recrawl = self._original(page, address, text, preference, keys, host, status)
        if number is not None:
            answer, found_by = found
            original = self.entries[number]
            assert original
            outcome = ("duplicate", page_id_text(*original.page), answer.score, answer.reason, int(found_by), cut)
            if judged:
                self._learn(text, host, number, answer, None)
            return Found(outcome, number, answer)
        longest = max(outgrown, key=self._worth) if outgrown and judged else None
        indexed = self._file(page, address, text, preference, keys, host)
        if judged:
            like = [
                *([recrawl] if recrawl else []),
                *(outgrown.items() if self.policy.preference != Preference.LENGTH else []),
            ]
            copied, answer_of = min(like, key=lambda one: one[0]) if like else (None, None)
            self._learn(text, host, copied, answer_of, indexed)
        novel, replaced = without_original(status), self._entry(longest)
        if recrawl and judged:
            novel = ("novel", "", None, "recrawl")
        if replaced:
            replacing = "longer" if self.policy.preference == Preference.LENGTH else "better"
            novel = ("novel", page_id_text(*replaced.page), None, replacing)
        return Found((*novel, 0, cut), longest, indexed=indexed is not None)

    def _worth(self, number: int) -> float:
        entry = self.entries[number]
        assert entry
        return entry.preference

    def _original(
        self,
        own: PageId,
        address: str,
        page: PageText,
        preference: float,
        keys: list[Key],
        host: Host,
        status: SignatureStatus,
    ) -> tuple[int | None, bool, tuple[Answer, KeyKind], dict[int, Answer], tuple[int, Answer] | None]:
        """The last: the earliest page of the same address that this one is a copy of but for the address."""
        met: dict[int, list[Key]] = {}
        for key in keys:
            for number, inline in self.buckets.get(key.bucket, []):
                if inline == key.inline:
                    met.setdefault(number, []).append(key)
        compared, cut, outgrown, recrawl = 0, False, dict[int, Answer](), None
        policy = self.policy
        for number in sorted(met):
            through = [key for key in met[number] if key.decisive or not cut]
            found_by = KeyKind(0)
            for key in through:
                found_by |= key.kind
            entry = self.entries[number]
            assert entry
            better = is_better(preference, entry.preference, status, policy.preference, policy.longer_by)
            same = bool(address) and address == entry.address and own != entry.page
            decisive = [key.kind for key in through if key.decisive]
            if decisive and same and not any(kind & policy.same_url for kind in decisive):
                recrawl = recrawl or (number, Answer("exact", 1.0))
                continue
            if (
                decisive
                and better
                and policy.preference != Preference.LENGTH
                and not (same and policy.same_url != ANY_KIND)
            ):
                outgrown[number] = Answer("exact", 1.0)
                continue
            if decisive:
                return number, cut, (Answer("exact", 1.0), found_by), outgrown, recrawl
            if compared == self.candidate_limit:
                cut = True
                continue
            compared += 1
            answer = compare(page, entry.text, host)
            if answer.reason and same and policy.same_url != ANY_KIND:
                recrawl = recrawl or (number, answer)
            elif answer.reason and better:
                outgrown[number] = answer
            elif answer.reason:
                return number, cut, (answer, found_by), outgrown, recrawl
        return None, cut, (Answer("", 0.0), KeyKind(0)), outgrown, recrawl

    def _file(
        self, page: PageId, address: str, text: PageText, preference: float, keys: list[Key], host: Host
    ) -> int | None:
        open_keys = [key for key in keys if len(self.buckets.get(key.bucket, [])) < self.cap]
        self.capped += len(keys) - len(open_keys)
        open_keys = [key for key in open_keys if len(self.buckets.get(key.bucket, [])) < key.cap]
        if not open_keys:
            return None
        number = len(self.entries)
        for key in open_keys:
            self.buckets.setdefault(key.bucket, []).append((number, key.inline))
        share, listed = host.share(text.prints)
        byte = math.floor(share * 255 + 0.5)
        own = text._replace(prints=tuple(host.own(text.prints)), share=byte / 255, listed=min(listed, 65_535))
        self.entries.append(Filed(page, own, byte, address, preference))
        return number

    def _learn(
        self, page: PageText, host: Host, original: int | None, answer: Answer | None, indexed: int | None
    ) -> None:
        """host: before the page  original, answer: of a copy  indexed: the entry number of a newly indexed page"""
        if answer and answer.reason == "exact":
            return
        number = len(self.entries) if indexed is None else indexed
        memory = self.memories.setdefault(page.host, Memory())
        if memory.pages == 0 and indexed is not None:
            self.memories[page.host] = Memory(1, number, number)
            return
        memory.first, memory.last = None, number
        memory.items, memory.words = dict(host.items), dict(host.words)
        entry = self._entry(original)
        # Where nothing is known of the host, as its memory was forgotten, a sure copy teaches like any page.
        if memory.pages and entry and answer and answer.sure and entry.text.host == page.host:
            known = {one.identity for one in entry.text.prints}
            memory.learn_items(one.identity for one in host.own(page.prints) if one.identity not in known)
            return
        memory.pages += 1
        memory.learn_items(one.identity for one in page.prints)
        memory.learn_words(page.titles)


def without_original(status: SignatureStatus) -> tuple[str, str, None, str]:
    """The first four of the outcome of a page that is no copy."""
    if status is SignatureStatus.FINGERPRINTED:
        return "novel", "", None, "no_match"
    return "unchecked", "", None, status.name.lower()


def again(found: Found) -> Found:
    """What the page turned out to be, for the page submitted again."""
    verdict, other, score, reason, found_by, _ = found.outcome
    if found.indexed and verdict == "novel":
        reason = "first_attempt"
    return found._replace(outcome=(verdict, other, score, reason, found_by, False))


def id_of(signatures: Signatures, index: int) -> PageId:
    """The id of a page."""
    source = signatures.sources[signatures.source[index]]
    return source, int(signatures.partition[index]), int(signatures.offset[index])


def text_of(signatures: Signatures, index: int) -> PageText:
    """What a page is compared by; one without a fingerprint has no prints and no title."""
    prints = signatures.prints[slice(*signatures.prints_bounds[index : index + 2])].tolist()
    titles = signatures.titles[slice(*signatures.titles_bounds[index : index + 2])].tolist()
    return PageText(
        int(signatures.host[index]),
        int(signatures.site[index]),
        int(signatures.feature_count[index]),
        tuple(signatures.sketch[index].tolist()),
        tuple(map(print_of, prints)),
        frozenset(titles),
    )


def mixed(value: int, host: int) -> int:
    """A hash of 56 bits of a page, mixed with its host (stream/sign/schemes/probes.py)."""
    for word, factor in ((host, 0xBF58476D1CE4E5B9), (host >> 8, 0x94D049BB133111EB)):
        value = (value ^ word) * factor % 2**56
        value ^= value >> 28
    return value


@dataclass(frozen=True)
class KeysOfPages:
    """The keys of the default scheme.

    minima_cap: what a bucket of minima or of a title takes
    """

    minima_cap: int = 16
    print_cap: int = 4

    def __call__(self, signatures: Signatures, index: int) -> list[Key]:
        """The keys of a page, one by one."""
        status = SignatureStatus(int(signatures.status[index]))
        if status in MATCHING_NOTHING:
            return []
        body = digest_key(signatures, index, "digest", KeyKind.BODY)
        if status is not SignatureStatus.FINGERPRINTED:
            return [body]
        text = text_of(signatures, index)
        features = signatures.features[slice(*signatures.features_bounds[index : index + 2])].tolist()
        plain = [Key(("minima", one), 0, 0, False, KeyKind.MINIMA, self.minima_cap) for one in features]
        words = tuple(sorted(text.titles))
        title = [Key(("title", text.host, words), 0, 0, False, KeyKind.TITLE, self.minima_cap)] if words else []
        first = 6 if text.length < 150 else 4 if text.length < 300 else 2
        prints = [
            Key(("print", text.host, one.identity), 0, 0, False, KeyKind.PRINTS, self.print_cap)
            for one in sorted(text.prints, key=lambda one: (-(one.stored % 16 // 2), mixed(one.identity, text.host)))
        ]
        return [body, *plain, *title, *prints[:first]]
