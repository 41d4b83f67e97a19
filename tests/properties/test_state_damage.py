"""Whatever is damaged in a state's files, it is refused, or it is whole: never another state than the log's."""

import os
import random
import shutil
from pathlib import Path

import pytest

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.log.local import LocalLog
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.state import State
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.local_states import DIGEST, SETTINGS, apply_log, families_of, open_state

RECORDS = 16
DAMAGES = 60


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One state closed in order, one as kill -9 leaves it, both of the same log."""
    closed, running, killed = (tmp_path_factory.mktemp(name) for name in ("closed", "running", "killed"))
    with open_state(closed) as state:
        apply_log(closed, 0, RECORDS, state)
    with open_state(running) as state:
        for end in (6, 11, RECORDS):
            apply_log(running, state.position, end, state)
            if end == 6:
                families_of(state)["buckets"].flush()
            if end == 11:
                families_of(state)["entries"].flush()
        shutil.copytree(running, killed, dirs_exist_ok=True)
    return [closed, killed]


@pytest.fixture(scope="module")
def whole(states: list[Path]) -> State:
    memory = memory_state()
    engine = Engine(scheme_of(SETTINGS.scheme), memory, IndexSettings(), DIGEST, LocalLog.name)
    with LocalLog(states[0]) as log:
        for offset, record in log.read_from(0):
            engine.apply(record, offset)
    return memory


def harm(index: Path, chance: random.Random) -> str:
    """Flip a bit of one file, or cut, lose or zero a part; return what was done."""
    files = sorted(path for path in index.iterdir() if path.stat().st_size and path.name not in {"LOCK", "LOG"})
    kinds = sorted({path.name.split("-")[0].rpartition(".")[2] for path in files})
    kind = chance.choice(kinds)
    file = chance.choice([path for path in files if path.name.split("-")[0].rpartition(".")[2] == kind])
    size = file.stat().st_size
    act = chance.choice(["flip", "flip", "cut", "lose", "zero"])
    place = chance.randrange(size)
    if act == "cut":
        os.truncate(file, place)
    elif act == "lose":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        if act == "flip":
            content[place] ^= 1 << chance.randrange(8)
        else:
            content[place : place + 512] = bytes(len(content[place : place + 512]))
        file.write_bytes(content)
    return f"{act} {file.name} at {place} of {size}"


@pytest.mark.guarantee("a damaged state is reported and gives no verdict", fault="any file cut, lost or flipped")
@pytest.mark.timeout(300)
def test_a_state_with_any_file_damaged_is_refused_or_catches_up_equal(
    states: list[Path], whole: State, tmp_path: Path
) -> None:
    outcomes = {"refused": 0, "whole": 0}
    for seed in range(DAMAGES):
        chance = random.Random(seed)
        directory = Path(shutil.copytree(states[seed % 2], tmp_path / "state"))
        what = f"seed {seed}: {harm(directory / INDEX_FOLDER, chance)}"
        found = verify(directory)
        try:
            with open_state(directory) as state:
                behind = state.position < RECORDS
                apply_log(directory, state.position, RECORDS, state)
                assert first_difference(state, whole) is None, what
        except StateError:
            outcomes["refused"] += 1
            assert found.damaged, what
        else:
            outcomes["whole"] += 1
            # A state that lost only its end may look as if the end had never been written.
            assert behind or not found.damaged, (what, found.damages)
        shutil.rmtree(directory)
    assert min(outcomes.values()) > DAMAGES // 10, outcomes
