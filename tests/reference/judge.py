"""The obvious judge: one page after the other, lists and dictionaries, no batches. Twin of stream.judge."""

from dataclasses import dataclass, field

from stream.signature import Entry, Signatures, Status, page_id_text


@dataclass
class ObviousJudge:
    """masks: the tables' masks  k: most differing bits  cap: most postings of a bucket."""

    masks: tuple[int, ...]
    k: int
    cap: int
    entries: list[tuple[str, int, int]] = field(default_factory=list)
    buckets: dict[tuple[object, ...], list[tuple[int, int]]] = field(default_factory=dict)
    capped: int = 0

    def judge(self, signatures: Signatures) -> list[tuple[str, str, float | None, str]]:
        """-> (verdict, id of the original, score, reason) of each page, in order."""
        return [self._judge_page(signatures, index) for index in range(len(signatures))]

    def _judge_page(self, signatures: Signatures, index: int) -> tuple[str, str, float | None, str]:
        status = Status(int(signatures.status[index]))
        source = signatures.sources[signatures.source[index]]
        page = (source, int(signatures.partition[index]), int(signatures.offset[index]))
        if status is Status.EMPTY:
            return "unchecked", "", None, "empty"
        if status is Status.FINGERPRINTED:
            inline, limit = int(signatures.fingerprint[index]), self.k
            keys: list[tuple[object, ...]] = [(table, inline & mask) for table, mask in enumerate(self.masks)]
        else:
            inline, limit = int(signatures.digest[index, 1]), 0
            keys = [("digest", int(signatures.digest[index, 0]) % 2**56)]
        novel = ("novel", "no_match") if status is Status.FINGERPRINTED else ("unchecked", status.name.lower())
        accepted = [
            (number, (inline ^ other).bit_count())
            for key in keys
            for number, other in self.buckets.get(key, [])
            if (inline ^ other).bit_count() <= limit
        ]
        if accepted:
            number, distance = min(accepted)
            if self.entries[number] == page:
                return novel[0], "", None, "first_attempt" if status is Status.FINGERPRINTED else novel[1]
            reason = "near" if status is Status.FINGERPRINTED else "exact"
            return "duplicate", page_id_text(*self.entries[number]), 1 - distance / 64, reason
        open_keys = [key for key in keys if len(self.buckets.get(key, [])) < self.cap]
        self.capped += len(keys) - len(open_keys)
        if open_keys:
            for key in open_keys:
                self.buckets.setdefault(key, []).append((len(self.entries), inline))
            self.entries.append(page)
        return novel[0], "", None, novel[1]


def original_id(entry: Entry | None) -> str:
    """The page id of an original as the twin writes it."""
    return page_id_text(entry.source, entry.partition, entry.offset) if entry else ""
