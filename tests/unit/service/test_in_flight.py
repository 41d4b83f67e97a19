"""Small micro-batches wait while others are on their way, and no more than a bound are on their way at all."""

import asyncio

import pytest

from spotsieve.stream.service.worker import FEW_IN_FLIGHT, MOST_IN_FLIGHT, InFlightLimit

LONG_S = 60.0
SOON_S = 0.01


async def settled() -> None:
    """Let every task go on that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def begun(number: int) -> InFlightLimit:
    batches = InFlightLimit()
    for _ in range(number):
        await batches.begin()
    return batches


@pytest.mark.asyncio
async def test_a_batch_more_than_the_bound_waits_for_an_end() -> None:
    batches = await begun(MOST_IN_FLIGHT)
    one_more = asyncio.create_task(batches.begin())
    await settled()
    assert not one_more.done()
    batches.end()
    await asyncio.wait_for(one_more, LONG_S)
    another = asyncio.create_task(batches.begin())
    await settled()
    assert not another.done()
    another.cancel()


@pytest.mark.asyncio
async def test_with_few_on_their_way_nothing_is_waited_for() -> None:
    batches = await begun(FEW_IN_FLIGHT - 1)
    await asyncio.wait_for(batches.few(LONG_S), LONG_S / 2)


@pytest.mark.asyncio
async def test_with_more_the_next_waits_until_few_are_left() -> None:
    batches = await begun(FEW_IN_FLIGHT + 1)
    waiting = asyncio.create_task(batches.few(LONG_S))
    batches.end()
    await settled()
    assert not waiting.done()
    batches.end()
    await asyncio.wait_for(waiting, LONG_S / 2)


@pytest.mark.asyncio
async def test_the_wait_ends_when_its_time_is_over() -> None:
    batches = await begun(FEW_IN_FLIGHT)
    await asyncio.wait_for(batches.few(SOON_S), LONG_S)
    await asyncio.wait_for(batches.begin(), LONG_S)
