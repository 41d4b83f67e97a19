"""Reads the output topics of a service as they are now: what became of every page."""

from collections.abc import Callable

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.clusters.statements import DUPLICATE, OriginalRef, Statement, read_statement
from spotsieve.stream.errors import PageError, SettingError
from spotsieve.stream.intake import Decoder, Message
from spotsieve.stream.kafka.topic.ranges import RangeReader
from spotsieve.stream.kafka.topic.topics import topic_facts
from spotsieve.stream.progress import OnProgress
from spotsieve.stream.settings.model import Settings

_ROLES = ("novel", "duplicates")
"""Pages that were let through come first: so the first page of a cluster is one of these."""


async def read_verdicts(settings: Settings, take: Callable[[Statement], None], on_progress: OnProgress) -> int:
    """Hand what the topics of novel pages and of duplicates say to `take`; -> how many messages said nothing.

    Pages go by their page ids. Raises SettingError (a topic is not there), BrokerError, BrokerTrouble.
    """
    facts = await topic_facts(settings, [getattr(settings.topics, role) for role in _ROLES])
    decoder, others = Decoder(settings.input), 0
    for role in _ROLES:
        name = getattr(settings.topics, role)
        if name not in facts:
            raise SettingError(f"topics.{role}", "does not exist on the broker", name, "name the service's topic")
        partitions = [TopicPartition(name, number) for number in range(facts[name].partitions)]
        step = f"reading {name}"
        async with RangeReader(settings, {}, step) as asking:
            held = await asking.held(partitions)
        total = sum(end - first for first, end in held.values())
        async with RangeReader(settings, held, step) as reader:
            async for fetched in reader.batches():
                for message in (message for messages in fetched.values() for message in messages):
                    if message.value is None:
                        continue  # A tombstone that passed is no page.
                    passed = role == "novel"
                    statement = _passed(message, decoder) if passed else read_statement(message.value)
                    if statement is None:
                        others += 1
                    elif not passed or statement.verdict != DUPLICATE:
                        take(statement)  # With mode = "annotate" a duplicate passes, and is reported too.
                on_progress(step, total - sum(end - reader.positions[at] for at, (_, end) in held.items()), total)
    return others


def _passed(message: ConsumerRecord, decoder: Decoder) -> Statement | None:
    """What the headers of a page that was let through say; None where they are not ours."""
    # The last header of a name is ours: a page may bring the headers of another filter.
    headers = {name: value.decode("utf-8", "replace") for name, value in message.headers}
    page, verdict = headers.get("spotsieve-page", ""), headers.get("spotsieve-verdict", "")
    if not page or not verdict:
        return None
    replaces = headers.get("spotsieve-replaces-page", "")
    originals = (OriginalRef(replaces, ""),) if replaces else ()
    return Statement(page, _address(message, decoder), verdict, originals, replaces)


def _address(message: ConsumerRecord, decoder: Decoder) -> str:
    """The page's address; "" where the message cannot be read by these settings."""
    whole = Message(
        message.key, message.value, message.headers, message.topic, message.partition, message.offset, message.timestamp
    )
    try:
        return decoder.decode(whole).url
    except PageError:
        return ""
