"""What Ray raises is taken for what it means: a lost actor, a machine that does not go on, or a page that breaks."""

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spotsieve.state.log.local import LocalLog
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.errors import CorruptRecord, SettingError, StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.local.backfill.outcomes import OutcomeStore
from spotsieve.stream.local.backfill.ray_cluster import RayReaders, RayShards, connect_ray
from spotsieve.stream.local.backfill.schedule import LostReader
from spotsieve.stream.sharding.rounds import LogPlace, Round
from tests.fixtures.pages.hosts import signatures_of


@pytest.fixture(scope="module")
def exceptions() -> Any:
    """The module ray.exceptions. Its import takes two seconds, so no other test of the process waits for it."""
    from ray import exceptions

    return exceptions


class FailingRay:
    """As the module ray: actors take every call, and what comes of each is an error, once it is set."""

    def __init__(self, exceptions: Any, error: Exception | None = None) -> None:
        self.exceptions = exceptions
        self.error = error

    def remote(self, _: type) -> Any:
        method = SimpleNamespace(remote=lambda *_: "ref")
        actor = SimpleNamespace(sign=method, find_candidates=method, fill=method)
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: actor))

    def put(self, value: object) -> object:
        return value

    def get(self, _: object) -> Any:
        if self.error is not None:
            raise self.error


def raised(exceptions: Any, error: Exception) -> Exception:
    """What Ray raises where an actor has raised this."""
    made: Exception = exceptions.RayTaskError("find_candidates", "", error, "python", 1, "127.0.0.1")
    return made


@pytest.mark.parametrize("name", ["RayActorError", "OutOfMemoryError"])
def test_an_actor_that_died_or_was_ended_for_want_of_memory_is_a_lost_reader(exceptions: Any, name: str) -> None:
    readers = RayReaders(FailingRay(exceptions, getattr(exceptions, name)("gone")), 1, Settings())
    with pytest.raises(LostReader):
        readers.call(0, "sign", 0).result()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (lambda ray: raised(ray, KeyError("a defect")), KeyError),
        (lambda ray: raised(ray, MemoryError()), MemoryError),
        (lambda ray: raised(ray, CorruptRecord("log", 7, "must be sound")), CorruptRecord),
        (lambda ray: ray.ObjectStoreFullError("full"), StateError),
        (lambda ray: raised(ray, ray.ObjectStoreFullError("full")), StateError),
        (lambda ray: ray.RayActorError("gone"), StateError),
    ],
    ids=["defect", "memory", "record", "store of the driver", "store of the actor", "actor"],
)
def test_only_what_a_shard_itself_raises_may_be_blamed_on_a_page(
    tmp_path: Path, exceptions: Any, error: Callable[[Any], Exception], expected: type[Exception]
) -> None:
    ray, state = FailingRay(exceptions), memory_state()
    round_ = Round(LogPlace(0, 0), LogPlace(1, 0), signatures_of([]), 0, state.clock, (), 0)
    with closing(LocalLog(tmp_path)) as log, closing(OutcomeStore(tmp_path, bytes(16))) as outcomes:
        shards = RayShards(ray, 2, Settings(), state, log, outcomes, lambda _: None)
        ray.error = error(exceptions)
        with pytest.raises(expected) as caught:
            shards.find_candidates(round_, b"")
    assert type(caught.value) is expected


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_a_closed_port_is_refused_before_ray_tries_it_for_minutes(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotsieve.stream.local.backfill.ray_cluster._join", lambda *_: pytest.fail("Ray tries it"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # It does not listen.
        address = form.format(taken.getsockname()[1])
        rule = "--address must be the address of a reachable Ray cluster"
        with pytest.raises(SettingError, match=rule), connect_ray(address, 1):
            pass


@pytest.mark.parametrize("address", [f"{'a' * 64}.example:6379", "a..b:6379", "127.0.0.1:99999", f"a:{'1' * 5000}"])
def test_an_address_that_cannot_be_one_is_refused(address: str) -> None:
    rule = "--address must be the address of a reachable Ray cluster"
    with pytest.raises(SettingError, match=rule), connect_ray(address, 1):
        pass
