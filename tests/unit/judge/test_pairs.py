"""Every rule for two pages of one host, or of two: cases made by hand, for the judge and for its reference."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import pytest
import xxhash

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.sign.schemes import HostThresholds
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.pages.hosts import NUMBERS, Made, Paragraph
from tests.fixtures.states.remembering import Limits, Record, reference_of, run, run_reference
from tests.reference.page_pairs import PairThresholds

IDS = [number for number in range(3, 200, 3) if number % 7]
"""Ids of pages with different URLs (signatures_of)."""
DEFAULT = PairThresholds()
SAME, SIMILAR, OTHER = ((1, 2, 3), (1, 2, 3)), ((1, 2, 3), (1, 2, 3, 4, 5)), ((1, 2, 3), (1, 4, 5))
CLOSE = ((1, 2, 3, 4), (1, 2, 3, 4, 5))
HEADLINES = CLOSE
HEADLINE = ((1, 2, 3, 4), (1, 2, 3, 4))


def words(name: str, count: int, first: int = 0) -> tuple[int, ...]:
    """Words of a text that the name tells apart."""
    return tuple(xxhash.xxh3_64_intdigest(f"{name} {number}".encode()) % NUMBERS for number in range(first, count))


def text(name: str, count: int, first: int = 0, **changes: Any) -> Paragraph:
    """A block of this text."""
    return Paragraph(words(name, count, first), **changes)


def joined(*parts: Sequence[int]) -> Paragraph:
    """One block of several texts."""
    return Paragraph(tuple(word for part in parts for word in part))


def boilerplate(name: str, count: int, outside: int = 15) -> Paragraph:
    """A block that is no main text."""
    return text(name, count, kept=False, outside=outside)


@dataclasses.dataclass(frozen=True)
class Case:
    """indexed, page: blocks of an indexed page and of a later one  copy: whether this is a copy of the indexed page

    titles: of both  hosts: of both  fillers: other pages of the host of both before them  on_fillers: blocks of the
    first `fillers_with_blocks` of them  elsewhere: blocks of pages of `others` hosts under different titles before them
    """

    says: str
    indexed: Sequence[Paragraph]
    page: Sequence[Paragraph]
    copy: bool
    titles: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    hosts: tuple[int, int] = (1, 1)
    fillers: int = 6
    fillers_with_blocks: int = 9
    on_fillers: Sequence[Paragraph] = ()
    elsewhere: Sequence[Paragraph] = ()
    others: int = 12
    thresholds: PairThresholds = DEFAULT


STORY = text("story", 100)
EDITED = joined(*(words("new" if at % 12 == 11 else "story", at + 1, at) for at in range(100)))
FORM = [text("form", first + 20, first) for first in (0, 20, 40)]
NOTICE = text("notice", 80)
THEME = [text(f"theme {part}", 150) for part in range(4)]
PARTS_OF_STORY = [text(f"story {part}", 100) for part in range(4)]
MENU = [boilerplate(f"menu {part}", 190, outside=0) for part in range(5)]
FACTS = [boilerplate(f"facts {part}", 50) for part in range(3)]
CELLS = [boilerplate(f"cell {part}", 6) for part in range(25)]
LINKS = [boilerplate(f"links {part}", 26, outside=5) for part in range(5)]
ROWS = [text(f"row {part}", 7) for part in range(10)]
TABLE = [boilerplate(f"column {part}", 14) for part in range(80)]
TWO_HOSTS = (1, 2)
of_common_text = functools.partial(Case, hosts=TWO_HOSTS, elsewhere=[NOTICE])
"""A case of two hosts whose pages have a notice that is common text."""
of_many_hosts = functools.partial(Case, hosts=TWO_HOSTS, others=45)
"""A case of two hosts whose pages have a text of many hosts, which is a notice for pages with other text."""
CASES = [
    Case("without titles 0.78 is enough", [STORY], [joined(words("story", 78), words("new", 22))], True),
    Case("without titles 0.69 is not", [STORY], [joined(words("story", 70), words("new", 30))], False),
    Case("with one title 0.64 is enough", [STORY], [joined(words("story", 65), words("new", 35))], True, SAME),
    Case("with one title 0.57 is not", [STORY], [joined(words("story", 58), words("new", 42))], False, SAME),
    Case("with similar titles 0.69 is enough", [STORY], [joined(words("story", 70), words("new", 30))], True, SIMILAR),
    Case("with similar titles 0.61 is not", [STORY], [joined(words("story", 62), words("new", 38))], False, SIMILAR),
    Case(
        "under another title 0.9 of a long text is", [STORY], [joined(words("story", 92), words("new", 8))], True, OTHER
    ),
    Case("of a short text it is not", [text("s", 70)], [joined(words("s", 64), words("new", 6))], False, OTHER),
    Case("all of a short text is", [text("s", 70)], [text("s", 70)], True, OTHER),
    Case(
        "a page that shows other pages too, under another title, is no copy of one that shows the same ones",
        PARTS_OF_STORY,
        [*PARTS_OF_STORY, text("own", 60)],
        False,
        OTHER,
    ),
    Case("few fresh words are allowed there", PARTS_OF_STORY, [*PARTS_OF_STORY, text("own", 20)], True, OTHER),
    Case("and more under a close title", PARTS_OF_STORY, [*PARTS_OF_STORY, text("own", 60)], True, CLOSE),
    Case(
        "a similar title may name another thing, which is described in the same terms",
        PARTS_OF_STORY,
        [*PARTS_OF_STORY, text("own", 60)],
        False,
        SIMILAR,
    ),
    Case(
        "its edits are no fresh blocks",
        [STORY],
        [joined(words("story", 70), words("new", 25), words("story", 100, 95))],
        True,
        SIMILAR,
    ),
    Case(
        "a higher min_containment drops fewer pages",
        [STORY],
        [joined(words("story", 78), words("new", 22))],
        False,
        thresholds=PairThresholds(min_containment=0.7),
    ),
    Case(
        "a page with more fresh words than allowed is no copy",
        [text("story", 120)],
        [joined(words("story", 90), words("new", 30))],
        False,
        SAME,
        thresholds=PairThresholds(max_fresh_words=30),
    ),
    Case(
        "with fewer it is",
        [text("story", 120)],
        [joined(words("story", 91), words("new", 29))],
        True,
        SAME,
        thresholds=PairThresholds(max_fresh_words=30),
    ),
    Case(
        "nor is it on a young host, whose template text is unknown",
        [text("story", 190), text("more", 190), text("tale", 190), text("end", 190)],
        [text("story", 190), text("more", 190), text("tale", 190), text("end", 190), text("new", 40)],
        False,
        SAME,
        fillers=0,
        thresholds=PairThresholds(max_fresh_words=30),
    ),
    Case(
        "without this setting it is",
        [text("story", 190), text("more", 190), text("tale", 190), text("end", 190)],
        [text("story", 190), text("more", 190), text("tale", 190), text("end", 190), text("new", 40)],
        True,
        SAME,
        fillers=0,
    ),
    Case("a part of a page is kept", [STORY, text("rest", 190)], [STORY], False, SAME),
    Case("half a page is a copy", [STORY, text("rest", 100)], [STORY], True, SAME),
    Case(
        "a part is a copy if parts are dropped",
        [STORY, text("rest", 190)],
        [STORY],
        True,
        SAME,
        thresholds=PairThresholds(drop_parts=True),
    ),
    Case("a page that grew is novel", [STORY], [STORY, text("rest", 100)], False, SAME),
    Case(
        "text of four other pages of the host is template text",
        [NOTICE, text("one", 70)],
        [NOTICE, text("two", 20)],
        False,
        fillers_with_blocks=4,
        on_fillers=[NOTICE],
    ),
    Case(
        "text of one other page is not",
        [NOTICE, text("one", 20)],
        [NOTICE, text("two", 20)],
        True,
        fillers_with_blocks=1,
        on_fillers=[NOTICE],
    ),
    Case("pages of template text only are compared by it", [NOTICE], [NOTICE], True, on_fillers=[NOTICE]),
    Case(
        "under another title a short main text speaks for a page too",
        [boilerplate("contents", 190), text("one", 20)],
        [boilerplate("contents", 190), text("two", 20)],
        False,
        OTHER,
    ),
    Case(
        "and all text with it",
        [text("intro", 40), *(boilerplate(f"link {part}", 10, outside=0) for part in range(4))],
        [text("intro", 40), *(boilerplate(f"other {part}", 10, outside=0) for part in range(4))],
        False,
        OTHER,
    ),
    Case(
        "under the same title it does not",
        [boilerplate("contents", 190), text("one", 20)],
        [boilerplate("contents", 190), text("two", 20)],
        True,
        SAME,
    ),
    Case("with all of it", [NOTICE], [NOTICE, text("footer", 80)], False, on_fillers=[NOTICE, text("footer", 80)]),
    Case(
        "on a young host no fresh run may be there",
        [STORY],
        [joined(words("story", 85), words("new", 15))],
        False,
        fillers=0,
    ),
    Case(
        "an edited word may",
        [STORY],
        [joined(words("story", 90), words("new", 1), words("story", 100, 91))],
        True,
        fillers=0,
    ),
    Case("an edited copy is one there too", [STORY], [EDITED], True, SAME, fillers=0),
    Case("not under another title", [STORY], [EDITED], False, OTHER, fillers=0),
    Case("nor without a title", [STORY], [EDITED], False, fillers=0),
    Case(
        "nor are edited words fresh blocks: values in a form are",
        [FORM[0], text("old", 6), FORM[1], text("past", 6), FORM[2], text("gone", 6)],
        [FORM[0], text("new", 6), FORM[1], text("more", 6), FORM[2], text("else", 6)],
        False,
        SAME,
        fillers=0,
    ),
    Case(
        "as few edited words are allowed as anywhere",
        [STORY],
        [EDITED],
        False,
        SAME,
        fillers=0,
        thresholds=PairThresholds(min_containment=0.8),
    ),
    Case("words outside the main text are compared too", [STORY], [STORY, boilerplate("other", 150)], False, SAME),
    Case("a few of them may be fresh", [STORY], [STORY, boilerplate("other", 60)], True, SAME),
    Case("words in links are never fresh", [STORY], [STORY, boilerplate("other", 90, outside=0)], True, SAME),
    Case(
        "on a young host, a fresh block under another title is no edit, however long the template",
        [*THEME, text("one", 60)],
        [*THEME, text("two", 60)],
        False,
        OTHER,
        fillers=0,
    ),
    Case(
        "nor beside the main text",
        [*THEME, boilerplate("one", 60)],
        [*THEME, boilerplate("two", 60)],
        False,
        OTHER,
        fillers=0,
    ),
    Case(
        "selection may keep less of the later page, if all its text is contained",
        PARTS_OF_STORY,
        [PARTS_OF_STORY[0], *(block._replace(kept=False) for block in PARTS_OF_STORY[1:])],
        True,
        OTHER,
    ),
    Case(
        "and not if it is not",
        PARTS_OF_STORY,
        [PARTS_OF_STORY[0], *FACTS, boilerplate("others", 190)],
        False,
        SAME,
    ),
    Case(
        "if too little of the main text is compared, all text decides",
        [*(row._replace(kept=False) for row in ROWS), *TABLE],
        [*ROWS, *TABLE],
        True,
        SAME,
    ),
    Case(
        "but nearly all of it must be contained",
        [*(row._replace(kept=False) for row in ROWS), *TABLE],
        [*ROWS, *TABLE[:60], *(boilerplate(f"value {part}", 14) for part in range(20))],
        False,
        SAME,
    ),
    Case(
        "and what is compared of the main text too",
        [*(row._replace(kept=False) for row in ROWS), *TABLE],
        [*(text(f"other row {part}", 7) for part in range(10)), *TABLE],
        False,
        SAME,
    ),
    Case(
        "on a young host, fresh words are compared with the words outside links",
        [*MENU, boilerplate("tale", 100)],
        [*MENU, boilerplate("other", 100)],
        False,
        SAME,
        fillers=0,
    ),
    Case(
        "a few are allowed beside links there too",
        [*MENU, boilerplate("tale", 100)],
        [*MENU, boilerplate("tale", 82), boilerplate("other", 18)],
        True,
        SAME,
        fillers=0,
    ),
    Case(
        "numbers make no other page",
        [joined(words("story", 90), [NUMBERS])],
        [joined(words("story", 90), [NUMBERS + 1])],
        True,
        SAME,
    ),
    Case(
        "unless variants are kept",
        [joined(words("story", 90), [NUMBERS])],
        [joined(words("story", 90), [NUMBERS + 1])],
        False,
        SAME,
        thresholds=PairThresholds(keep_variants=True),
    ),
    Case(
        "other words are no variant",
        [joined(words("story", 90), [NUMBERS])],
        [joined(words("story", 89), words("new", 1), [NUMBERS + 1])],
        True,
        SAME,
        thresholds=PairThresholds(keep_variants=True),
    ),
    Case("two hosts: 0.64 is enough", [STORY], [joined(words("story", 65), words("new", 35))], True, hosts=TWO_HOSTS),
    Case("two hosts: 0.57 is not", [STORY], [joined(words("story", 58), words("new", 42))], False, hosts=TWO_HOSTS),
    Case(
        "two hosts do not match in scope host",
        [STORY],
        [STORY],
        False,
        hosts=TWO_HOSTS,
        thresholds=PairThresholds(one_host=True),
    ),
    Case(
        "two hosts, thin: 0.83 is enough",
        [text("s", 60)],
        [joined(words("s", 50), words("new", 10))],
        True,
        hosts=TWO_HOSTS,
    ),
    Case(
        "two hosts, thin: 0.69 is not",
        [text("s", 60)],
        [joined(words("s", 42), words("new", 18))],
        False,
        hosts=TWO_HOSTS,
    ),
    of_common_text(
        "text of several hosts under several titles tells nothing",
        [NOTICE, text("one", 40)],
        [NOTICE, text("two", 40)],
        False,
    ),
    of_common_text("an article of such text is found", [NOTICE], [NOTICE], True),
    of_common_text(
        "if no word of it is fresh",
        [NOTICE, text("one", 15)],
        [NOTICE, text("two", 15)],
        False,
    ),
    of_common_text(
        "under similar headlines it needs no more than other text",
        [NOTICE, text("one", 40)],
        [NOTICE, text("two", 40)],
        True,
        HEADLINES,
    ),
    of_common_text(
        "nor less",
        [NOTICE, text("one", 65)],
        [NOTICE, text("two", 65)],
        False,
        HEADLINES,
    ),
    of_common_text(
        "a short title such as Contact names no article",
        [NOTICE, text("one", 40)],
        [NOTICE, text("two", 40)],
        False,
        SAME,
    ),
    of_common_text(
        "unless the text has edits only",
        [NOTICE],
        [joined(words("notice", 65), words("new", 5), words("notice", 80, 70))],
        True,
        SAME,
    ),
    of_common_text(
        "under other titles nearly all is needed",
        [NOTICE, text("one", 40)],
        [NOTICE, text("two", 40)],
        False,
        OTHER,
    ),
    of_many_hosts(
        "an article that many hosts print under their own headlines is no notice",
        [NOTICE, text("one", 3)],
        [NOTICE, text("two", 3)],
        True,
        OTHER,
        elsewhere=[NOTICE],
    ),
    of_many_hosts(
        "beside a twentieth of other words it is",
        [NOTICE, text("one", 4)],
        [NOTICE, text("two", 4)],
        False,
        OTHER,
        elsewhere=[NOTICE],
    ),
    of_many_hosts(
        "and beside as many words as speak for a page, however long it is",
        [*THEME, text("one", 20)],
        [*THEME, text("two", 20)],
        False,
        OTHER,
        elsewhere=THEME,
    ),
    of_many_hosts(
        "fewer words of its own make no other page of it",
        [*THEME, text("one", 19)],
        [*THEME, text("two", 19)],
        True,
        OTHER,
        elsewhere=THEME,
    ),
    of_many_hosts(
        "a list of links is a page of its own beside it",
        [*THEME, *MENU[:1]],
        [*THEME, *MENU[1:2]],
        False,
        OTHER,
        elsewhere=THEME,
    ),
    Case("a long page is compared by samples", [text("book", 900)], [text("book", 900), text("new", 60)], True, SAME),
    Case("and its fresh text is seen", [text("book", 900)], [text("book", 900), text("new", 700)], False, SAME),
    Case(
        "between two hosts a third of other text counts where the later host is well known",
        [STORY],
        [STORY, *FACTS],
        False,
        hosts=TWO_HOSTS,
        fillers=30,
        fillers_with_blocks=0,
    ),
    Case("and not where it is not", [STORY], [STORY, *FACTS], True, hosts=TWO_HOSTS),
    Case("short blocks count with all of their words", [STORY], [STORY, *CELLS], False, SAME),
    Case("under one title 0.58 of all text is enough", [text("a", 180)], [text("a", 180), *LINKS], True, SAME),
    Case("under another title of the host it is not", [text("a", 180)], [text("a", 180), *LINKS], False, OTHER),
    Case("many fresh links are a page of its own", [text("s", 60)], [text("s", 60), *MENU[:1]], False, SAME),
    Case("beside half as much text they are not", [STORY], [STORY, *MENU[:1], *CELLS[:1]], True, SAME),
    Case("under a similar title they are", [STORY], [STORY, *MENU[:1], *CELLS[:1]], False, SIMILAR),
    Case("on a young host too", [STORY], [STORY, *MENU[:1], *CELLS[:1]], False, SAME, fillers=1),
    Case("under a headline, many are not", [STORY], [STORY, *MENU[:3], *CELLS[:1]], True, HEADLINE),
    Case("under few words they are", [STORY], [STORY, *MENU[:3], *CELLS[:1]], False, SAME),
    Case("half as much other text may be new too", [STORY], [STORY, *LINKS[:3], *FACTS[:1]], True, SAME),
    Case("as much may not", [STORY], [STORY, *LINKS[:3], *FACTS[:2]], False, SAME),
    Case("few are not", [text("s", 60)], [text("s", 60), boilerplate("menu", 50, outside=0)], True, SAME),
    Case(
        "pages without a host are pages of one host",
        [STORY],
        [joined(words("story", 70), words("new", 30))],
        False,
        hosts=(0, 0),
    ),
]


def unrelated(number: int, host: int, blocks: Sequence[Paragraph], titles: tuple[int, ...] = ()) -> Made:
    """A page that has nothing but these blocks in common with others, and is indexed under others."""
    own = [text(f"x{number} {turn}", 100) for turn in range(7)]
    return Made(10_000 + number, host, 0, (*blocks, *own), (10_000 + number,), titles)


def pages_of(case: Case) -> list[Made]:
    """All pages of a case, the indexed page and its later one last."""
    elsewhere = [
        unrelated(100 + number, 10 + number, case.elsewhere, (50 + 2 * number, 51 + 2 * number))
        for number in range(case.others)
    ]
    fillers = [
        unrelated(number, case.hosts[1], case.on_fillers if number < case.fillers_with_blocks else ())
        for number in range(case.fillers)
    ]
    pair = [
        Made(body, host, 0, tuple(blocks), (1,), titles)
        for body, host, blocks, titles in zip((1, 2), case.hosts, (case.indexed, case.page), case.titles, strict=True)
    ]
    return [*(elsewhere if case.elsewhere else ()), *fillers, *pair]


@pytest.mark.parametrize("judge", ["product", "reference"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_a_page_is_a_copy_if_an_earlier_one_contains_its_text(case: Case, judge: str) -> None:
    pages = list(zip(pages_of(case), IDS, strict=False))
    records, limits = [Record([page]) for page in pages], Limits()
    if judge == "product":
        scheme = SpotsieveScheme(SpotsieveSettings())
        scheme.host_thresholds = HostThresholds(*case.thresholds)
        found = run(records, memory_state(), limits, scheme)
    else:
        found = run_reference(records, reference_of(limits, case.thresholds))
    ((verdict, original, score, reason, _, _),) = found[-1]
    assert {outcome[0] for record in found[:-1] for outcome in record} == {"novel"}
    if not case.copy:
        assert (verdict, original) == ("novel", "")
        return
    number = IDS[len(pages) - 2]
    assert (verdict, original) == ("duplicate", f"{('one', 'two')[number % 2]}/{number % 3}/{number}")
    assert reason == "contained"
    assert score is not None
    assert 0.5 <= score <= 1


@pytest.mark.parametrize("judge", ["product", "reference"])
def test_text_of_a_theme_is_common_text_although_it_names_its_host(judge: str) -> None:
    made = []
    for host in range(1, 24):
        theme = [
            joined(words(f"theme {part}", 20), words(f"name {host}", 1), words(f"theme {part}", 50, 21))
            for part in range(5)
        ]
        made.append(Made(host, host, 0, (*theme, text(f"own {host}", 60)), (1, 2, 3), (2 * host, 2 * host + 1)))
    limits, records = Limits(), [Record([page]) for page in zip(made, IDS, strict=False)]
    found = run(records, memory_state(), limits) if judge == "product" else run_reference(records, reference_of(limits))
    kinds = [record[0][0] for record in found]
    assert kinds[:2] == ["novel", "duplicate"], "on few hosts it is no theme yet"
    # By chance, the name is in the smallest shingles of a block now and then.
    assert kinds[3:].count("novel") >= 15


@pytest.mark.parametrize("judge", ["product", "reference"])
def test_a_page_that_joins_two_earlier_pages_is_novel(judge: str) -> None:
    one, two = text("one", 200), text("two", 200)
    made = [Made(1, 1, 0, (one,), (1,)), Made(2, 1, 0, (two,), (2,)), Made(3, 1, 0, (one, two), (1, 2))]
    records = [Record(list(zip([*(unrelated(n, 1, ()) for n in range(6)), *made], IDS, strict=False)))]
    limits = Limits()
    found = run(records, memory_state(), limits) if judge == "product" else run_reference(records, reference_of(limits))
    assert {outcome[0] for outcome in found[0]} == {"novel"}


@pytest.mark.parametrize("judge", ["product", "reference"])
@pytest.mark.parametrize(("last", "kind"), [((1, 3), "novel"), ((1, 2), "duplicate")], ids=["another", "the same"])
def test_titles_of_common_words_only_tell_lists_of_a_host_apart(judge: str, last: tuple[int, ...], kind: str) -> None:
    fillers = [unrelated(number, 1, (), (1, 2 + number % 2)) for number in range(8)]
    first = Made(1, 1, 0, tuple(PARTS_OF_STORY), (1,), (1, 2))
    longer = Made(2, 1, 0, (*PARTS_OF_STORY, text("own", 60)), (1,), last)
    records, limits = [Record([page]) for page in zip([*fillers, first, longer], IDS, strict=False)], Limits()
    found = run(records, memory_state(), limits) if judge == "product" else run_reference(records, reference_of(limits))
    assert [record[0][0] for record in found] == ["novel"] * 9 + [kind]


@pytest.mark.parametrize("judge", ["product", "reference"])
@pytest.mark.parametrize(
    ("thresholds", "first", "copies"),
    [(DEFAULT, NUMBERS, 29), (PairThresholds(keep_variants=True), NUMBERS, 0), (DEFAULT, 50, 4)],
    ids=["dates", "dates that are kept as variants", "words"],
)
def test_empty_pages_with_dates_stay_copies_once_their_shell_is_template_text(
    judge: str, thresholds: PairThresholds, first: int, copies: int
) -> None:
    shell = text("shell", 80)
    made = [Made(day, 1, 0, (shell, Paragraph((7, 8, first + day))), (1,), SAME[0]) for day in range(1, 31)]
    records, limits = [Record([page]) for page in zip(made, IDS, strict=False)], Limits()
    if judge == "product":
        scheme = SpotsieveScheme(SpotsieveSettings())
        scheme.host_thresholds = HostThresholds(*thresholds)
        found = run(records, memory_state(), limits, scheme)
    else:
        found = run_reference(records, reference_of(limits, thresholds))
    assert sum(outcome[0] == "duplicate" for record in found for outcome in record) == copies
