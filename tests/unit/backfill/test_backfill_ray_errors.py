"""What Ray raises is taken for what it means: an actor that is lost, or a machine that does not go on."""

from types import SimpleNamespace
from typing import Any

import pytest
from ray import exceptions

from spotsieve.stream.backfill.ray_cluster import RayReaders
from spotsieve.stream.backfill.schedule import LostReader
from spotsieve.stream.settings.model import Settings


class FailingRay:
    """As the module ray: actors take every call, and what comes of each is an error."""

    exceptions = exceptions

    def __init__(self, error: Exception) -> None:
        self._error = error

    def remote(self, _: type) -> Any:
        method = SimpleNamespace(remote=lambda *_: "ref")
        actor = SimpleNamespace(sign=method, answer=method, fill=method)
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: actor))

    def put(self, value: object) -> object:
        return value

    def get(self, _: object) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [exceptions.RayActorError, exceptions.OutOfMemoryError])
def test_an_actor_that_died_or_was_ended_for_want_of_memory_is_a_lost_reader(error: type[Exception]) -> None:
    readers = RayReaders(FailingRay(error("gone")), 1, Settings())
    with pytest.raises(LostReader):
        readers.call(0, "sign", 0).result()
