"""What a host publishes teaches that host alone: it can free its own pages, and none of another host."""

import random
from collections.abc import Sequence

import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.verdict import KeyKind
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.hosts import Made, Paragraph, Submitted, any_temper, host_hash, made_pages, with_ids
from tests.fixtures.states.remembering import Limits, Record, cut, memories_of, run
from tests.reference.judge import Outcome

ATTACKER, VICTIM = 1, 2
LIMITS = Limits()


def judged(pages: Sequence[Submitted], sizes: Sequence[int]) -> dict[int, Outcome]:
    """The outcome of each page by its id."""
    outcomes = [outcome for record in run(cut(pages, sizes), memory_state(), LIMITS) for outcome in record]
    return dict(zip((page_id for _, page_id in pages), outcomes, strict=True))


def victim_pages(dice: random.Random) -> list[Made]:
    """Pages of one host."""
    temper = any_temper(dice)._replace(hosts=1, unjudged=0.0)
    return [page._replace(host=VICTIM, site=7) for page in made_pages(dice, 40, temper)]


def attack(dice: random.Random, victim: Sequence[Made]) -> list[Made]:
    """Pages of another host that show the victim's text and titles again and again.

    Their MinHash values are their own: pages that share them are copies of the victim's pages, and what is compared.
    """
    return [
        page._replace(
            body=dice.getrandbits(64),
            host=ATTACKER,
            site=dice.choice([7, 8]),
            minima=tuple(sorted(dice.getrandbits(40) | 1 << 41 for _ in page.minima)),
            titles=page.titles if dice.random() < 0.8 else (),
        )
        for page in dice.choices(victim, k=3 * len(victim))
    ]


def mixed(dice: random.Random, victim: Sequence[Made], others: Sequence[Made]) -> list[Submitted]:
    """The victim's pages in their order, with numbers of their own, and the others anywhere among them."""
    pages = with_ids(victim)
    for number, page in enumerate(others):
        pages.insert(dice.randrange(len(pages) + 1), (page, len(victim) + number))
    return pages


@pytest.mark.parametrize("seed", mostly_long(range(40), 12))
def test_what_a_host_teaches_itself_changes_no_verdict_on_another(seed: int) -> None:
    dice = random.Random(seed)
    victim = victim_pages(dice)
    alone = judged(with_ids(victim), [])
    together = judged(mixed(dice, victim, attack(dice, victim)), dice.choices([1, 7, 40], k=200))
    assert {page_id: together[page_id] for page_id in alone} == alone


@pytest.mark.parametrize("seed", range(10))
def test_no_page_of_another_host_reaches_a_host_s_memory(seed: int) -> None:
    dice = random.Random(seed)
    victim = victim_pages(dice)
    states = [memory_state(), memory_state()]
    run([Record(with_ids(victim))], states[0], LIMITS)
    run([Record(mixed(dice, victim, attack(dice, victim)))], states[1], LIMITS)
    one, other = (memories_of(state, [host_hash(VICTIM)])[host_hash(VICTIM)] for state in states)
    # When the host last learned is an entry number, and the other host has entries too.
    assert one._replace(last=0) == other._replace(last=0)


@pytest.mark.parametrize(("host", "verdict"), [(ATTACKER, "novel"), (VICTIM, "duplicate")])
def test_a_host_frees_its_own_copies_by_showing_their_text_on_many_pages(host: int, verdict: str) -> None:
    # The attacker shows it on twelve other pages first. There it is template text, and distinguishes no page any more.
    story = Paragraph(tuple(range(100)))
    others = [long_page(number, ATTACKER, [story]) for number in range(12)]
    ordinary = [long_page(20 + number, VICTIM, []) for number in range(12)]
    copies = [
        Made(100 + turn, host, 7, (story, Paragraph(tuple(range(900 + 20 * turn, 912 + 20 * turn)))), (77,))
        for turn in range(2)
    ]
    outcomes = judged(with_ids([*others, *ordinary, *copies]), [])
    assert (outcomes[24][0], outcomes[25][0]) == ("novel", verdict)


def long_page(number: int, host: int, shown: Sequence[Paragraph]) -> Made:
    """A page that shows some blocks, with longer ones of its own beside them: a copy of no other."""
    dice = random.Random(number)
    own = [Paragraph(tuple(dice.randrange(1000, 10_000) for _ in range(120))) for _ in range(3)]
    return Made(number, host, host, (*shown, *own), (1000 + number,))


def test_no_key_of_one_host_fills_a_place_that_another_host_needs() -> None:
    # 300 pages of the attacker with the victim's blocks, title and MinHash values, each with much text of its own.
    limits = Limits(16, 64)
    blocks = [Paragraph(tuple(range(first, first + 40))) for first in (0, 50)]
    story = Made(1, VICTIM, 7, tuple(blocks), (1, 2, 3, 4), (3, 4))
    flood = [
        long_page(100 + number, ATTACKER, blocks)._replace(minima=story.minima, titles=story.titles)
        for number in range(300)
    ]
    copy = story._replace(body=2)
    *_, first, found = [
        outcome
        for record in run([Record(with_ids([*flood, story, copy]))], memory_state(), limits)
        for outcome in record
    ]
    assert first[0] == "novel"
    assert (found[0], found[3]) == ("duplicate", "contained")
    assert found[4] == int(KeyKind.BLOCKS | KeyKind.TITLE)
