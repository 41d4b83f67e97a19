"""Plain text that is a message, such as an e-mail or a post: header and signature are no part of its text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spotsieve import Deduplicator
from spotsieve.stream.sign.features.shown_text import paragraphs_in, read_text, words_of
from spotsieve.stream.sign.features.sieve import selected_blocks
from spotsieve.stream.sign.text.batch import MOST_SIGNATURE_LINES, message_span
from tests.fixtures.pages.page_tokens import tokens_of
from tests.fixtures.pages.spotsieve_pages import STORIES
from tests.reference.text import blocks_of, text_of_plain

HEADER = "From: ann@news.example\nSubject: Blue lamps\n"
TEXTS = {
    "a header": (f"{HEADER}Lines: 2\n\nWhere are they?", "where are they"),
    "a header with other fields first": (f"Path: a!b\n{HEADER}\nWhere are they?", "where are they"),
    "names in capitals": ("FROM: ann\nSUBJECT: lamps\n\nWhere?", "where"),
    "folded fields": ("From: ann\nTo: bob,\n\tcarl\nSubject: blue\n lamps\n\nWhere?", "where"),
    "line ends of Windows": ("From: ann\r\nSubject: lamps\r\n\r\nWhere?\r\n-- \r\nAnn\r\n", "where"),
    "the first line of mbox": (f"From ann@news.example Mon Jan 1\n{HEADER}\nWhere?", "where"),
    "an empty message": (f"{HEADER}\n", ""),
    "a signature": (f"{HEADER}\nWhere?\n-- \nAnn\nLondon", "where"),
    "a signature without the blank": (f"{HEADER}\nWhere?\n--\nAnn\n\n", "where"),
    "a quoted signature": (f"{HEADER}\n> Where?\n> -- \n> Ann\nHere", "where ann here"),
    "a line of dashes": (f"{HEADER}\nWhere?\n---\nHere", "where here"),
    "two signatures": (f"{HEADER}\nWhere?\n-- \nAnn\n-- \nThe list", "where ann"),
    "nothing but a signature": (f"{HEADER}\n-- \nAnn", "ann"),
    "a long signature": (f"{HEADER}\nWhere?\n--\n" + "Ann\n" * (MOST_SIGNATURE_LINES + 1), "where" + " ann" * 13),
    "no sender": ("To: ann\nSubject: lamps\n\nWhere?", "to ann subject lamps where"),
    "no subject": ("From: ann\nTo: bob\n\nWhere?", "from ann to bob where"),
    "no empty line": ("From: ann\nSubject: lamps\nWhere?", "from ann subject lamps where"),
    "a line that is no field": (
        "From: ann\nSubject: lamps\nsee there\n\nWhere?",
        "from ann subject lamps see there where",
    ),
    "a name with a blank": ("From: ann\nSubject: a\nmy note: b\n\nc", "from ann subject a my note b c"),
    "text before it": (f"Hello\n{HEADER}\nWhere?", "hello from ann news example subject blue lamps where"),
    "dashes without a header": ("Where?\n-- \nAnn", "where ann"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_a_message_is_without_header_and_signature(name: str) -> None:
    page, words = TEXTS[name][0].encode(), TEXTS[name][1].split()
    assert [word for block in tokens_of(page, 0) for word in block] == words
    assert [word.form for word in words_of(read_text(page, False).text)] == words
    selected = selected_blocks(page, 0)
    paragraphs = paragraphs_in(page, False, selected, [True] * len(selected.ends))
    assert [word.form for paragraph in paragraphs for word in words_of(paragraph)] == words


FIELDS = ("From: a", "from:", "From a", "Subject: b", "subject:c", " folded", "\t", "X:", ":", "X-É: 1", "a b: c")
LINES = ("", "\r", " ", "\x01", "-- ", "--", "--\r", "-- \r", "---", "--x", "text")
PARTS = st.sampled_from(FIELDS + LINES)


def test_a_message_that_is_sent_again_is_a_copy_and_an_answer_is_none() -> None:
    lamps, mills, response = ("\n\n".join(STORIES[story]) for story in (("English", 1), ("English", 2), ("German", 1)))
    quoted = "\n".join(f"> {line}" for line in mills.split("\n"))
    messages = (("ann", lamps), ("bob", lamps), ("carl", mills), ("dora", f"{quoted}\n\n{response}"))
    with Deduplicator() as crawl:
        kinds = [
            crawl.add(
                name,
                f"https://list.example/{name}",
                f"From: {name}@news.example\nSubject: For {name}\n\n{text}\n-- \nWritten by {name} at home",
                content_type="text/plain",
            ).kind
            for name, text in messages
        ]
    assert kinds == ["novel", "duplicate", "novel", "novel"]


@given(st.lists(PARTS, max_size=24).map("\n".join))
@example("From: a\nSubject: b\n")
@example("From: a\nSubject: b\n\r")
@example("From a")
def test_the_text_of_plain_text_is_that_of_the_reference(text: str) -> None:
    page = text.encode()
    first, last = message_span(page)
    assert tokens_of(page, 0) == blocks_of(page, 0)
    assert page[first:last].decode().strip("\n") == text_of_plain(text).strip("\n")
