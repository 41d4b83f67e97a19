"""Owns the removal of dead postings from buckets that no filing rewrites: a walk over all of them, round after round.

Every filing pays for the walk: VISITS_PER_POSTING buckets for each posting that it adds, whatever it is that grew. So
its cost is bounded, and nothing of it depends on time: the state stays a function of the log. A posting makes at most
one new bucket. With L postings filed a horizon and B buckets in all, a round takes B / 2 filings; a bucket whose last
posting dies waits half a round on average, so B = L + B / 4, which is 4/3 of the buckets that live, and a round takes
two thirds of a horizon. (Measured with the default scheme: 1.47 times, and three quarters.) One visit for each posting
would make B = 2 L; a fixed number for each page would let B grow without end once a scheme's pages have twice as many
keys.
A round begins when the floor has moved since the last one began: a stream without novel pages sweeps nothing, and grows
nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, Filing

VISITS_PER_POSTING = 2
_KEYS = 2**64
Visit = Callable[[int, int], tuple[NDArray[np.uint64], Buckets]]
"""(first key, how many) -> the next buckets from that key on: keys uint64[b], ascending, and contents."""


class Sweep(NamedTuple):
    """How far the walk has come. next_key: of the round under way; 0: there is none
    floor: when the round, or the last one, began: no bucket before next_key (0: none at all) has a posting below it.
    """

    next_key: int = 0
    floor: int = 0


class Swept(NamedTuple):
    """What a part of the walk changes. visited: buckets looked at
    keys: uint64[c]  buckets: what they hold now; none: the bucket goes
    """

    sweep: Sweep
    visited: int
    keys: NDArray[np.uint64]
    buckets: Buckets


def walk_on(sweep: Sweep, floor: int, filing: Filing, visit: Visit) -> Swept | None:
    """The next part of the walk, over the buckets as they were before the filing; None where nothing is to be swept.

    floor: entries below it are dead. What the filing rewrites wins: its buckets are without dead postings already.
    """
    added = int(np.count_nonzero(filing.buckets.numbers >= np.uint64(filing.first_number)))
    if not added or (not sweep.next_key and sweep.floor == floor):
        return None
    if not sweep.next_key:
        sweep = Sweep(0, floor)
    most = VISITS_PER_POSTING * added
    keys, buckets = visit(sweep.next_key, most)
    living = buckets.living(floor)
    changed = np.flatnonzero(np.diff(living.bounds) != np.diff(buckets.bounds))
    next_key = (int(keys[-1]) + 1) % _KEYS if len(keys) == most else 0
    return Swept(Sweep(next_key, sweep.floor), len(keys), keys[changed], living.take(changed))
