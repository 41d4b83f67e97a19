"""Worlds of remembered hosts: pages and limits by a seed, and logs in which pages come again and are committed."""

import random
from collections.abc import Sequence

from spotsieve.state.index import Committed
from tests.worlds.hosts import Submitted, any_temper, made_pages, with_ids
from tests.worlds.remembering import Limits, Record

SIZES = [1, 2, 3, 7, 20, 80]


def any_world(seed: int, most: int = 120) -> tuple[random.Random, list[Submitted], Limits]:
    """Pages of one temper, each with an id of its own, and limits that bite."""
    dice = random.Random(seed)
    pages = made_pages(dice, dice.choice([10, 40, most]), any_temper(dice))
    if dice.random() < 0.2:
        # many alike: more than a chunk of the walk
        pages += [page._replace(body=dice.getrandbits(64)) for page in dice.choices(pages[-3:], k=70)]
    longer_by = dice.choice([float("inf"), float("inf"), 1.0, 1.2])
    return dice, with_ids(pages), Limits(dice.choice([2, 5, 16, 256]), dice.choice([1, 3, 8, 64]), longer_by)


class Log:
    """A log in which pages come again that a crash can bring back, and which says now and then what it cannot."""

    def __init__(self, dice: random.Random, pages: Sequence[Submitted]) -> None:
        self.records: list[Record] = []
        committed: dict[tuple[str, int], int] = {}
        at = 0
        while at < len(pages):
            some = list(pages[at : at + dice.choice(SIZES)])
            at += len(some)
            back = [page for page in pages[:at] if page[1] >= committed.get(place_of(page), 0)]
            for page in dice.choices(back, k=dice.choice([0, 1, 3, 10])) if back else []:
                # Anywhere in the record; of its own pages, after the first time.
                first = some.index(page) + 1 if page in some else 0
                some.insert(dice.randrange(first, len(some) + 1), page)
            self.records.append(Record(some, self.marks(dice, committed, pages[:at])))

    def marks(
        self, dice: random.Random, committed: dict[tuple[str, int], int], seen: Sequence[Submitted]
    ) -> tuple[Committed, ...]:
        """What the next record says, which holds from then on."""
        if dice.random() < 0.5:
            return ()
        for place in sorted({place_of(page) for page in dice.sample(seen, min(3, len(seen)))}):
            offset = dice.choice([page[1] for page in seen if place_of(page) == place]) + dice.choice([0, 1])
            committed[place] = max(committed.get(place, 0), offset)
        return tuple(Committed(*place, offset) for place, offset in committed.items())


def place_of(page: Submitted) -> tuple[str, int]:
    """The source and the partition that signatures_of gives a page."""
    return ("one", "two")[page[1] % 2], page[1] % 3
