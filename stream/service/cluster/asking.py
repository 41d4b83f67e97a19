"""Asks the resolver for another number of shards, or for an end of a resize, and waits for its word."""

import asyncio
import time
from collections.abc import Callable

from aiokafka.errors import KafkaError

from spotsieve.stream.errors import BrokerError, SettingError, StateError
from spotsieve.stream.kafka.errors import explained
from spotsieve.stream.kafka.topic.topics import add_partitions
from spotsieve.stream.kafka.waits import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.cluster.reading import read_sizings
from spotsieve.stream.service.log.record_writer import RecordWriter
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import settings_digest, verdict_settings_text
from spotsieve.stream.sharding.records.frame import KIND_ASK, Range, encode_told
from spotsieve.stream.sharding.records.resize import write_ask
from spotsieve.stream.sharding.resizing import Sizing
from spotsieve.stream.sharding.rounds import Place
from spotsieve.stream.sharding.shares import MOST_SHARDS, Share

ANSWER_SECONDS, LOOK_SECONDS = 30.0, 0.5
_NOWHERE = Range(Place(0, 0), Place(0, 0), 0, 0, 0)


async def ask_for(settings: Settings, shards: int) -> tuple[Sizing, int]:
    """Ask that so many shards take over; -> the shards now, and how many partitions `matches` got.

    Raises SettingError where there are so many or a resize is under way, and other SpotsieveErrors.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise SettingError("--shards", f"must be 1 to {MOST_SHARDS}", shards, "choose another number")
    sizing, to_come = await _present(settings)
    if sizing.asked:
        raise _under_way(sizing, shards)
    if to_come.asked:
        raise SettingError(
            "--shards",
            f"cannot be asked for: a resize {sizing.shards} -> {to_come.asked} was asked for, and waits for a resolver",
            shards,
            "start one, which takes it (spotsieve run --role resolver), or cancel it "
            "(spotsieve cluster resize --cancel)",
        )
    if shards == sizing.shards:
        raise SettingError(
            "--shards", "must differ from the number of shards that answer now", shards, "there is nothing to do"
        )
    added = await add_partitions(settings, settings.topics.matches, shards)
    await _write(settings, sizing, shards)
    now = await _answered(settings, lambda now: bool(now.asked) or now.shards == shards)
    if shards not in (now.shards, now.asked):
        # Somebody else has asked at the same time, and was first.
        raise _under_way(now, shards)
    return now, added


async def cancel(settings: Settings) -> tuple[Sizing, int]:
    """End the resize that is under way, or take back an ask that no resolver has answered.

    -> the shards now, and how many were asked for. Raises as ask_for.
    """
    sizing, to_come = await _present(settings)
    if not sizing.asked and not to_come.asked:
        raise SettingError(
            "--cancel",
            "needs a resize that is under way, and there is none",
            None,
            f"the number of shards is {sizing.shards}",
        )
    await _write(settings, sizing, 0)
    if not sizing.asked:
        # Nothing has begun, and a resolver that comes finds the ask and its end together.
        return sizing, to_come.asked
    return await _answered(settings, lambda now: not now.asked), sizing.asked


def _under_way(sizing: Sizing, shards: int) -> SettingError:
    return SettingError(
        "--shards",
        f"cannot be asked for: a resize {sizing.shards} -> {sizing.asked} is under way",
        shards,
        "wait for its end (spotsieve cluster status), or cancel it (spotsieve cluster resize --cancel)",
    )


async def _present(settings: Settings) -> tuple[Sizing, Sizing]:
    """The shards now, and once all asks are answered. Raises StateError where no round was named."""
    sizing, to_come = await read_sizings(settings)
    if not sizing.shards:
        raise StateError(
            f"topics.verdicts {settings.topics.verdicts!r}",
            "must hold a round, and none was named yet",
            None,
            "set cluster.shards of all roles, and start them; a resize is for a service that works",
        )
    return sizing, to_come


async def _write(settings: Settings, sizing: Sizing, shards: int) -> None:
    """Write the ask where the resolver reads it: whoever works next finds it, too."""
    digest = settings_digest(verdict_settings_text(settings))
    writer = RecordWriter(settings, Waits(Metrics()), lambda: 0, "matches")
    try:
        await writer.start()
        await writer.write(encode_told(KIND_ASK, digest, Share(0, sizing.shards), _NOWHERE, write_ask(shards)))
    except KafkaError as error:
        raise explained(error, settings, "asking for shards") from None
    finally:
        await writer.close()


async def _answered(settings: Settings, is_answer: Callable[[Sizing], bool]) -> Sizing:
    """Wait for the resolver's word. Raises BrokerError where none comes: what was asked stands."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        sizing, _ = await read_sizings(settings)
        if is_answer(sizing):
            return sizing
        if time.monotonic() > deadline:
            raise BrokerError(
                "resolver",
                f"has not answered within {ANSWER_SECONDS:g} s",
                None,
                "start one (spotsieve run --role resolver): it finds what was asked; see spotsieve cluster status",
            )
        await asyncio.sleep(LOOK_SECONDS)
