"""Reads web archives (WARC, WACZ, ARC) and keeps the records that belong to a page that is let through."""

from spotsieve.stream.files.warc.records import Capture, capture_of, closed, is_revisit, split_warc

__all__ = ["Capture", "capture_of", "closed", "is_revisit", "split_warc"]
