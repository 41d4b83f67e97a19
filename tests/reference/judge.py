"""The judge: one page after the other, lists and dictionaries, no batches. Reference for spotsieve.stream.judge."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from spotsieve.stream.base.signature import Entry, Signatures, SignatureStatus, page_id_text
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.judge.policy import ANY_KIND, PLAIN, Policy, Preference
from tests.reference.worth import is_better, preference_of

Outcome = tuple[str, str, float | None, str, int, bool]
"""The outcome of a page: verdict, id of the original or of the superseded page, score, reason, kinds of keys that
found it, whether candidates were cut."""


class Key(NamedTuple):
    """One key of a page: a posting passes where its inline bits differ in at most limit places.

    cap: bound of the pages indexed under it, besides the judge's cap
    """

    bucket: object
    inline: int
    limit: int
    decisive: bool
    kind: KeyKind
    cap: int = 10**9


class Pair(NamedTuple):
    """A page and a candidate (spotsieve.stream.sign.schemes.Confirmations)."""

    accepted: bool
    score: float


class Row(NamedTuple):
    """What is known of a page beside its keys."""

    source: str
    partition: int
    offset: int
    host: int
    sketch: tuple[int, ...]
    preference: float
    address: str


@dataclass
class ObviousJudge:
    """keys_of: the keys of a page  confirm: a page and a candidate  cap: most postings of a bucket
    candidate_limit: most candidates of a page that are confirmed
    policy: longer_by, a copy whose preference is more than this many times the original's supersedes it; inf: the first
    page is kept; worth, the preferences of pages; same_address, kinds of decisive keys under which a page is a copy of
    one with its own URL
    """

    keys_of: Callable[[Signatures, int], list[Key]]
    confirm: Callable[[Row, Row], Pair]
    cap: int
    candidate_limit: int
    policy: Policy = PLAIN
    entries: list[Row] = field(default_factory=list)
    buckets: dict[object, list[tuple[int, int]]] = field(default_factory=dict)
    capped: int = 0

    def judge(self, signatures: Signatures) -> list[Outcome]:
        """-> the outcome of each page, in order."""
        return [self._judge_page(signatures, index) for index in range(len(signatures))]

    def _judge_page(self, signatures: Signatures, index: int) -> Outcome:
        status = SignatureStatus(int(signatures.status[index]))
        judged = status is SignatureStatus.FINGERPRINTED
        novel = ("novel", "no_match") if judged else ("unchecked", reason_without_original(status))
        page, keys = row_of(signatures, index, self.policy.preference), self.keys_of(signatures, index)
        keys = caps_of_status(keys, status)
        number, score, reason, found_by, cut, outgrown, recrawl = self._original(page, keys, status)
        longest = max(outgrown, key=lambda row: row.preference) if outgrown and judged else None
        replaced = page_id_text(*longest[:3]) if longest else ""
        if number is not None:
            original = self.entries[number]
            if original[:3] == page[:3]:
                again = "first_attempt" if judged else novel[1]
                return novel[0], replaced, None, again, 0, cut
            return "duplicate", page_id_text(*original[:3]), score, reason, int(found_by), cut
        open_keys = [key for key in keys if len(self.buckets.get(key.bucket, [])) < self.cap]
        self.capped += sum(key.cap > 0 for key in keys) - sum(key.cap > 0 for key in open_keys)
        open_keys = [key for key in open_keys if len(self.buckets.get(key.bucket, [])) < key.cap]
        if open_keys:
            for key in open_keys:
                self.buckets.setdefault(key.bucket, []).append((len(self.entries), key.inline))
            self.entries.append(page)
        if judged:
            replacing = "longer" if self.policy.preference == Preference.LENGTH else "better"
            novel = ("novel", replacing if longest else "recrawl" if recrawl else "no_match")
        return novel[0], replaced, None, novel[1], 0, cut

    def _original(
        self, page: Row, keys: list[Key], status: SignatureStatus
    ) -> tuple[int | None, float, str, KeyKind, bool, list[Row], bool]:
        met: dict[int, list[tuple[Key, int]]] = {}
        for key in keys:
            for number, inline in self.buckets.get(key.bucket, []):
                distance = (key.inline ^ inline).bit_count()
                if distance <= key.limit:
                    met.setdefault(number, []).append((key, distance))
        compared, cut, outgrown, recrawl = 0, False, list[Row](), False
        policy = self.policy
        for number in sorted(met):
            through = [(key, distance) for key, distance in met[number] if key.decisive or not cut]
            found_by = KeyKind(0)
            for key, _ in through:
                found_by |= key.kind
            candidate = self.entries[number]
            better = is_better(page.preference, candidate.preference, status, policy.preference, policy.longer_by)
            same = bool(page.address) and page.address == candidate.address and page[:3] != candidate[:3]
            decisive = {key.kind: distance for key, distance in through if key.decisive}
            if decisive:
                reason = "exact" if KeyKind.BODY in decisive else "same_text" if KeyKind.TEXT in decisive else "near"
                if policy.preference == Preference.LENGTH:
                    settled = reason == "exact"
                else:
                    settled = same and policy.same_url != ANY_KIND
                if same and not any(kind & policy.same_url for kind in decisive):
                    recrawl = True
                elif not better or settled:
                    return number, 1 - min(decisive.values()) / 64, reason, found_by, cut, outgrown, recrawl
                else:
                    outgrown.append(candidate)
            elif compared < self.candidate_limit:
                compared += 1
                pair = self.confirm(page, candidate)
                if pair.accepted and same and policy.same_url != ANY_KIND:
                    recrawl = True
                elif pair.accepted and not better:
                    return number, pair.score, "near", found_by, False, outgrown, recrawl
                elif pair.accepted:
                    outgrown.append(candidate)
            else:
                cut = True
        return None, 0.0, "", KeyKind(0), cut, outgrown, recrawl


def reason_without_original(status: SignatureStatus) -> str:
    """The reason of a page that is not judged, or is partial, and is no copy."""
    return "incomplete" if status is SignatureStatus.PARTIAL else status.name.lower()


def caps_of_status(keys: list[Key], status: SignatureStatus) -> list[Key]:
    """The keys of a page. A partial page is indexed under its digest only."""
    if status is not SignatureStatus.PARTIAL:
        return keys
    return [key if key.kind is KeyKind.BODY else key._replace(cap=0) for key in keys]


def row_of(signatures: Signatures, index: int, preference: int) -> Row:
    """A page without its keys. preference: what it is worth (Worth)"""
    return Row(
        signatures.sources[signatures.source[index]],
        int(signatures.partition[index]),
        int(signatures.offset[index]),
        int(signatures.host[index]),
        tuple(signatures.sketch[index].tolist()),
        preference_of(signatures, index, preference),
        signatures.urls[index].decode().partition("#")[0],
    )


def digest_key(signatures: Signatures, index: int, column: str, kind: KeyKind) -> Key:
    """The key of a digest: 56 bits choose the bucket, the other word must be equal."""
    low, high = getattr(signatures, column)[index].tolist()
    return Key((kind, low % 2**56), high, 0, True, kind)


def original_id(entry: Entry | None) -> str:
    """The page id of an original as the reference implementation writes it."""
    return page_id_text(entry.source, entry.partition, entry.offset) if entry else ""
