"""The life of a role's process with one set of Kafka clients: start, work, stop; any error ends it."""

import asyncio

from aiokafka.errors import KafkaError

from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.waits import Waits
from spotsieve.stream.kafka.watch import BrokerWatch
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.tasks import race


class RoleEnd(Exception):
    """A role has no more to do: its process stops cleanly, with this line."""


class Role:
    """A shard or a resolver. A stop needs no farewell: what is known of a round is in Kafka or in the state."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._waits = Waits(metrics)
        self._stopping = asyncio.Event()
        self._ready = False
        self.step = "starting"

    def problems(self) -> list[str]:
        """What keeps it from its work now, in words for a person. Any thread may call this."""
        return ([] if self._ready else [self.step]) + self._waits.texts()

    def works(self) -> bool:
        """Whether it has caught up and, as a resolver, has taken over. Any thread may call this."""
        return self._ready

    def stop(self) -> None:
        """Ask for a clean stop."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stop(). Raises BrokerTrouble where a new one can go on, and other SpotsieveErrors."""
        try:
            await race(BrokerWatch(self._settings, self._waits).run(), self._live(), self._stopping.wait())
        except RoleEnd as over:
            logger().info(str(over))
        except KafkaError as error:
            raise final_error(error, self._settings, "running") from error
        finally:
            self._ready = False
            await self._close()

    async def _live(self) -> None:
        await self._start()
        self._ready = True
        logger().info("ready")
        await self._work_on()

    async def _start(self) -> None:
        """Connect, and catch up."""
        raise NotImplementedError

    async def _work_on(self) -> None:
        """Work for ever."""
        raise NotImplementedError

    async def _close(self) -> None:
        """End all connections."""
        raise NotImplementedError
