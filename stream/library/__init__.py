"""The library: the engine of the filter for programs that have pages in hand, in memory or over a state directory."""

from spotsieve.stream.library.deduplicator import Deduplicator
from spotsieve.stream.library.given_pages import CrawledPage
from spotsieve.stream.library.verdicts import Original, Verdict

__all__ = ["CrawledPage", "Deduplicator", "Original", "Verdict"]
