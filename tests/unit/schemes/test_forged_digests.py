"""A body with the XXH3 of another page's body drops nothing: what decides alone cannot be forged by arithmetic.

The forger is given what XXH3 gives away: every body here has the digest that he wants. The rest distinguishes them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spotsieve.state.log.record import NO_PAGES
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.sign.schemes import Scheme, identity
from spotsieve.stream.sign.schemes.by_url import HostScope
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.pages.small_crawl import HERE, THERE
from tests.fixtures.pages.spotsieve_pages import STORIES, page
from tests.fixtures.states.verdicts import indexed

VICTIM, OTHER = ("<p>" + "<p>".join(texts) for texts in list(STORIES.values())[:2])
NO_TEXT = b"\x89PNG\r\n\x1a\n made by a forger"
SHORT = "<p>two words"
schemes = pytest.mark.parametrize("name", SCHEMES)
scopes = pytest.mark.parametrize("host_alone", [False, True], ids=["global", "host"])


@pytest.fixture(autouse=True)
def forged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every body has one XXH3."""

    def equal(pages: Sequence[Page], _: NDArray[np.uint64] | None = None) -> NDArray[np.uint64]:
        return np.full((len(pages), 2), 0xF0F0F0F0F0F0F0F0, np.uint64)

    monkeypatch.setattr(identity, "digest_bodies", equal)


def scheme_named(name: str, host_alone: bool) -> Scheme:
    scheme = scheme_of(settings_named(name))
    return HostScope(scheme) if host_alone else scheme


def not_text(offset: int, body: bytes, host: str) -> Page:
    return Page("pages", 0, offset, f"https://{host}/{offset}", body, False, 0, judgeable=False)


@schemes
@scopes
def test_pages_of_one_xxh3_are_not_the_same_page(name: str, host_alone: bool) -> None:
    host = HERE if host_alone else THERE
    pages = [
        not_text(0, NO_TEXT, host),
        page(1, HERE, SHORT),
        page(2, HERE, OTHER),
        page(3, HERE, VICTIM),
        page(4, HERE, SHORT + " more"),
        not_text(5, NO_TEXT + b"!", HERE),
    ]
    scheme = scheme_named(name, host_alone)
    assert all(kind is not Kind.DUPLICATE for kind, *_ in indexed(scheme, memory_state(), scheme.sign(pages)))


@schemes
@scopes
def test_pages_of_the_same_bytes_still_are(name: str, host_alone: bool) -> None:
    pages = [
        page(0, HERE, VICTIM),
        page(1, HERE, SHORT),
        not_text(2, NO_TEXT, HERE),
        page(3, HERE, VICTIM),
        page(4, HERE, SHORT),
        not_text(5, NO_TEXT, HERE),
    ]
    scheme = scheme_named(name, host_alone)
    found = indexed(scheme, memory_state(), scheme.sign(pages))
    assert [kind for kind, *_ in found[3:]] == [Kind.DUPLICATE] * 3
    assert [Reason(reason) for _, reason, *_ in found[4:]] == [Reason.EXACT] * 2


@schemes
@scopes
def test_partial_pages_of_one_payload_and_other_texts_are_not_the_same_page(name: str, host_alone: bool) -> None:
    # Such as the bytes of Brotli, and the same bytes without a Content-Encoding.
    texts = enumerate((OTHER, VICTIM, VICTIM))
    pages = [page(offset, HERE, text)._replace(encoded=b"the payload as sent") for offset, text in texts]
    scheme = scheme_named(name, host_alone)
    found = indexed(scheme, memory_state(), scheme.sign(pages))
    assert [kind for kind, *_ in found] == [Kind.UNCHECKED, Kind.UNCHECKED, Kind.DUPLICATE]
    assert Reason(found[2][1]) is Reason.EXACT


@pytest.mark.parametrize(
    "column",
    ["features", "blocks", "samples", "titles", "sketch", "text_digest", "fingerprint", "language", "feature_count"],
)
def test_every_column_that_was_read_of_a_page_is_in_its_digest(column: str) -> None:
    columns: dict[str, NDArray[Any]] = {"feature_count": np.ones(2)} | {
        column: getattr(NO_PAGES, column).dtype.type([1, 2])
    }
    if column in ("features", "blocks", "samples", "titles"):
        columns[f"{column}_bounds"] = np.arange(3)
    if column in ("sketch", "text_digest"):
        columns[column] = np.repeat(columns[column], 2).reshape(2, 2)
    status = np.full(2, SignatureStatus.FINGERPRINTED, np.uint8)
    signatures = identity.make_signatures([page(0, HERE, VICTIM), page(1, HERE, OTHER)], status=status, **columns)
    assert signatures.digest[0].tobytes() != signatures.digest[1].tobytes()
