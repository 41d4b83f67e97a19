"""Every rule for two pages of one host, or of two: cases made by hand, for the judge and for its twin."""

import dataclasses
import math
from typing import Any

import pytest
import xxhash

from spotsieve.state.store.memory import memory_state
from tests.fixtures.pages.hosts import KEPT, NUMBER, WORDS, Made, different, with_ids
from tests.fixtures.states.remembering import Limits, cut, reference_of, run, run_reference

WEIGHTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def stored(name: str, weight: int, flags: int = KEPT) -> int:
    """A print that the name tells apart."""
    return xxhash.xxh3_64_intdigest(name.encode()) >> 38 << 6 | flags | WEIGHTS.index(weight)


def prints(**weights: int) -> tuple[int, ...]:
    """Kept text prints by name; a name that begins with u was not kept, one with n is of numbers."""
    flags = {"u": 0, "n": NUMBER | KEPT}
    return different([stored(name, weight, flags.get(name[0], KEPT)) for name, weight in weights.items()])


def sketch_apart(distance: int) -> tuple[int, ...]:
    """A sketch that differs in so many bits from one without bits."""
    bits = (1 << distance) - 1
    return tuple(bits >> 64 * word & (2**64 - 1) for word in range(WORDS))


def unrelated(number: int, **changes: Any) -> Made:
    """A page like no other one."""
    words = tuple(xxhash.xxh3_64_intdigest(b"%d" % number, seed) for seed in range(WORDS))
    page = Made(
        10_000 + number, 1, 0, 8, words, (10_000 + number,), prints(**{f"x{number}": 8}), (500 + number, 600 + number)
    )
    return page._replace(**changes)


# The filed page and the page: eight features, sketches of Jaccard .906, one of the minima in common, no title.
FILED = Made(1, 1, 0, 8, sketch_apart(0), (1,), (), ())
PAGE = Made(2, 1, 0, 8, sketch_apart(6), (1,), (), ())
NO_LIKENESS = sketch_apart(64)


@dataclasses.dataclass(frozen=True)
class Case:
    """indexed, page: changes to FILED and PAGE  fillers: pages of the host before them  reason: "" for a novel page

    told: how many of the fillers have with_fillers
    """

    says: str
    indexed: dict[str, Any]
    page: dict[str, Any]
    reason: str
    score: float = math.nan
    fillers: int = 3
    told: int = 9
    with_fillers: dict[str, Any] = dataclasses.field(default_factory=dict)


def texts(indexed: dict[str, int], page: dict[str, int], **both: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The prints of the filed page and of the page, of which `both` are shared."""
    return {"prints": prints(**indexed, **both)}, {"prints": prints(**page, **both)}


def titled(
    one: tuple[int, ...], other: tuple[int, ...], sides: tuple[dict[str, Any], dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same with titles."""
    indexed, page = sides
    return {**indexed, "titles": one}, {**page, "titles": other}


SAME, HALF, FIFTH = ((1, 2, 3), (1, 2, 3)), ((1, 2, 3, 4, 5, 6), (1, 2, 3)), ((1, 2, 3), (1, 4, 5))
LONG = {"length": 200}
SHARED = 400 * 0.90625 / 1.90625
"""Features that two long pages share, by sketches of FILED and PAGE."""
CASES = [
    Case("no title: .615 is alike", *texts({"b": 1}, {"a": 4}, s=8), "own_text", 8 / 13),
    Case("no title: .571 is not", *texts({"b": 2}, {"a": 4}, s=8), ""),
    Case("no title: .632 is", *texts({"b": 3}, {"a": 4}, s=12), "own_text", 12 / 19),
    Case("on a host's first four pages .8 is needed", *texts({"b": 3}, {"a": 4}, s=12), "", fillers=2),
    Case("but not where titles agree", *titled(*SAME, texts({"b": 1}, {"a": 4}, s=12)), "own_text", 12 / 17, fillers=0),
    Case("no title, 30 words: the bar falls to .55", *texts({"b": 6}, {"a": 12}, s=24), "own_text", 24 / 42),
    Case("no title, 30 words: .522 is below", *texts({"b": 6}, {"a": 16}, s=24), ""),
    Case("half the title: .593 is above .575", *titled(*HALF, texts({"b": 6}, {"a": 16}, s=32)), "own_text", 32 / 54),
    Case("half the title: .571 is below", *titled(*HALF, texts({"b": 8}, {"a": 16}, s=32)), ""),
    Case("another title: short texts are none of a copy", *titled(*FIFTH, texts({}, {}, s=48)), ""),
    Case("another title: long ones are", *titled(*FIFTH, texts({}, {}, s=64)), "own_text", 1.0),
    Case("another title: .75 of long ones is not", *titled(*FIFTH, texts({"b": 32}, {}, s=96)), ""),
    Case("the same title, 6 words: .6 is above .584", *titled(*SAME, texts({}, {"a": 4}, s=6)), "own_text", 6 / 10),
    Case("the same title, 8 words: .545 is below .572", *titled(*SAME, texts({"b": 2}, {"a": 3}, s=6)), ""),
    Case("two long texts of one title", *titled(*SAME, texts({"b": 32}, {"a": 48}, s=64)), "same_title", 64 / 144),
    Case("not on a host's first pages", *titled(*SAME, texts({"b": 32}, {"a": 48}, s=64)), "", fillers=2),
    Case("of .45 there too", *titled(*SAME, texts({"b": 24}, {"a": 48}, s=64)), "same_title", 64 / 136, fillers=2),
    Case("one of them short", *titled(*SAME, texts({"b": 64}, {"a": 4}, s=48)), "contained", 48 / 116),
    Case("one inside the other", *texts({"b": 8, "c": 3}, {}, s=8), "contained", 8 / 19),
    Case("three words inside are too few", *texts({"b": 4}, {}, s=3), ""),
    Case("too little of it", *texts({"b": 8, "c": 6}, {}, s=8), ""),
    Case("more than 150 words around", *texts({"b": 64, "c": 24}, {}, s=64), ""),
    Case(
        "a long page with lists put in",
        *titled(*SAME, texts({"b": 192}, {"a": 24}, s=96)),
        "contained",
        96 / 312,
    ),
    Case("too many of them", *titled(*SAME, texts({"b": 256}, {"a": 24}, s=96)), ""),
    Case(
        "a shared print counts as kept if either is",
        {"prints": prints(s=8)},
        {"prints": (stored("s", 8, 0),)},
        "own_text",
        1.0,
    ),
    Case("what is not kept weighs .4", *texts({"ub": 8}, {"a": 2}, s=8), "own_text", 8 / (8 + 3.2 + 2)),
    Case("numbers are compared like text", *texts({"nb": 8}, {"na": 8}, s=8), ""),
    Case(
        "a print of three earlier pages is template",
        *texts({"b": 16}, {"a": 16}, s=64),
        "",
        with_fillers={"prints": prints(s=64)},
    ),
    Case(
        "one of two pages is not",
        *texts({"b": 16}, {"a": 16}, s=64),
        "own_text",
        64 / 96,
        told=1,
        with_fillers={"prints": prints(s=64)},
    ),
    Case(
        "a title word of the host's other titles tells nothing",
        *titled((7, 8), (7, 9), texts({}, {}, s=48)),
        "own_text",
        1.0,
        with_fillers={"titles": (7, 8, 9)},
    ),
    Case(
        "prints that meet by accident share nothing",
        {"prints": prints(s=64), "length": 100},
        {"prints": prints(s=64), "length": 100, "sketch": NO_LIKENESS},
        "",
    ),
    Case(
        "in longer pages so few words may be shared",
        {"prints": prints(s=64), "length": 200},
        {"prints": prints(s=64), "length": 200, "sketch": NO_LIKENESS},
        "own_text",
        1.0,
    ),
    Case("nothing but sketches", LONG, LONG, "own_text", 1 - 12 / 128),
    Case("no own text at all, and not alike enough", {"length": 20}, {"length": 20}, ""),
    Case("no own text at all", {"length": 20}, {"length": 20, "sketch": sketch_apart(3)}, "own_text", 1 - 6 / 128),
    Case(
        "what is template is taken off sketches",
        {"length": 100, "prints": prints(s=64, b=12)},
        {"length": 100, "prints": prints(s=64, a=12), "sketch": sketch_apart(15)},
        "",
        with_fillers={"prints": prints(s=64)},
    ),
    Case(
        "a filed page knows what became template since",
        *titled(*SAME, ({**LONG, "prints": prints(s=64, b=64)}, {**LONG, "prints": prints(s=64, a=64)})),
        "own_text",
        (SHARED - 100) / (400 - SHARED - 100),
        told=2,
        with_fillers={"prints": prints(s=64)},
    ),
    Case("two hosts", LONG, {**LONG, "host": 2, "sketch": sketch_apart(43)}, "near", 1 - 86 / 128),
    Case("two hosts, not alike", LONG, {**LONG, "host": 2, "sketch": sketch_apart(44)}, ""),
    Case("two hosts, thin", {"length": 59}, {**LONG, "host": 2, "sketch": sketch_apart(19)}, "near", 1 - 38 / 128),
    Case("two hosts, thin and not alike", {"length": 59}, {**LONG, "host": 2, "sketch": sketch_apart(20)}, ""),
    Case("two hosts of a site", {**LONG, "site": 5}, {**LONG, "host": 2, "site": 5, "sketch": sketch_apart(43)}, ""),
    Case(
        "two hosts of a site, alike",
        {**LONG, "site": 5},
        {**LONG, "host": 2, "site": 5, "sketch": sketch_apart(12)},
        "near",
        1 - 24 / 128,
    ),
    Case(
        "two hosts, one title, one inside the other",
        {"length": 80, "titles": (1, 2)},
        {"length": 300, "host": 2, "titles": (1, 2), "sketch": sketch_apart(48)},
        "near",
        0.25,
    ),
    Case(
        "a title of one word is too little for that",
        {"length": 80, "titles": (1,)},
        {"length": 300, "host": 2, "titles": (1,), "sketch": sketch_apart(48)},
        "",
    ),
    Case(
        "pages without a host are of one",
        {"host": 0, "length": 59},
        {"host": 0, "length": 59},
        "own_text",
        1 - 12 / 128,
        with_fillers={"host": 0},
    ),
]


@pytest.mark.parametrize("judge", ["product", "twin"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_a_page_is_a_copy_by_what_is_its_own(case: Case, judge: str) -> None:
    fillers = [unrelated(number, **case.with_fillers if number < case.told else {}) for number in range(case.fillers)]
    pages = with_ids([*fillers, FILED._replace(**case.indexed), PAGE._replace(**case.page)])
    records = cut(pages, [])
    limits = Limits()
    found = run(records, memory_state(), limits) if judge == "product" else run_reference(records, reference_of(limits))
    ((verdict, original, score, reason, _, _),) = found[-1]
    assert found[-2][0][0] == "novel", "the filed page is filed"
    if not case.reason:
        assert (verdict, original) == ("novel", "")
        return
    number = len(pages) - 2
    assert (verdict, reason, original) == (
        "duplicate",
        case.reason,
        f"{('one', 'two')[number % 2]}/{number % 3}/{number}",
    )
    assert score == pytest.approx(case.score)
