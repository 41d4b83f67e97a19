"""A process that owns a state, like a service, and serves requests for snapshots or leaves them waiting."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY

OWNER = """
import sys, time
from pathlib import Path
from spotsieve.state.snapshot.checkpoints import Requests
from tests.worlds.states.local_states import open_state
directory = Path(sys.argv[1])
state = open_state(directory)
requests = Requests(directory, state)
print("open", flush=True)
while True:
    if {answers} and requests.waiting():
        requests.answer()
    time.sleep(0.01)  # Time itself: a service looks now and then.
"""


def owner(directory: Path, *, answers: bool) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(answers=answers), str(directory)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    return process
