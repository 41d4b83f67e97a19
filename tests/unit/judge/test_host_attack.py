"""What a host publishes teaches that host alone: it can free or drop its own pages, and none of another host."""

import random
from collections.abc import Sequence

import pytest

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.verdict import KeyKind
from tests.fixtures.pages.hosts import KEPT, WORDS, Made, Submitted, any_temper, host_hash, made_pages, with_ids
from tests.fixtures.states.remembering import Limits, Record, cut, memories_of, run
from tests.reference.judge import Outcome

ATTACKER, VICTIM = 1, 2
LIMITS = Limits()


def judged(pages: Sequence[Submitted], sizes: Sequence[int]) -> dict[int, Outcome]:
    """The outcome of each page by its id."""
    outcomes = [outcome for record in run(cut(pages, sizes), memory_state(), LIMITS) for outcome in record]
    return dict(zip((page_id for _, page_id in pages), outcomes, strict=True))


def victim_pages(dice: random.Random) -> list[Made]:
    """Pages of one host, with four minima at most."""
    temper = any_temper(dice)._replace(hosts=1, unjudged=0.0)
    pages = made_pages(dice, 40, temper)
    return [page._replace(host=VICTIM, site=7, minima=page.minima[:4]) for page in pages]


def attack(dice: random.Random, victim: Sequence[Made], alike: bool) -> list[Made]:
    """Pages of another host that have the victim's prints, titles and site, again and again.

    alike: their minima and their sketches too: copies of the victim's pages on another host. Without them they fill no
    bucket of the victim's either: what full buckets hide, tests/unit/cli/test_suppression.py shows.
    """
    return [
        page._replace(
            body=dice.getrandbits(64),
            host=ATTACKER,
            site=dice.choice([7, 8]),
            sketch=page.sketch if alike else tuple(~word & (2**64 - 1) for word in page.sketch),
            minima=page.minima if alike else tuple(sorted(dice.getrandbits(40) | 1 << 41 for _ in page.minima)),
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


@pytest.mark.parametrize("seed", range(40))
def test_what_a_host_teaches_itself_changes_no_verdict_on_another(seed: int) -> None:
    dice = random.Random(seed)
    victim = victim_pages(dice)
    alone = judged(with_ids(victim), [])
    together = judged(mixed(dice, victim, attack(dice, victim, alike=False)), dice.choices([1, 7, 40], k=200))
    assert {page_id: together[page_id] for page_id in alone} == alone


@pytest.mark.parametrize("seed", range(40))
def test_copies_on_another_host_are_the_only_way_to_drop_a_page(seed: int) -> None:
    dice = random.Random(seed)
    victim = victim_pages(dice)
    copies = mixed(dice, victim, attack(dice, victim, alike=True))
    alone = judged(with_ids(victim), [])
    hosts = {page_id: page.host for page, page_id in copies}
    dropped = 0
    for page_id, outcome in judged(copies, []).items():
        if hosts[page_id] == VICTIM and outcome[0] == "duplicate" and alone[page_id][0] != "duplicate":
            # Beside a page of the other host by its sketch; else as if the page itself had come first.
            original = hosts[int(outcome[1].rpartition("/")[2])]
            dropped += original == ATTACKER
            assert (outcome[3] == "near") == (original == ATTACKER)
    assert dropped or all(outcome[0] == "duplicate" for outcome in list(alone.values())[1:])


@pytest.mark.parametrize("seed", range(10))
def test_no_page_of_another_host_reaches_a_host_s_memory(seed: int) -> None:
    dice = random.Random(seed)
    victim = victim_pages(dice)
    states = [memory_state(), memory_state()]
    run([Record(with_ids(victim))], states[0], LIMITS)
    run([Record(mixed(dice, victim, attack(dice, victim, alike=False)))], states[1], LIMITS)
    one, other = (memories_of(state, [host_hash(VICTIM)])[host_hash(VICTIM)] for state in states)
    assert (one.pages, one.items, one.words) == (other.pages, other.items, other.words)


@pytest.mark.parametrize(("host", "verdict"), [(ATTACKER, "novel"), (VICTIM, "duplicate")])
def test_a_host_frees_its_own_copies_by_showing_their_text_on_many_pages(host: int, verdict: str) -> None:
    # The attacker shows it on twelve other pages first. There it is template, and nobody's own text any more.
    text = [number << 6 | KEPT | 9 for number in range(8)]
    others = [long_page(number, ATTACKER, text) for number in range(12)]
    story = long_page(20, host, text)._replace(prints=tuple(text))
    copy = story._replace(body=21, sketch=(story.sketch[0] ^ 0b111111, *story.sketch[1:]))
    assert judged(with_ids([*others, story, copy]), [])[13][0] == verdict


def long_page(number: int, host: int, shown: Sequence[int]) -> Made:
    """A page that shows some prints, with heavier ones of its own beside them: a copy of no other."""
    dice = random.Random(number)
    own = [(1000 * (1 + number) + turn) << 6 | KEPT | 14 for turn in range(10)]
    sketch = tuple(dice.getrandbits(64) for _ in range(WORDS))
    return Made(number, host, host, 200, sketch, (1 + number,), tuple(sorted([*shown, *own])), ())


def test_no_key_of_one_host_fills_a_place_that_another_host_needs() -> None:
    # 300 pages of the attacker under the victim's prints, title and first four minima.
    limits = Limits(16, 64)
    dice = random.Random(1)
    story = Made(1, VICTIM, 7, 8, (0, 0), (1, 2, 3, 4), (5 << 6 | KEPT | 9, 6 << 6 | KEPT | 9), (3, 4))
    flood = [
        story._replace(
            body=100 + number, host=ATTACKER, length=1000, sketch=tuple(dice.getrandbits(64) for _ in range(WORDS))
        )
        for number in range(300)
    ]
    copy = story._replace(body=2)
    *_, first, found = [
        outcome
        for record in run([Record(with_ids([*flood, story, copy]))], memory_state(), limits)
        for outcome in record
    ]
    assert first[0] == "novel"
    assert (found[0], found[3]) == ("duplicate", "own_text")
    assert found[4] == int(KeyKind.MINIMA | KeyKind.PRINTS | KeyKind.TITLE)
