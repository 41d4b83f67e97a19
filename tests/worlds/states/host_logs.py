"""Logs of a scheme with host memories, in which pages come again and are committed."""

import random
from collections.abc import Sequence

from spotsieve.state.index import CommitMark
from tests.worlds.pages.hosts import Submitted
from tests.worlds.states.remembering import Record

SIZES = [1, 2, 3, 7, 20, 80]


class Log:
    """A log in which pages come again after a crash, and which records now and then which pages cannot come again."""

    def __init__(self, dice: random.Random, pages: Sequence[Submitted]) -> None:
        self.records: list[Record] = []
        committed: dict[tuple[str, int], int] = {}
        at = 0
        while at < len(pages):
            some = list(pages[at : at + dice.choice(SIZES)])
            at += len(some)
            back = [page for page in pages[:at] if page[1] >= committed.get(place_of(page), 0)]
            for page in dice.choices(back, k=dice.choice([0, 1, 3, 10])) if back else []:
                # Anywhere in the record; its own pages only after the first time.
                first = some.index(page) + 1 if page in some else 0
                some.insert(dice.randrange(first, len(some) + 1), page)
            self.records.append(Record(some, self.marks(dice, committed, pages[:at])))

    def marks(
        self, dice: random.Random, committed: dict[tuple[str, int], int], seen: Sequence[Submitted]
    ) -> tuple[CommitMark, ...]:
        """The committed offsets of the next record, which hold from then on."""
        if dice.random() < 0.5:
            return ()
        for place in sorted({place_of(page) for page in dice.sample(seen, min(3, len(seen)))}):
            offset = dice.choice([page[1] for page in seen if place_of(page) == place]) + dice.choice([0, 1])
            committed[place] = max(committed.get(place, 0), offset)
        return tuple(CommitMark(*place, offset) for place, offset in committed.items())


def place_of(page: Submitted) -> tuple[str, int]:
    """The source and the partition that signatures_of gives a page."""
    return ("one", "two")[page[1] % 2], page[1] % 3
