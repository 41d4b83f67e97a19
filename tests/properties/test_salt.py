"""Verdicts do not depend on the salt of block identities, so a log may draw any.

Compared are whole runs: in memory, over a state directory that is closed and opened again, and by shards.
"""

import functools
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from spotsieve.state.format.meta import LogIdentity, draw_log_identity
from spotsieve.state.log.local import LocalLog
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.verdict import Kind, concatenate
from spotsieve.stream.judge import judge
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import salted, scheme_in_scope
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.families import FAMILIES, family_pages
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.generated import outcomes_of
from tests.fixtures.states.sharded_logs import assert_verdicts_equal
from tests.fixtures.states.shards import OneProcess, Shards
from tests.reference.judge import Outcome

SALTS = [int(salt) for salt in np.random.default_rng(40).integers(1, 2**64, 20, np.uint64)]
SIZE, RECORD = 0.12, 100


def default_scheme(salt: int) -> Scheme:
    """The default scheme with this salt."""
    return salted(SpotsieveScheme(SpotsieveSettings()), salt)


@functools.cache
def pages() -> list[Page]:
    """Pages of all families, in turn."""
    families = [family_pages(name, size=SIZE)[:120] for name in FAMILIES]
    mixed = [page for page in chain.from_iterable(zip_longest(*families)) if page]
    return [Page("pages", 0, number, page.url, page.body.encode(), True, 0) for number, page in enumerate(mixed)]


def outcomes_with(salt: int, pages: Sequence[Page]) -> list[Outcome]:
    """The outcomes of all pages."""
    scheme, state, outcomes = default_scheme(salt), memory_state(), list[Outcome]()
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


@pytest.mark.parametrize("salt", mostly_long(SALTS, 6))
def test_verdicts_do_not_depend_on_the_salt(salt: int) -> None:
    found = outcomes_with(salt, pages())
    assert [
        (number, one, other) for number, (one, other) in enumerate(zip(found, unsalted(), strict=True)) if one != other
    ] == []


def test_another_salt_gives_blocks_other_identities_and_changes_nothing_else() -> None:
    one, other = (default_scheme(salt).sign(pages()[:50]) for salt in (0, SALTS[0]))
    assert not set((one.blocks >> np.uint64(24)).tolist()) & set((other.blocks >> np.uint64(24)).tolist()) - {0}
    below_identity = np.uint64(0xFFFFFF)
    assert (one.blocks & below_identity).tolist() == (other.blocks & below_identity).tolist()
    assert (one.blocks >> np.uint64(16) & np.uint64(0xFF)).any(), "no block has numbers"
    for name in ("samples", "titles", "features", "host", "feature_count"):
        assert (getattr(one, name) == getattr(other, name)).all(), name


RUN_PAGES = 240


def run_on_disk(folder: Path, salt: int) -> tuple[list[Outcome], list[LogIdentity | None]]:
    """The outcomes of a run that stops in its middle and goes on, and the log of the state in both halves."""
    settings, outcomes, logs = Settings(), list[Outcome](), list[LogIdentity | None]()
    with disk_state(folder, verdict_settings_text(settings), LocalLog.name, settings.index) as state:
        state.adopt(draw_log_identity(salt))
    half = RUN_PAGES // 2
    for start in (0, half):
        with LocalEngine(folder, settings, scheme_in_scope(settings)) as local:
            logs.append(local.engine.state.identity.log_identity)
            for first in range(start, start + half, 40):
                for _, verdicts in local.judge(pages()[first : first + 40]):
                    outcomes += outcomes_of(verdicts)
    return outcomes, logs


@pytest.mark.parametrize("salt", mostly_long(SALTS, 6))
def test_whole_runs_over_a_state_directory_give_the_same_verdicts(tmp_path: Path, salt: int) -> None:
    found, (first, second) = run_on_disk(tmp_path, salt)
    assert found == unsalted_run()
    assert first is not None
    assert first == second, "the second half goes on with the log"
    assert first.salt == salt


@functools.cache
def unsalted_run() -> list[Outcome]:
    """The outcomes of the same run without a salt."""
    with TemporaryDirectory() as folder:
        return run_on_disk(Path(folder), 0)[0]


@pytest.mark.parametrize("salt", SALTS[:3])
def test_shards_give_the_same_verdicts_with_any_salt(salt: int) -> None:
    scheme = salted(scheme_in_scope(Settings()), salt)
    one = OneProcess(scheme, IndexSettings())
    for first in range(0, RUN_PAGES, 40):
        one.sign(scheme.sign(pages()[first : first + 40]))
    found = Shards(one, 3).apply(one.log, [40])
    assert_verdicts_equal(found, concatenate(one.verdicts))
    assert outcomes_of(found) == unsalted_run()
