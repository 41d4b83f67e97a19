"""The memory of a host: page counts of blocks and title words. Reference for stream/judge/by_host/memory.py.

Sketches are sets of bit numbers here.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

COUNT_BITS, HOST_BITS = 12, 64
"""The sizes of the sketches of an item and of a host."""
MOST_ITEMS, RARE_ITEMS, MOST_WORDS = 3_072, 768, 128
MOST_REPLACED = 32
LEAST_TEMPLATE = 3
MOST_ERROR = 15
VISITS = set(
    b"sid sesid sessid sessionid session_id phpsessid jsessionid cfid cftoken zenid oscsid xtcsid gclid gclsrc gbraid "
    b"wbraid dclid fbclid msclkid yclid ttclid twclid srsltid igshid mc_cid mc_eid mkt_tok wickedid _ga _gl _hsenc "
    b"_hsmi".split()
)


def linear_count(occupied: int, bits: int) -> float:
    """The number of values that set so many of a sketch's bits, estimated (Whang et al. 1990)."""
    if occupied == bits:
        return 2 * bits * math.log(bits)
    return -bits * math.log1p(-occupied / bits)


def sketch_bit(value: int) -> int:
    """The bit of a URL's or text's hash in a sketch of its host."""
    return value >> 58


@dataclass
class Item:
    """A block or title word. error: the most pages that may have shown it before it was remembered"""

    identity: int
    error: int = 0
    urls: set[int] = field(default_factory=set)
    texts: set[int] = field(default_factory=set)

    @property
    def pages(self) -> int:
        """On how many pages it was seen, by URLs or by texts, whichever are fewer."""
        return math.floor(linear_count(min(len(self.urls), len(self.texts)), COUNT_BITS) + 0.5)

    @property
    def at_most(self) -> int:
        """The number of pages with the error."""
        return self.pages + self.error


@dataclass
class Counts:
    """Items in slots (Space-Saving with a hand).

    rare: the most items beside the recurring ones  most: the most items in all
    hand: the slot where the search for an item to replace goes on  floor: no item was seen on fewer pages
    """

    rare: int
    most: int
    slots: list[Item] = field(default_factory=list)
    hand: int = 0
    floor: int = 0

    def __post_init__(self) -> None:
        self._by_identity = {item.identity: item for item in self.slots}
        self._recurring = {item.identity for item in self.slots if item.pages >= LEAST_TEMPLATE}

    @property
    def room(self) -> int:
        """The most items; there are more where a recurring one has left."""
        return min(self.most, self.rare + len(self._recurring))

    def pages_with(self, identity: int) -> int:
        """On how many pages an item was seen; 0 if it is not remembered."""
        item = self._by_identity.get(identity)
        return item.pages if item else 0

    def __contains__(self, identity: int) -> bool:
        return identity in self._by_identity

    def count(self, identity: int, url: int, text: int) -> None:
        """Count a page for an item. url, text: hashes of the page"""
        if identity not in self._by_identity:
            self._put(identity)
        item = self._by_identity[identity]
        item.urls.add(sketch_bit(url) % COUNT_BITS)
        item.texts.add(sketch_bit(text) % COUNT_BITS)
        if item.pages >= LEAST_TEMPLATE:
            self._recurring.add(identity)

    def _put(self, identity: int) -> None:
        if len(self.slots) < self.room:
            item = Item(identity)
            self.slots.append(item)
        else:
            slot = self._slot_to_replace()
            del self._by_identity[self.slots[slot].identity]
            self._recurring.discard(self.slots[slot].identity)
            item = self.slots[slot] = Item(identity, self.floor)
        self._by_identity[identity] = item

    def _slot_to_replace(self) -> int:
        used = len(self.slots)
        while True:
            around = [(self.hand + turn) % used for turn in range(used)]
            for slot in around:
                if self.slots[slot].at_most <= self.floor:
                    self.hand = (slot + 1) % used
                    return slot
            fewest = min(item.at_most for item in self.slots)
            self.floor = min(fewest, MOST_ERROR)
            if fewest > MOST_ERROR and not self._age(fewest - MOST_ERROR):
                # Every item was seen on many pages: the next of the rarest goes.
                slot = min(around, key=lambda slot: self.slots[slot].at_most)
                self.hand = (slot + 1) % used
                return slot

    def _age(self, pages: int) -> bool:
        """Reduce every error by this many pages; whether any item had one."""
        aged = any(item.error for item in self.slots)
        for item in self.slots:
            item.error = max(0, item.error - pages)
        return aged


@dataclass
class Memory:
    """The memory of a host. last: number of the next entry when the host last learned"""

    urls: set[int] = field(default_factory=set)
    texts: set[int] = field(default_factory=set)
    last: int = 0
    blocks: Counts = field(default_factory=lambda: Counts(RARE_ITEMS, MOST_ITEMS))
    words: Counts = field(default_factory=lambda: Counts(MOST_WORDS, MOST_WORDS))

    @property
    def pages(self) -> float:
        """The number of pages of the host, by URLs or by texts, whichever are fewer.

        At most LEAST_TEMPLATE while a block on all of them would not be template text.
        """
        pages = linear_count(min(len(self.urls), len(self.texts)), HOST_BITS)
        everywhere = Item(
            0, urls={bit % COUNT_BITS for bit in self.urls}, texts={bit % COUNT_BITS for bit in self.texts}
        )
        return pages if everywhere.pages >= LEAST_TEMPLATE else min(pages, LEAST_TEMPLATE)

    def learn(self, url: int, text: int, blocks: Iterable[int], words: Iterable[int], last: int) -> None:
        """Count a page. url, text: its hashes  blocks: identities of 40 bits, in page order"""
        self.urls.add(sketch_bit(url))
        self.texts.add(sketch_bit(text))
        self._learn_blocks(url, text, [item_of(identity) for identity in blocks if identity])
        for word in words:
            self.words.count(word, url, text)
        self.last = last

    def _learn_blocks(self, url: int, text: int, items: list[int]) -> None:
        """Count a page for its blocks. Of those that are not remembered, some must do if there are many."""
        chosen = max(self.blocks.room - len(self.blocks.slots), MOST_REPLACED)
        new = sum(item not in self.blocks for item in items)
        skipped, rank = text % new if new > chosen else 0, 0
        for item in items:
            if new > chosen and item not in self.blocks:
                turn, rank = (rank - skipped) % new, rank + 1
                if turn >= chosen:
                    continue
            self.blocks.count(item, url, text)

    def template_limit(self, share: float) -> float:
        """The number of pages from which a block is template text."""
        return max(3.0, min(10.0, share * self.pages))

    @property
    def common_limit(self) -> float:
        """The most pages of a title word that is not common."""
        return min(max(2.0, 0.3 * self.pages), 20.0)


def item_of(identity: int) -> int:
    """The identity of a block in a memory: the highest 28 of 40 bits."""
    return identity >> 12


def hash_of_url(url: bytes) -> int:
    """The hash by which the URL of a page is counted: FNV-1a of the URL without what differs by visit, mixed."""
    value = 0xCBF29CE484222325
    for byte in without_visit(url):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return _mixed(value)


def without_visit(url: bytes) -> bytes:
    """The URL without fragment, session ids and tracking tags (stream/base/urls.py)."""
    url = url.split(b"#")[0]
    first, *parameters = re.split(rb"(?=[?&;])", url)
    kept = [one for one in parameters if not names_visit(*one[1:].partition(b"=")[:2])]
    if b"=" in url and not any(one.startswith(b"?") for one in kept):
        place = next((place for place, one in enumerate(kept) if one.startswith(b"&")), None)
        if place is not None:
            kept[place] = b"?" + kept[place][1:]
    return first + b"".join(kept)


def names_visit(name: bytes, equals: bytes) -> bool:
    """Whether a parameter has a value, and the name of a session id or of a tracking tag."""
    name = name.lower()
    is_tag = name.startswith(b"utm_") and len(name) > 4 and not set(name) - set(b"abcdefghijklmnopqrstuvwxyz_")
    is_asp = name.startswith(b"aspsessionid") and not set(name) - set(b"abcdefghijklmnopqrstuvwxyz")
    return equals == b"=" and (name in VISITS or is_tag or is_asp)


def hash_of_text(hashes: Iterable[int]) -> int:
    """The hash by which the text of a page is counted. hashes: of its sampled shingles"""
    return _mixed(sum((one + 1) * 0x9E3779B97F4A7C15 for one in hashes) % 2**64)


def _mixed(value: int) -> int:
    value = (value ^ value >> 32) * 0x9E3779B97F4A7C15 % 2**64
    return value ^ value >> 29
