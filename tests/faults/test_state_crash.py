"""kill -9 in the middle of writing: the state equals the log up to its position, never something between."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from spotsieve.state.format.entries import FORGOTTEN
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import encode, encode_forget
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.states.comparison import first_difference
from tests.reference.signatures import make_signatures

RECORDS, PAGES = 400, 64
MOST_RECORDS, RECORD_SECONDS = 80, 0.02
DIGEST = bytes(16)

WRITER = """
import sys
from pathlib import Path
from spotsieve.state.log.local import LocalLog
from spotsieve.state.store.state import State
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
directory = Path(sys.argv[1])
state = disk_state(directory, "{}", "log", IndexSettings(write_buffer_mb=1))
engine = Engine(SpotsieveScheme(SpotsieveSettings()), state, IndexSettings(), bytes(16), "log")
with LocalLog(directory) as log:
    for offset, record in log.read_from(state.position):
        engine.apply(record, offset)
        print(state.position, flush=True)
"""


@pytest.mark.timeout(900)
def test_after_kill_9_while_writing_the_state_is_that_of_the_log_up_to_its_position(tmp_path: Path) -> None:
    _make_log(tmp_path)
    chance, scheme, reached = random.Random(5), SpotsieveScheme(SpotsieveSettings()), 0
    rebuilt = memory_state()
    rebuilding = Engine(scheme, rebuilt, IndexSettings(), DIGEST, "log")
    for _ in range(4):
        reported = _kill_while_writing(tmp_path, chance)
        with disk_state(tmp_path, "{}", "log", IndexSettings(write_buffer_mb=1)) as state:
            assert reported <= state.position <= reported + 1, "a record that was reported as written may not be lost"
            reached = state.position
            with LocalLog(tmp_path) as log:
                for offset, record in log.read_from(rebuilt.position):
                    if offset >= reached:
                        break
                    rebuilding.apply(record, offset)
            assert first_difference(state, rebuilt) is None
    values = dict(rebuilt.items())
    assert sum(value == FORGOTTEN for value in values.values()) > 10
    assert 0 < reached < RECORDS, "the kills came in the middle"


def _make_log(directory: Path) -> None:
    """A log that forgets three of its first pages with every fifth record, so that their copies are indexed again."""
    scheme, state = SpotsieveScheme(SpotsieveSettings()), memory_state()
    engine = Engine(scheme, state, IndexSettings(), DIGEST, "log")
    records = [make_signatures(PAGES, seed=number % 50, first=number * PAGES) for number in range(RECORDS)]
    for number in range(5):
        engine.apply(encode(records[number], bytes(16), number, DIGEST), number)
    indexed = list(enumerate(state.page_ids(np.arange(state.entry_count, dtype=np.uint64))))
    with LocalLog(directory) as log:
        for number, pages in enumerate(records):
            if number < 5 or number % 5 or not indexed:
                log.append(encode(pages, bytes(16), number, DIGEST))
                continue
            forgotten = list[ForgottenPage]()
            for entry, page_id in indexed[:3]:
                assert page_id is not None
                probes, row = scheme.probe(records[page_id[2] // PAGES]), page_id[2] % PAGES
                # All that it was probed under: some keys do not hold it, which does no harm.
                keys = probes.keys[probes.bounds[row] : probes.bounds[row + 1]].tolist()
                forgotten.append(ForgottenPage(entry, *page_id, tuple(keys)))
            del indexed[:3]
            log.append(encode_forget(forgotten, bytes(16), number, DIGEST))


def _kill_while_writing(directory: Path, chance: random.Random) -> int:
    """Let the writer write some records and a part of one, and kill it; returns the last position that it reported."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(chance.randrange(10, MOST_RECORDS)):
            reported = int(writer.stdout.readline())
        time.sleep(chance.uniform(0, RECORD_SECONDS))  # Time itself: the kill comes at any moment of a record.
        writer.send_signal(signal.SIGKILL)
        for line in writer.stdout:
            if line.endswith("\n"):
                reported = int(line)
    return reported
