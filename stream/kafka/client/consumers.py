"""Checks what aiokafka's consumers do not report themselves: whether they still fetch."""

from aiokafka import AIOKafkaConsumer

from spotsieve.stream.errors import BrokerTrouble


def check_alive(consumer: AIOKafkaConsumer) -> None:
    """Raise BrokerTrouble where the consumer's fetching task has ended.

    aiokafka's getmany() does not look at that task. Once it has ended, by an error or by a cancellation that went
    astray (aiokafka issue 983), every fetch is empty for ever.
    """
    fetching = consumer._fetcher._fetch_task
    if fetching.done():
        error = None if fetching.cancelled() else fetching.exception()
        raise BrokerTrouble("kafka", "consumer has stopped fetching", repr(error.__cause__ or error) if error else None)
