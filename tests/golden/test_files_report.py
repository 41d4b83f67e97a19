"""The lines of the outputs, byte for byte: other programs read them."""

import numpy as np

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.signature import Entry
from spotsieve.stream.base.verdict import Kind, Reason, Verdicts
from spotsieve.stream.files.file_format import Record
from spotsieve.stream.files.verdict_lines import rejected_line, verdict_line

PAGES = [
    Page("/crawl/a.jsonl", 0, 7, "http://a/ä\n", b"", True, 0, "n7"),
    Page("/crawl/a.jsonl", 0, 8, "http://a/8", b"", True, 0),
    Page("/crawl/a.jsonl", 0, 9, "", b"", True, 0),
    Page("/crawl/a.jsonl", 0, 10, "http://a/10", b"", True, 0),
]
VERDICTS = Verdicts(
    np.array([Kind.NOVEL, Kind.DUPLICATE, Kind.UNCHECKED, Kind.NOVEL], np.uint8),
    np.array([Reason.NO_MATCH, Reason.NEAR, Reason.TOO_FEW_FEATURES, Reason.LONGER], np.uint8),
    np.array([np.nan, 0.953125, np.nan, np.nan]),
    (None, Entry("/crawl/b.jsonl", 0, 3, 0, "http://b/3", ""), None, None),
    np.zeros(4, np.int64),
    np.zeros(4, np.uint8),
    np.zeros(4, np.bool_),
    (None, None, None, Entry("/crawl/b.jsonl", 0, 3, 0, "http://b/3", "n3")),
)


def test_verdict_lines_keep_their_bytes() -> None:
    assert [verdict_line(page, VERDICTS, row, "chain").decode() for row, page in enumerate(PAGES)] == [
        (
            '{"id":"n7","verdict":"novel","duplicate_of":null,"score":null,"scheme":"chain","reason":"no_match",'
            '"url":"http://a/ä\\n","original_url":null}'
        ),
        (
            '{"id":"/crawl/a.jsonl/0/8","verdict":"duplicate","duplicate_of":"/crawl/b.jsonl/0/3","score":0.953125,'
            '"scheme":"chain","reason":"near","url":"http://a/8","original_url":"http://b/3"}'
        ),
        (
            '{"id":"/crawl/a.jsonl/0/9","verdict":"unchecked","duplicate_of":null,"score":null,"scheme":"chain",'
            '"reason":"too_few_features","url":"","original_url":null}'
        ),
        (
            '{"id":"/crawl/a.jsonl/0/10","verdict":"novel","duplicate_of":null,"score":null,"scheme":"chain",'
            '"reason":"longer","url":"http://a/10","original_url":null,"replaces":"n3","replaced_url":"http://b/3"}'
        ),
    ]


def test_rejected_lines_keep_their_bytes() -> None:
    error = PageError(RejectReason.NO_BODY, "body", "must hold the page's body", None, "correct the crawler")
    assert rejected_line("a.jsonl", Record(4, b'{"url": "\xc3\xa4"}'), error).decode() == (
        '{"id":"a.jsonl/0/4","reason":"no_body","error":"body must hold the page\'s body; correct the crawler",'
        '"record":"{\\"url\\": \\"ä\\"}"}'
    )
    assert rejected_line("a.jsonl", Record(5, b"\xff\x00"), error).decode().endswith('"record_base64":"/wA="}')
