"""Reads web archives (WARC, WACZ, ARC), and selects the records that belong to emitted pages."""

from spotsieve.stream.files.warc.records import (
    capture_of,
    closed,
    is_about_page,
    is_revisit,
    read_record_fields,
    split_warc,
)

__all__ = ["capture_of", "closed", "is_about_page", "is_revisit", "read_record_fields", "split_warc"]
