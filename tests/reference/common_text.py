"""Blocks that stand on several hosts under different titles. Reference for stream/judge/by_host/common_text.py."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.reference.packed_text import Block, PageText

WINDOWS, WINDOW = 2**15, 8
LEAST_WORDS, LEAST_HOSTS, NOTICE_BITS = 8, 3, 12
LEAST_PHRASED, SMALLEST = 20, 3
_FACTOR = 0x9E3779B97F4A7C15


@dataclass
class Shown:
    """A block with the sketches of the hosts and of the headlines that showed it: sets of bit numbers below 16."""

    key: int
    hosts: set[int] = field(default_factory=set)
    headlines: set[int] = field(default_factory=set)

    @property
    def how_common(self) -> int:
        """1 if several hosts showed it under several headlines, 2 if many did under many, otherwise 0."""
        bits = min(len(self.hosts), len(self.headlines))
        return (bits >= LEAST_HOSTS) + (bits >= NOTICE_BITS)


@dataclass
class CommonText:
    """windows: the blocks of each window, the one that was seen last first"""

    windows: dict[int, list[Shown]] = field(default_factory=dict)

    def look_up(self, page: PageText, learns: bool = True) -> PageText:
        """The page with its common text, as far as earlier pages show. learns: whether the page counts then"""
        common = []
        for block in page.blocks:
            if block.words < LEAST_WORDS or block.identity == 0:
                common.append(0)
                continue
            how_common = 0
            for identity in identities_of(block, page.hashes_in(len(common))):
                window, key = window_of(identity), key_of(identity)
                shown = next((one for one in self.windows.get(window, []) if one.key == key), None)
                how_common = max(how_common, 0 if shown is None else shown.how_common)
                if learns:
                    self._count(window, shown or Shown(key), page)
            common.append(how_common)
        return page._replace(common=tuple(common))

    def _count(self, window: int, shown: Shown, page: PageText) -> None:
        blocks = self.windows.setdefault(window, [])
        if shown in blocks:
            blocks.remove(shown)
        elif len(blocks) == WINDOW:
            # The last of those that fewest hosts showed
            blocks.remove(min(reversed(blocks), key=lambda one: len(one.hosts)))
        blocks.insert(0, shown)
        shown.hosts.add(_bit_of(page.host))
        # A page without a title shows its blocks under its host
        shown.headlines.add(_bit_of(page.headline or page.host))

    def slots(self) -> dict[int, int]:
        """The slots in use, as stored: by place."""
        return {
            WINDOW * window + place: one.key << 32 | _sketch(one.hosts) << 16 | _sketch(one.headlines)
            for window, blocks in self.windows.items()
            for place, one in enumerate(blocks)
        }


def identities_of(block: Block, hashes: Sequence[int]) -> list[int]:
    """What a block is counted under: its identity, and its smallest shingles. hashes: of its sampled shingles"""
    if block.words < LEAST_PHRASED or len(hashes) < SMALLEST:
        return [block.identity]
    mixed = 0
    for value in sorted(hashes)[:SMALLEST]:
        mixed = (mixed * _FACTOR ^ value) % 2**64
    return [block.identity, mixed * _FACTOR % 2**64 >> 24 | 1]


def window_of(identity: int) -> int:
    """The window of a block."""
    return (identity * _FACTOR % 2**64 >> 40) % WINDOWS


def key_of(identity: int) -> int:
    """The key of a block in its window."""
    return identity % 2**32 | 1


def _bit_of(value: int) -> int:
    return value * _FACTOR % 2**64 >> 60


def _sketch(bits: set[int]) -> int:
    return sum(1 << bit for bit in bits)
