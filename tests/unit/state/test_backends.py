"""The backends of a state hold the same keys and values after the same batches, and a checkpoint is read-only."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotsieve.state.directory import make_directory
from spotsieve.state.store.backend import FAMILIES, META, Backend, Batch
from spotsieve.state.store.memory import MemoryBackend
from spotsieve.state.store.opening import checkpoint_backend
from spotsieve.state.store.rocks import RocksBackend
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.model import IndexSettings


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[MemoryBackend, RocksBackend]]:
    make_directory(tmp_path / "index")
    rocks = RocksBackend.open(tmp_path, tmp_path / "index", IndexSettings(), begun=False)
    yield MemoryBackend(), rocks
    rocks.close()


def any_batch(dice: random.Random) -> Batch:
    """Puts, deletions and range deletions, which also meet each other's keys."""
    batch = Batch()
    for _ in range(dice.randrange(6)):
        family = dice.choice((META, *FAMILIES))
        keys = [dice.randrange(40).to_bytes(8, "big") for _ in range(dice.randrange(6))]
        if dice.random() < 0.6:
            batch.put(family, keys, [dice.randbytes(3) for _ in keys])
        elif dice.random() < 0.5:
            batch.delete(family, keys)
        elif family != META:
            first, end = sorted(dice.randrange(40) for _ in range(2))
            batch.delete_range(family, first.to_bytes(8, "big"), end.to_bytes(8, "big"))
    return batch


def content_of(backend: Backend, family: str) -> list[object]:
    """What each way of reading gives."""
    some = [number.to_bytes(8, "big") for number in range(0, 40, 3)]
    return [
        list(backend.scan(family)),
        list(backend.values(family)),
        list(backend.keys_down(family)),
        list(backend.keys_down(family, some[5])),
        backend.get(family, some),
        backend.get_sorted(family, some)[0],
        *(tuple(map(list, backend.next_items(family, some[3], most))) for most in (0, 1, 5, 100)),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_memory_and_rocksdb_hold_the_same_after_any_batches(
    both: tuple[MemoryBackend, RocksBackend], seed: int, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    for _ in range(25):
        batch = any_batch(dice)
        for backend in both:
            backend.write(batch)
        for family in (META, *FAMILIES):
            assert content_of(both[0], family) == content_of(both[1], family)
    with checkpoint_backend(tmp_path, tmp_path / "index") as read_only:
        for family in (META, *FAMILIES):
            assert content_of(both[0], family) == content_of(read_only, family)


def test_a_batch_is_applied_in_the_order_of_its_changes(both: tuple[MemoryBackend, RocksBackend]) -> None:
    key, batch = bytes(8), Batch()
    batch.put("hosts", [key], [b"old"])
    batch.delete_range("hosts", key, b"\xff" * 8)
    batch.put("hosts", [key], [b"new"])
    batch.put("entries", [key], [b"gone"])
    batch.delete("entries", [key])
    for backend in both:
        backend.write(batch)
        assert [backend.get(family, [key]) for family in ("hosts", "entries")] == [[b"new"], [None]]


def test_a_checkpoint_takes_one_pass_for_most_of_the_keys_and_refuses_writes(
    both: tuple[MemoryBackend, RocksBackend], tmp_path: Path
) -> None:
    keys, batch = [number.to_bytes(8, "big") for number in range(100)], Batch()
    batch.put("buckets", keys[::2], keys[::2])
    _, rocks = both
    rocks.write(batch)
    rocks.checkpoint(tmp_path / "made")
    with checkpoint_backend(tmp_path, tmp_path / "made") as checkpoint:
        values = [key if number % 2 == 0 else None for number, key in enumerate(keys)]
        assert checkpoint.get_sorted("buckets", keys) == (values, True)
        assert checkpoint.get_sorted("buckets", keys[:9]) == (values[:9], False)
        with pytest.raises(StateError, match="is read-only"):
            checkpoint.write(batch)
