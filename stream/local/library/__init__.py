"""The library: the engine of the filter for Python programs, in memory or over a state directory."""

from spotsieve.stream.local.library.deduplicator import (
    Deduplicator,
    DuplicateVerdict,
    EmittedVerdict,
    Original,
    Verdict,
)
from spotsieve.stream.local.library.pages import CrawledPage
from spotsieve.stream.sign.schemes.prepared_pages import ExtractedText

__all__ = ["CrawledPage", "Deduplicator", "DuplicateVerdict", "EmittedVerdict", "ExtractedText", "Original", "Verdict"]
