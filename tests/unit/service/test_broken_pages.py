"""Pages that break signing or judging are found among the others, and what is kept of them is bounded."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from aiokafka.structs import ConsumerRecord

from spotsieve.state.store.memory import MemoryState
from spotsieve.stream.errors import StateError
from spotsieve.stream.judge import judge
from spotsieve.stream.judge.sparing import judge_sparing
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.schemes.registry import scheme_of
from spotsieve.stream.service.pages import broken_pages
from spotsieve.stream.service.pages.broken_pages import BrokenPages
from spotsieve.stream.service.pages.microbatch import Broken, sign_sparing
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.signature import Signatures, Status
from spotsieve.stream.verdict import Kind, Reason
from tests.worlds.pages.crawls import html_of

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
    signed, found = sign_sparing(pages, cast("Scheme", Defective(*sets)))
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
    state, signatures = MemoryState(), signatures_of(NUMBER)

    def defective(part: Signatures) -> Any:
        living = set(part.offset[part.status != Status.EMPTY].tolist())
        if any(breaking <= living for breaking in sets):
            raise RuntimeError("a defect")
        return judge(part, SCHEME, state, 256, 256)

    verdicts, filing, found = judge_sparing(defective, signatures)
    assert found.keys() == broken
    spared = np.isin(np.arange(NUMBER), list(broken))
    assert set(verdicts.reason[spared].tolist()) <= {Reason.INTERNAL_ERROR}
    assert set(verdicts.kind[spared].tolist()) <= {Kind.UNCHECKED}
    assert filing.pages.tolist() == np.flatnonzero(~spared).tolist()
    assert set(verdicts.kind[~spared].tolist()) <= {Kind.NOVEL}


@pytest.mark.parametrize("error", [StateError("state", "is gone"), MemoryError(), OSError("disk")])
def test_errors_of_the_state_or_the_machine_decide_no_verdict(error: Exception) -> None:
    def failing(_: Signatures) -> Any:
        raise error

    with pytest.raises(type(error)):
        judge_sparing(failing, signatures_of(2))


def test_kept_pages_are_bounded_by_number_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken_pages, "MOST_FILES", 3)
    kept = BrokenPages(tmp_path / "kept", Metrics())

    def tell(offset: int, value: bytes) -> None:
        message = ConsumerRecord("pages", 0, offset, 0, 0, None, value, None, 0, len(value), ())
        kept.tell([(message, Broken("sign", RuntimeError("a defect")))])

    for offset in (1, 2, 2, 3, 4):
        tell(offset, b"{}")
    names = ["pages-0-1.json", "pages-0-2.json", "pages-0-3.json"]
    assert sorted(file.name for file in kept.folder.iterdir()) == names
    assert kept.metrics.registry.get_sample_value("spotsieve_internal_errors_total", {"step": "sign"}) == 5
    monkeypatch.setattr(broken_pages, "MOST_FILES", 100)
    monkeypatch.setattr(broken_pages, "MOST_BYTES", 10_000)
    tell(5, bytes(20_000))
    assert sorted(file.name for file in kept.folder.iterdir()) == names
