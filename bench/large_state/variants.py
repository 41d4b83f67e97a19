"""The variants that are compared: one changed option each, on copies of one small state."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.large_state.filling import fill
from bench.large_state.judging import JudgingCosts, judge_on
from bench.speed.index_load import HOST_PAGES, CandidateLoad
from spotsieve.state.store.rocks_options import TUNING, Tuning
from spotsieve.stream.base.settings.model import IndexSettings

FILTER_BYTES = 18
"""Bytes of filters and indexes per page, from docs/measured/index-memory.md."""
OLD_SHARE, MOST_OLD = 10, 200_000
"""One in this many pages of a state is copied later; and the upper bound of their number."""
DIRECT = TUNING._replace(direct=True)


@dataclass(frozen=True, slots=True)
class Variant:
    """One changed option. refill: the option changes the table files  cache: MiB per MiB of filters and indexes

    write_buffer: factor of the run's write buffer
    """

    name: str
    tuning: Tuning = DIRECT
    refill: bool = False
    cache: float = 1.5
    write_buffer: float = 1.0

    def settings(self, pages: int, buffer_mb: int) -> IndexSettings:
        """The settings for a state of `pages` pages and write buffers of `buffer_mb`."""
        cache_mb = max(8, round(self.cache * pages * FILTER_BYTES / 2**20))
        return IndexSettings(cache_mb=cache_mb, write_buffer_mb=max(1, round(self.write_buffer * buffer_mb)))


DEFAULTS = Variant("defaults, direct reads")
HALF_CACHE = Variant("cache for half of the filters", cache=0.5)
LARGE = (DEFAULTS, HALF_CACHE)
"""The variants for the large state, which is filled once."""
VARIANTS = (
    DEFAULTS,
    Variant("reads through the page cache", TUNING),
    HALF_CACHE,
    Variant("cache for three times the filters", cache=3.0),
    Variant("write buffer a quarter", write_buffer=0.25),
    Variant("write buffer four times", write_buffer=4),
    Variant("compaction at 4 files of level 0", DIRECT._replace(level_zero_files=4)),
    Variant("compaction at 16 files of level 0", DIRECT._replace(level_zero_files=16)),
    Variant("universal compaction", DIRECT._replace(universal=True)),
    Variant("16 MiB/s for flushes and compactions", DIRECT._replace(rate_mb=16)),
    Variant("filters of 7 bits a key", DIRECT._replace(filter_bits=7), refill=True),
    Variant("filters of 14 bits a key", DIRECT._replace(filter_bits=14), refill=True),
    Variant("filters and indexes whole, beside the cache", DIRECT._replace(filters="beside"), refill=True),
    Variant("blocks of 2 KiB", DIRECT._replace(block_bytes=2048), refill=True),
    Variant("blocks of 16 KiB", DIRECT._replace(block_bytes=16384), refill=True),
    Variant("last level not compressed", DIRECT._replace(last_compressed=False), refill=True),
)


@dataclass(frozen=True, slots=True)
class LargeStatePlan:
    """Sizes of a comparison. pages: of the state  judged: pages  batch: pages of a record  buffer_mb: write buffer"""

    pages: int
    judged: int
    batch: int
    buffer_mb: int

    def load(self) -> tuple[CandidateLoad, int]:
        """The pages that are copied later, followed by those that are judged; and the number of the former."""
        old = min(MOST_OLD, max(1, self.pages // OLD_SHARE))
        hosts = max(1, self.pages // HOST_PAGES)
        dice = np.random.default_rng(self.pages)
        return CandidateLoad(old + self.judged, dice, old=old, hosts=hosts), old


def compare(
    scratch: Path, plan: LargeStatePlan, variants: Sequence[Variant] = VARIANTS
) -> Iterator[tuple[Variant, JudgingCosts]]:
    """Judge the same records under each variant, over the same state."""
    if not variants:
        return
    pages, (load, old), filled = plan.pages, plan.load(), scratch / "filled"
    fill(filled, pages, load, old, TUNING)
    for variant in variants:
        used = scratch / "used"
        if variant.refill:
            fill(used, pages, load, old, variant.tuning)
        else:
            copy_state(filled, used)
        settings = variant.settings(pages, plan.buffer_mb)
        yield variant, judge_on(used, load, old, plan.batch, settings, variant.tuning)
        shutil.rmtree(used)
    shutil.rmtree(filled)


def copy_state(source: Path, target: Path) -> None:
    """Copy a filled state that no process has open, without the bytes of its table files."""
    shutil.copytree(source, target, copy_function=_link_tables)


def _link_tables(source: str, target: str) -> None:
    """Copy a file. Table files never change, so they are only linked."""
    if source.endswith(".sst"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
