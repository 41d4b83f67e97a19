"""The blocks of a page as the judge counts them: template text, common text, and the part of the page that decides."""

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.page_text import KEPT, OUTSIDE_SHIFT, WIDE
from spotsieve.stream.judge.by_host.containment import ALL_TEXT, LINK_BLOCK, MAIN_TEXT, TEMPLATE_TEXT
from spotsieve.stream.judge.by_host.distinctive_text import IS_OWN, IS_TEMPLATE

_FIFTEENTHS = 15


class BlockRole(enum.StrEnum):
    """The text that a block belongs to."""

    DISTINCTIVE = "distinctive text"
    TEMPLATE = "template text"
    COMMON = "common text"


@dataclass(frozen=True, slots=True)
class PageBlocks:
    """The b packed blocks of a page (stream/base/page_text.py), by the memory of its host.

    packed: uint64[b]  flags: uint8[b] (IS_OWN, ... of stream/judge/by_host/distinctive_text.py)
    """

    packed: NDArray[np.uint64]
    flags: NDArray[np.uint8]

    @property
    def roles(self) -> list[BlockRole]:
        """The role of each block."""
        kinds = np.where(self.flags & IS_OWN != 0, 0, np.where(self.flags & IS_TEMPLATE != 0, 1, 2))
        members = [*BlockRole]
        return [members[kind] for kind in kinds.tolist()]

    @property
    def wide(self) -> NDArray[np.bool_]:
        """The blocks with long shingles: bool[b]."""
        return self._has(WIDE)

    @property
    def links(self) -> NDArray[np.bool_]:
        """The blocks of links, whose words are never fresh: bool[b]."""
        outside = (self.packed >> np.uint64(OUTSIDE_SHIFT)) & np.uint64(_FIFTEENTHS)
        return np.asarray(outside / _FIFTEENTHS < LINK_BLOCK)

    def in_part(self, part: int) -> NDArray[np.bool_]:
        """The blocks of a part (MAIN_TEXT, ... of stream/judge/by_host/containment.py): bool[b]."""
        kept, own = self._has(KEPT), self.flags & IS_OWN != 0
        if part == MAIN_TEXT:
            return np.asarray(own & kept)
        if part == ALL_TEXT:
            return np.asarray(own)
        if part == TEMPLATE_TEXT:
            return kept if kept.any() else np.ones_like(kept)
        return np.asarray(kept & (self.flags & IS_TEMPLATE == 0))

    def _has(self, bit: Any) -> NDArray[np.bool_]:
        return np.asarray(self.packed & bit != 0)
