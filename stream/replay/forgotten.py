"""Finds the pages that the log forgets in the replay's own state.

The log's records name pages by the service's entry numbers and buckets. Under other settings the replay has filed the
same pages under other numbers and buckets, or not at all. So the keys of each page that will be forgotten are kept when
the replay judges it.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import State
from spotsieve.state.removal import ForgottenPage
from spotsieve.stream.replay.order import ForgetEvent, LogOrder
from spotsieve.stream.replay.places import RangePlaces
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.signature import Signatures


class ForgottenKeys:
    """The keys of the pages that the log forgets: a few hundred bytes for each page."""

    def __init__(self, order: LogOrder, places: RangePlaces) -> None:
        self._wanted = order.forgotten
        self._places = places
        self._keys: dict[int, NDArray[np.uint64]] = {}

    def judged(self, signatures: Signatures, scheme: Scheme) -> None:
        """Keep the keys of those judged pages that will be forgotten."""
        if not self._wanted:
            return
        places = self._places.of(signatures.partition, signatures.offset).tolist()
        rows = [row for row, place in enumerate(places) if place in self._wanted]
        if rows:
            probes = scheme.probe(signatures)
            for row in rows:
                self._keys[places[row]] = probes.keys[probes.bounds[row] : probes.bounds[row + 1]]

    def pages(self, forget: ForgetEvent, state: State) -> list[ForgottenPage]:
        """The pages that are forgotten now, as the state has filed them. Raises CorruptRecord, StateError."""
        return [page for place in forget.places for page in self._indexed(place, place in forget.with_host, state)]

    def _indexed(self, place: int, with_host: bool, state: State) -> Iterable[ForgottenPage]:
        keys = self._keys.get(place)
        if keys is None or not len(keys):
            return
        page = (self._places.topic, *self._places.page(place))
        keys = np.unique(keys)
        numbers = np.unique(state.buckets(keys).numbers)
        for number, page_id in zip(numbers.tolist(), state.page_ids(numbers), strict=True):
            if page_id == page:
                yield ForgottenPage(number, *page, tuple(keys.tolist()), with_host)
