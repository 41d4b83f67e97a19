"""Owns what must be looked after in aiokafka's consumers, because they do not tell it themselves."""

from aiokafka import AIOKafkaConsumer

from spotsieve.stream.errors import BrokerTrouble


def check_alive(consumer: AIOKafkaConsumer) -> None:
    """Whether the consumer's tasks in the background still work. Raises BrokerTrouble where one has ended.

    aiokafka's getmany() does not look at the task that fetches: once that has ended, by an error or by a cancellation
    that went astray (aiokafka issue 983), every fetch is empty, for ever.
    """
    fetching = consumer._fetcher._fetch_task
    if fetching.done():
        error = None if fetching.cancelled() else fetching.exception()
        raise BrokerTrouble("kafka", "consumer has stopped fetching", repr(error.__cause__ or error) if error else None)
