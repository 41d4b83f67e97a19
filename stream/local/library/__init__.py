"""The library: the engine of the filter for Python programs, in memory or over a state directory."""

from spotsieve.stream.local.library.deduplicator import (
    Deduplicator,
    DuplicateVerdict,
    EmittedVerdict,
    Original,
    Verdict,
)
from spotsieve.stream.local.library.pages import CrawledPage

__all__ = ["CrawledPage", "Deduplicator", "DuplicateVerdict", "EmittedVerdict", "Original", "Verdict"]
