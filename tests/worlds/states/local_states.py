"""States with a local log of synthetic signatures, for tests of verification and snapshots."""

import dataclasses
from pathlib import Path

import numpy as np
from rocksdict import Rdict

from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import encode
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks import RocksBackend
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.fingerprints.permuted_tables import BARE_TAGS
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.reference.signatures import make_signatures

SETTINGS = Settings.model_validate({"scheme": {"sketch_bits": 128}})
TEXT = verdict_settings_text(SETTINGS)
DIGEST = settings_digest(TEXT)
RECORDS, PAGES = 40, 40


def open_state(directory: Path) -> State:
    return disk_state(directory, TEXT, LocalLog.name, IndexSettings(write_buffer_mb=1))


def families_of(state: State) -> dict[str, Rdict]:
    """The column families of a state on disk."""
    assert isinstance(state.backend, RocksBackend)
    return state.backend.families


def different_pages(number: int) -> Signatures:
    """Pages of a record, nearly all of them novel, with MinHash values of their own and a common one."""
    random = np.random.default_rng(number)
    minima = random.integers(0, 2**64, (PAGES, 6), np.uint64)
    minima[:, 0] = random.integers(0, 400, PAGES)  # So that buckets have more than one posting.
    return dataclasses.replace(
        make_signatures(PAGES, seed=number, first=number * PAGES),
        digest=random.integers(0, 2**64, (PAGES, 2), np.uint64),
        features=np.sort(minima, axis=1).ravel(),
        features_bounds=np.arange(PAGES + 1) * 6,
    )


def apply_log(directory: Path, first: int, end: int, state: State) -> None:
    engine = Engine(scheme_of(SETTINGS.scheme), state, SETTINGS.index, DIGEST, LocalLog.name)
    with LocalLog(directory) as log:
        for number in range(log.end, end):
            log.append(encode(different_pages(number), bytes(16), number, DIGEST))
        for offset, record in log.read_from(first):
            engine.apply(record, offset)


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0x10
    file.write_bytes(content)


def listing(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def names_entry(key: bytes, value: bytes, number: int) -> bool:
    """Whether a bucket's value has a posting of this entry."""
    size = 5 if key[0] in BARE_TAGS else 13
    return any(int.from_bytes(value[at : at + 5], "little") == number for at in range(1, len(value), size))
