"""Verdicts do not depend on the salt of block identities, so a log may draw any."""

import dataclasses
import functools
from collections.abc import Sequence
from itertools import chain, zip_longest

import numpy as np
import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.judge import judge
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.families import FAMILIES, family_pages
from tests.fixtures.pages.generated import outcomes_of
from tests.reference.judge import Outcome

SALTS = [int(salt) for salt in np.random.default_rng(40).integers(1, 2**64, 20, np.uint64)]
SIZE, RECORD = 0.12, 100


def salted(salt: int) -> SpotsieveScheme:
    """The default scheme with this salt."""
    scheme = SpotsieveScheme(SpotsieveSettings())
    scheme.sieve = dataclasses.replace(scheme.sieve, salt=salt)
    return scheme


@functools.cache
def pages() -> list[Page]:
    """Pages of all families, in turn."""
    families = [family_pages(name, size=SIZE)[:120] for name in FAMILIES]
    mixed = [page for page in chain.from_iterable(zip_longest(*families)) if page]
    return [Page("pages", 0, number, page.url, page.body.encode(), True, 0) for number, page in enumerate(mixed)]


def outcomes_with(salt: int, pages: Sequence[Page]) -> list[Outcome]:
    """The outcomes of all pages."""
    scheme, state, outcomes = salted(salt), memory_state(), list[Outcome]()
    for first in range(0, len(pages), RECORD):
        verdicts, index_update = judge(scheme.sign(pages[first : first + RECORD]), scheme, state, 256, 64)
        state.file(index_update, state.position + 1, 0)
        outcomes += outcomes_of(verdicts)
    return outcomes


@functools.cache
def unsalted() -> list[Outcome]:
    """The outcomes without a salt."""
    return outcomes_with(0, pages())


def test_the_pages_have_verdicts_of_every_kind() -> None:
    dropped = sum(outcome[0] == Kind.DUPLICATE.name.lower() for outcome in unsalted())
    assert 0.1 * len(pages()) < dropped < 0.8 * len(pages())


@pytest.mark.parametrize("salt", SALTS)
def test_verdicts_do_not_depend_on_the_salt(salt: int) -> None:
    found = outcomes_with(salt, pages())
    assert [
        (number, one, other) for number, (one, other) in enumerate(zip(found, unsalted(), strict=True)) if one != other
    ] == []


def test_another_salt_gives_blocks_other_identities_and_changes_nothing_else() -> None:
    one, other = (salted(salt).sign(pages()[:50]) for salt in (0, SALTS[0]))
    assert not set((one.blocks >> np.uint64(24)).tolist()) & set((other.blocks >> np.uint64(24)).tolist()) - {0}
    low = np.uint64(0xFFFF)
    assert (one.blocks & low).tolist() == (other.blocks & low).tolist()
    for name in ("samples", "titles", "features", "host", "feature_count"):
        assert (getattr(one, name) == getattr(other, name)).all(), name
