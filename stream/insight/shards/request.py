"""Asks the resolver for another number of shards, or for an end of a resize, and waits for its word."""

import asyncio
import time
from collections.abc import Callable

from aiokafka.errors import KafkaError

from spotsieve.stream.base.errors import BrokerError, SettingError, StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.insight.shards.reading import read_cluster_sizes
from spotsieve.stream.kafka.errors import explain_error
from spotsieve.stream.kafka.topics import add_partitions
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.writer import RecordWriter
from spotsieve.stream.sharding.records.frame import KIND_REQUEST, RoundRange, encode_round_record
from spotsieve.stream.sharding.records.resolver import write_request
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import MOST_SHARDS, ClusterSize, Share

ANSWER_SECONDS, LOOK_SECONDS = 30.0, 0.5
_NOWHERE = RoundRange(LogPlace(0, 0), LogPlace(0, 0), 0, 0, 0)


async def request_resize(settings: Settings, shards: int) -> tuple[ClusterSize, int]:
    """Ask that so many shards take over; -> the shards now, and how many partitions `matches` got.

    Raises SettingError where there are so many or a resize is under way, and other SpotsieveErrors.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise SettingError("--shards", f"must be 1 to {MOST_SHARDS}", shards, "choose another number")
    cluster_size, to_come = await _present(settings)
    if cluster_size.asked:
        raise _under_way(cluster_size, shards)
    if to_come.asked:
        raise SettingError(
            "--shards",
            f"cannot be asked for: a resize {cluster_size.shards} -> {to_come.asked} was asked for, "
            "and waits for a resolver",
            shards,
            "start one, which takes it (spotsieve run --role resolver), or cancel it "
            "(spotsieve shards resize --cancel)",
        )
    if shards == cluster_size.shards:
        raise SettingError(
            "--shards", "must differ from the number of shards that answer now", shards, "there is nothing to do"
        )
    added = await add_partitions(settings, settings.topics.matches, shards)
    await _write(settings, cluster_size, shards)
    now = await _wait_for_response(settings, lambda now: bool(now.asked) or now.shards == shards)
    if shards not in (now.shards, now.asked):
        # Somebody else has asked at the same time, and was first.
        raise _under_way(now, shards)
    return now, added


async def cancel_resize(settings: Settings) -> tuple[ClusterSize, int]:
    """End the resize that is under way, or take back an ask that no resolver has answered.

    -> the shards now, and how many were asked for. Raises as request_resize.
    """
    cluster_size, to_come = await _present(settings)
    if not cluster_size.asked and not to_come.asked:
        raise SettingError(
            "--cancel",
            "needs a resize that is under way, and there is none",
            None,
            f"the number of shards is {cluster_size.shards}",
        )
    await _write(settings, cluster_size, 0)
    if not cluster_size.asked:
        # Nothing has begun, and a resolver that comes finds the ask and its end together.
        return cluster_size, to_come.asked
    return await _wait_for_response(settings, lambda now: not now.asked), cluster_size.asked


def _under_way(cluster_size: ClusterSize, shards: int) -> SettingError:
    return SettingError(
        "--shards",
        f"cannot be asked for: a resize {cluster_size.shards} -> {cluster_size.asked} is under way",
        shards,
        "wait for its end (spotsieve shards status), or cancel it (spotsieve shards resize --cancel)",
    )


async def _present(settings: Settings) -> tuple[ClusterSize, ClusterSize]:
    """The shards now, and once all asks are answered. Raises StateError where no round was named."""
    cluster_size, to_come = await read_cluster_sizes(settings)
    if not cluster_size.shards:
        raise StateError(
            f"topics.verdicts {settings.topics.verdicts!r}",
            "must hold a round, and none was named yet",
            None,
            "set cluster.shards of all roles, and start them; a resize is for a service that works",
        )
    return cluster_size, to_come


async def _write(settings: Settings, cluster_size: ClusterSize, shards: int) -> None:
    """Write the ask where the resolver reads it: whoever works next finds it, too."""
    digest = settings_digest(verdict_settings_text(settings))
    writer = RecordWriter(settings, Waits(Metrics()), lambda: 0, "matches")
    try:
        await writer.start()
        await writer.write(
            encode_round_record(KIND_REQUEST, digest, Share(0, cluster_size.shards), _NOWHERE, write_request(shards))
        )
    except KafkaError as error:
        raise explain_error(error, settings, "asking for shards") from None
    finally:
        await writer.close()


async def _wait_for_response(settings: Settings, is_answer: Callable[[ClusterSize], bool]) -> ClusterSize:
    """Wait for the resolver's word. Raises BrokerError where none comes: what was asked stands."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        cluster_size, _ = await read_cluster_sizes(settings)
        if is_answer(cluster_size):
            return cluster_size
        if time.monotonic() > deadline:
            raise BrokerError(
                "resolver",
                f"has not answered within {ANSWER_SECONDS:g} s",
                None,
                "start one (spotsieve run --role resolver): it finds what was asked; see spotsieve shards status",
            )
        await asyncio.sleep(LOOK_SECONDS)
