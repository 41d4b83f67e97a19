"""A shard continues behind the last outcome in its state, or reports that `verdicts` was recreated."""

import asyncio
from typing import cast

import pytest

from spotsieve.state.index import OutcomeRef as FiledBy
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.service.roles.round_messages import RoundMessage, RoundReader
from spotsieve.stream.service.roles.shard.catch_up import go_on
from spotsieve.stream.sharding.records.frame import KIND_OUTCOME, RoundRecord
from tests.fixtures.states.round_records import RANGE, SHARE

END = 12


class Verdicts:
    """A topic with records at some offsets below its end; at the others there are markers of transactions."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = offsets
        self.position = 0
        self._is_first = True

    def seek_verdicts(self, offset: int) -> None:
        self.position = offset

    async def verdicts_position(self) -> int:
        return self.position

    async def fetch(self) -> list[RoundMessage]:
        await asyncio.sleep(0)
        if self._is_first:
            # The broker has not answered yet.
            self._is_first = False
            return []
        offsets = [offset for offset in self._offsets if offset >= self.position]
        self.position = END
        return [
            RoundMessage(RoundRecord(KIND_OUTCOME, bytes(16), SHARE, RANGE, b""), "verdicts", offset, 5)
            for offset in offsets
        ]


async def place(verdicts: Verdicts, indexed_by: FiledBy | None) -> int:
    await asyncio.wait_for(go_on(cast("RoundReader", verdicts), indexed_by, "verdicts", 0, END), 5)
    return verdicts.position


async def test_a_shard_goes_on_behind_its_last_outcome() -> None:
    assert await place(Verdicts(10), FiledBy(10, 5)) == 11
    assert await place(Verdicts(10), None) == 0


@pytest.mark.parametrize("offsets", [(), (10,), (8, 9)])
async def test_verdicts_that_were_made_anew_are_told_even_where_they_end_in_a_marker(offsets: tuple[int, ...]) -> None:
    with pytest.raises(
        StateError, match=r"does not hold outcome 11, by which this shard was indexed last: the topic was recreated"
    ):
        await place(Verdicts(*offsets), FiledBy(11, 5))
