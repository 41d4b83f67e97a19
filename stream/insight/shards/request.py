"""Requests another number of shards from the resolver, or cancels a resize, and waits for the response."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from aiokafka.errors import KafkaError

from spotsieve.state.portable.merging import place_of_snapshots, snapshots_in
from spotsieve.stream.base.errors import BrokerError, SettingError, StateError
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.remote import is_url, local_name
from spotsieve.stream.insight.shards.reading import log_of_rounds, read_begins, read_cluster_sizes
from spotsieve.stream.kafka.errors import explain_error
from spotsieve.stream.kafka.topics import add_partitions
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.writer import RecordWriter
from spotsieve.stream.sharding.records.frame import KIND_REQUEST, RoundRange, encode_round_record
from spotsieve.stream.sharding.records.resolver import write_request
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import MOST_SHARDS, ClusterSize, Share

RESPONSE_SECONDS, POLL_SECONDS = 30.0, 0.5
_NOWHERE = RoundRange(LogPlace(0, 0), LogPlace(0, 0), 0, 0, 0)


async def request_resize(settings: Settings, shards: int) -> tuple[ClusterSize, int]:
    """Request a resize to `shards`; -> the number of shards, and how many partitions were added to `matches`.

    If the same resize is under way, or this is the current number, nothing is written.
    Raises SettingError if another resize is open, and other SpotsieveErrors.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise SettingError("--shards", f"must be 1 to {MOST_SHARDS}", shards, "choose another number")
    cluster_size, newest = await _read_sizes(settings)
    if cluster_size.requested == shards == newest.requested:
        return cluster_size, 0
    if cluster_size.requested:
        raise _under_way(cluster_size, shards)
    if newest.requested:
        raise SettingError(
            "--shards",
            f"cannot be requested: a resize {cluster_size.shards} -> {newest.requested} waits for a resolver",
            shards,
            "start a resolver (spotsieve run --role resolver), or cancel the resize (spotsieve shards resize --cancel)",
        )
    if shards == cluster_size.shards:
        return cluster_size, 0
    await _check_history(settings, cluster_size.shards)
    added = await add_partitions(settings, settings.topics.matches, shards)
    offset = await _write(settings, cluster_size, shards)
    now = await _wait_for_response(
        settings, lambda now: bool(now.requested) or now.shards == shards or now.processed > offset
    )
    if now.requested not in (0, shards):
        # Another process sent a request at the same time, and was first.
        raise _under_way(now, shards)
    if shards not in (now.shards, now.requested):
        raise SettingError(
            "--shards",
            f"was refused by the resolver, because the number of shards is now {now.shards}",
            shards,
            "look at the service (spotsieve shards status), and repeat the command",
        )
    return now, added


async def _check_history(settings: Settings, shards: int) -> None:
    """Check that new shards can fill themselves. shards: their present number. Raises StateError, BrokerError."""
    begins, name = await read_begins(settings), settings.cluster.snapshots
    cut = {topic: begin for topic, begin in begins.items() if begin}
    if is_url(name):  # The new shards look at a URL themselves.
        return
    snapshots = snapshots_in(Path(local_name(name))) if name else []
    if not snapshots:
        if not cut:
            return
        topic, begin = next(iter(cut.items()))
        where = f", and cluster.snapshots ({name}) holds none of the present shards" if name else ""
        raise StateError(
            f"topic {topic!r}",
            f"begins at offset {begin}, so new shards cannot fill themselves{where}; the number of shards stays",
            None,
            "keep both topics as they are: the present shards need them. Take snapshots of all shards after one "
            "outcome (spotsieve state snapshot --after-outcome), set cluster.snapshots for all roles, and repeat the "
            "command",
        )
    position, outcome_ref = place_of_snapshots(snapshots, await log_of_rounds(settings))
    if not cut:
        return
    place = {settings.topics.log: position, settings.topics.verdicts: -1 if outcome_ref is None else outcome_ref.offset}
    if len(snapshots) != shards or any(place[topic] < begin for topic, begin in cut.items()):
        raise StateError(
            f"cluster.snapshots {name}",
            f"must hold snapshots of the {shards} present shards at a position that both topics still hold: there are "
            f"{len(snapshots)}, at record {position} of the log after outcome {place[settings.topics.verdicts]}, and "
            + ", ".join(f"{topic!r} begins at {begin}" for topic, begin in cut.items()),
            None,
            "take new snapshots of all present shards, and repeat the command",
        )


async def cancel_resize(settings: Settings) -> tuple[ClusterSize, int]:
    """Cancel the open resize, or a request that no resolver has answered.

    -> the number of shards, and the requested number. Raises SettingError if there is nothing to cancel, and other
    SpotsieveErrors.
    """
    cluster_size, newest = await _read_sizes(settings)
    if not cluster_size.requested and not newest.requested:
        raise SettingError(
            "--cancel", "has no resize to cancel", None, f"the number of shards is {cluster_size.shards}"
        )
    await _write(settings, cluster_size, 0)
    if not cluster_size.requested:
        # No resize has begun. The next resolver finds the request and the cancellation together.
        return cluster_size, newest.requested
    return await _wait_for_response(settings, lambda now: not now.requested), cluster_size.requested


def _under_way(cluster_size: ClusterSize, shards: int) -> SettingError:
    return SettingError(
        "--shards",
        f"cannot be requested: a resize {cluster_size.shards} -> {cluster_size.requested} is under way",
        shards,
        "wait until it ends (spotsieve shards status), or cancel it (spotsieve shards resize --cancel)",
    )


async def _read_sizes(settings: Settings) -> tuple[ClusterSize, ClusterSize]:
    """The number of shards now, and after all open requests. Raises StateError if the service has no round yet."""
    cluster_size, newest = await read_cluster_sizes(settings)
    if not cluster_size.shards:
        raise StateError(
            f"topics.verdicts {settings.topics.verdicts!r}",
            "has no round yet",
            None,
            "set cluster.shards for all roles and start them; only a running service can be resized",
        )
    return cluster_size, newest


async def _write(settings: Settings, cluster_size: ClusterSize, shards: int) -> int:
    """Write the request to `matches`, where the current resolver or the next one reads it. Returns its offset."""
    digest, share = digest_of_settings(settings), Share(0, cluster_size.shards)
    log = await log_of_rounds(settings)
    writer = RecordWriter(settings, Waits(Metrics()), lambda: 0, "matches")
    try:
        await writer.start()
        record = encode_round_record(KIND_REQUEST, digest, share, _NOWHERE, write_request(shards), log)
        return await writer.write(record)
    except KafkaError as error:
        raise explain_error(error, settings, "requesting shards") from None
    finally:
        await writer.close()


async def _wait_for_response(settings: Settings, is_response: Callable[[ClusterSize], bool]) -> ClusterSize:
    """Wait for the resolver's response. Raises BrokerError after RESPONSE_SECONDS; the request stays open."""
    deadline = time.monotonic() + RESPONSE_SECONDS
    while True:
        cluster_size, _ = await read_cluster_sizes(settings)
        if is_response(cluster_size):
            return cluster_size
        if time.monotonic() > deadline:
            raise BrokerError(
                "resolver",
                f"has not responded within {RESPONSE_SECONDS:g} s",
                None,
                "start one (spotsieve run --role resolver): it will read the request; check spotsieve shards status",
            )
        await asyncio.sleep(POLL_SECONDS)
