"""Says of what the broker tells of a topic whether it fits: the log, and the topics of rounds."""

from collections.abc import Mapping
from dataclasses import dataclass

from spotsieve.stream.errors import SettingError
from spotsieve.stream.observe.logs import logger

FOREVER = "-1"
DEFAULT_MESSAGE_BYTES = 1_048_588
ANY_TIME_MS = 2**63 - 1
"""Brokers before Kafka 4 allow messages any time, or do not say what they allow."""
TOPIC_CODECS = {"uncompressed": "none", **{codec: codec for codec in ("gzip", "snappy", "lz4", "zstd")}}
LOG_RECORD_BYTES = 900_000
"""The largest record of the log: less than the broker's default max.message.bytes, with room for the batch header."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What the broker says of a topic.  replication: copies of its first partition, 0 where that is not known"""

    partitions: int
    settings: Mapping[str, str]
    replication: int = 0

    @property
    def max_message_bytes(self) -> int:
        """The size of the largest record batch that the topic takes."""
        return int(self.settings.get("max.message.bytes", DEFAULT_MESSAGE_BYTES))

    @property
    def codec(self) -> str | None:
        """The codec of every batch in the topic, None where batches stay as they are sent.

        The broker would compress what is sent in another one anew, and refuse it where it then is too large.
        """
        return TOPIC_CODECS.get(self.settings.get("compression.type", "producer"))

    @property
    def times_taken_ms(self) -> tuple[int, int]:
        """How far a message's time may lie before and after the broker's clock, in milliseconds."""
        if self.settings.get("message.timestamp.type", "CreateTime") == "LogAppendTime":
            return ANY_TIME_MS, ANY_TIME_MS
        # Brokers before Kafka 4 also know one bound for both.
        both = int(self.settings.get("message.timestamp.difference.max.ms", ANY_TIME_MS))
        before, after = (
            min(both, int(self.settings.get(f"message.timestamp.{side}.max.ms", ANY_TIME_MS)))
            for side in ("before", "after")
        )
        return before, after


def check_log(name: str, facts: TopicFacts) -> None:
    """Refuse a log topic that could not carry the order of pages, and warn of one that forgets. Raises SettingError."""
    _check_carries("log", name, facts, 1, "one partition: it is the one order of pages")
    _warn_of_forgetting("the log topic", "state directory", name, facts)
    warn_of_losses(name, facts)


def check_rounds(shards: int, names: Mapping[str, str], found: Mapping[str, TopicFacts]) -> None:
    """Refuse topics of rounds that could not carry what shards and the resolver say. Raises SettingError.

    names, found: by role, those of `matches` and `verdicts`
    """
    partitions = found["matches"].partitions
    if partitions < shards:
        raise SettingError(
            "topics.matches",
            f"must have {shards} partitions or more, one for each of cluster.shards",
            partitions,
            f"ask for so many shards, which adds them (spotsieve cluster resize); or make {names['matches']!r} anew",
        )
    # A resize to fewer shards leaves partitions without a writer.
    _check_carries("matches", names["matches"], found["matches"], partitions, "partitions")
    _check_carries("verdicts", names["verdicts"], found["verdicts"], 1, "one partition: it is the one order of rounds")
    _warn_of_forgetting("the topic of verdicts", "shard", names["verdicts"], found["verdicts"])


def _warn_of_forgetting(topic: str, lost: str, name: str, facts: TopicFacts) -> None:
    """Warn of a retention by time or size. topic, lost: in words, and what cannot be rebuilt from it"""
    retention = {setting: facts.settings.get(setting, FOREVER) for setting in ("retention.ms", "retention.bytes")}
    bounded = {setting: value for setting, value in retention.items() if value != FOREVER}
    if bounded:
        # This is not refused: a user may keep snapshots of the states.
        logger().warning(
            f"{topic} forgets: a lost {lost} cannot be rebuilt from it; set its retention to -1", topic=name, **bounded
        )


def _check_carries(role: str, name: str, facts: TopicFacts, partitions: int, rule: str) -> None:
    """Refuse another number of partitions, too small messages, and compaction. Raises SettingError."""
    if facts.partitions != partitions:
        raise SettingError(f"topics.{role}", f"must have {rule}", facts.partitions, f"make {name!r} anew")
    if facts.max_message_bytes <= LOG_RECORD_BYTES:
        raise SettingError(
            f"topics.{role}",
            f"must take records of {LOG_RECORD_BYTES} bytes and their batch header (max.message.bytes)",
            facts.max_message_bytes,
            f"raise max.message.bytes of {name!r}",
        )
    if "compact" in facts.settings.get("cleanup.policy", ""):
        raise SettingError(
            f"topics.{role}",
            "must not be compacted: the state is a function of every record",
            facts.settings["cleanup.policy"],
            f"set cleanup.policy=delete on {name!r}",
        )


def warn_of_losses(name: str, facts: TopicFacts) -> None:
    """Warn where the loss of one broker takes records of the log along: every worker would have to begin anew."""
    least = facts.settings.get("min.insync.replicas")
    if facts.replication == 1:
        logger().warning(
            "one broker can lose the log: it has one copy; in production give it three "
            "(kafka-reassign-partitions.sh, or `spotsieve topics create --replication 3` before the first page)",
            topic=name,
        )
    elif least == "1":
        logger().warning(
            "one broker can lose the newest records of the log: they count as written once one broker has them; "
            "set min.insync.replicas=2",
            topic=name,
            replication=facts.replication,
        )
    if facts.settings.get("unclean.leader.election.enable") == "true":
        logger().warning(
            "the log topic may lose records when brokers fail: a copy that lags may become the leader; "
            "set unclean.leader.election.enable=false",
            topic=name,
        )


def warn_of_free_times(name: str, facts: TopicFacts, horizon_hours: float) -> None:
    """Warn where senders may date a page so far ahead that all pages before it leave the horizon."""
    if facts.settings.get("message.timestamp.type", "CreateTime") == "LogAppendTime":
        return
    ahead_ms = int(facts.settings.get("message.timestamp.after.max.ms", ANY_TIME_MS))
    if ahead_ms > horizon_hours * 3_600_000:
        logger().warning(
            "messages of the input topic may be dated farther ahead than the horizon, and one of them makes everything "
            "forgotten; set message.timestamp.type=LogAppendTime, or a smaller message.timestamp.after.max.ms",
            topic=name,
            after_max_ms=ahead_ms,
            horizon_hours=horizon_hours,
        )
