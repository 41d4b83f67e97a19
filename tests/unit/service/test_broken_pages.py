"""Pages that break signing or judging are found among the others, and what is kept of them is bounded."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from aiokafka.structs import ConsumerRecord

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.errors import StateError, isolate
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures, SignatureStatus
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.judge import judge, judge_isolated
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.pages import poison_pages
from spotsieve.stream.service.pages.microbatch import MicroBatch, PageFault, sign, sign_pages
from spotsieve.stream.service.pages.poison_pages import PoisonPageFolder
from spotsieve.stream.sign.intake import Decoder, Message
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.pages.crawls import html_of

SCHEME = scheme_of(Settings().scheme)
NUMBER = 11


def page_of(number: int) -> Page:
    return Page("pages", 0, number, f"https://a.example/{number}", html_of(number).encode(), True, 0)


def signatures_of(number: int) -> Signatures:
    return SCHEME.sign([page_of(n) for n in range(number)])


class Defective:
    """A scheme whose sign() breaks where all of some pages are signed together."""

    def __init__(self, *sets: set[int]) -> None:
        self._sets = sets

    def sign(self, pages: list[Page]) -> list[int]:
        numbers = [page.offset for page in pages]
        if any(breaking <= set(numbers) for breaking in self._sets):
            raise RuntimeError("a defect")
        return numbers


@pytest.mark.parametrize(
    ("sets", "broken"),
    [([], set()), ([{4}], {4}), ([{0}, {5}, {10}], {0, 5, 10}), ([{2, 9}], set(range(NUMBER))), ([{1}, {2, 9}], None)],
)
def test_pages_that_break_signing_are_spared_and_the_others_signed(
    sets: list[set[int]], broken: set[int] | None
) -> None:
    pages = {n: page_of(n) for n in range(NUMBER)}
    signed, found = sign_pages(pages, cast("Scheme", Defective(*sets)))
    left: Any = signed or []
    assert sorted([*left, *found]) == list(range(NUMBER)), "each page is signed or spared"
    if broken is not None:
        assert found.keys() == broken
    assert all(each.step == "sign" for each in found.values())


@pytest.mark.parametrize(
    ("sets", "broken"), [([], set()), ([{4}], {4}), ([{0}, {10}], {0, 10}), ([{2, 9}], set(range(NUMBER)))]
)
def test_pages_that_break_judging_are_unchecked_and_not_filed_and_the_others_judged(
    sets: list[set[int]], broken: set[int]
) -> None:
    state, signatures = memory_state(), signatures_of(NUMBER)

    def defective(part: Signatures) -> Any:
        living = set(part.offset[part.status != SignatureStatus.EMPTY].tolist())
        if any(breaking <= living for breaking in sets):
            raise RuntimeError("a defect")
        return judge(part, SCHEME, state, 256, 256)

    verdicts, index_update, found = judge_isolated(defective, signatures)
    assert found.keys() == broken
    excluded = np.isin(np.arange(NUMBER), list(broken))
    assert set(verdicts.reason[excluded].tolist()) <= {Reason.INTERNAL_ERROR}
    assert set(verdicts.kind[excluded].tolist()) <= {Kind.UNCHECKED}
    assert index_update.pages.tolist() == np.flatnonzero(~excluded).tolist()
    assert set(verdicts.kind[~excluded].tolist()) <= {Kind.NOVEL}


ENVIRONMENT = pytest.mark.parametrize("error", [StateError("state", "is gone"), MemoryError(), OSError("disk")])


class Failing:
    """A decoder and a scheme that fail once, as on a machine that lacks memory for a moment."""

    ranks = False

    def __init__(self, step: str, error: Exception) -> None:
        self._step, self._error = step, error
        self._failed = False

    def decode(self, message: Message) -> Page:
        self._fail("decode")
        return page_of(message.offset)

    def sign(self, pages: list[Page]) -> Signatures:
        self._fail("sign")
        return SCHEME.sign(pages)

    def _fail(self, step: str) -> None:
        if step == self._step and not self._failed:
            self._failed = True
            raise self._error


@ENVIRONMENT
@pytest.mark.parametrize("step", ["decode", "sign"])
def test_environment_errors_in_decoding_and_signing_mark_no_page(step: str, error: Exception) -> None:
    messages = [ConsumerRecord("pages", 0, n, 0, 0, None, b"{}", None, 0, 2, ()) for n in range(NUMBER)]
    batch, failing = MicroBatch(messages, []), Failing(step, error)
    with pytest.raises(type(error)):
        sign(batch, cast("Decoder", failing), cast("Scheme", failing))
    assert not batch.faults
    sign(batch, cast("Decoder", failing), cast("Scheme", failing))
    assert (batch.rows.tolist(), batch.faults) == (list(range(NUMBER)), {}), "the worker that restarts signs every page"


@ENVIRONMENT
def test_environment_errors_in_judging_mark_no_page(error: Exception) -> None:
    def failing(_: Signatures) -> Any:
        raise error

    with pytest.raises(type(error)):
        judge_isolated(failing, signatures_of(2))


@ENVIRONMENT
def test_environment_errors_during_the_isolation_mark_no_page(error: Exception) -> None:
    def failing(rows: Collection[int]) -> None:
        raise error if rows else RuntimeError("a defect")

    with pytest.raises(type(error)):
        isolate(failing, 4)


def test_a_defect_that_does_not_come_again_marks_no_page() -> None:
    errors = [RuntimeError("once")]

    def work(_: Collection[int]) -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert isolate(work, 4) == ("done", {})


def test_work_that_breaks_without_any_page_raises_its_error() -> None:
    def work(_: Collection[int]) -> None:
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        isolate(work, 4)


def test_kept_pages_are_bounded_by_number_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poison_pages, "MOST_FILES", 3)
    kept = PoisonPageFolder(tmp_path / "kept", Metrics())

    def tell(offset: int, value: bytes) -> None:
        message = ConsumerRecord("pages", 0, offset, 0, 0, None, value, None, 0, len(value), ())
        kept.report([(message, PageFault("sign", RuntimeError("a defect")))])

    for offset in (1, 2, 2, 3, 4):
        tell(offset, b"{}")
    names = ["pages-0-1.json", "pages-0-2.json", "pages-0-3.json"]
    assert sorted(file.name for file in kept.folder.iterdir()) == names
    assert kept.metrics.registry.get_sample_value("spotsieve_poison_pages_total", {"step": "sign"}) == 5
    monkeypatch.setattr(poison_pages, "MOST_FILES", 100)
    monkeypatch.setattr(poison_pages, "MOST_BYTES", 10_000)
    tell(5, bytes(20_000))
    assert sorted(file.name for file in kept.folder.iterdir()) == names
