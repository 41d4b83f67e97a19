"""Owns which seconds count in promises of seconds: all but those that the machine withheld."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import REPOSITORY
from tests.given_seconds import GivenSeconds

STOOD_STILL = """
import time
from tests.given_seconds import GivenSeconds
with GivenSeconds() as took:
    print("begun", flush=True)
    began = time.monotonic()
    while time.monotonic() - began < 3:
        time.sleep(0.01)
print(took.seconds)
"""


def test_seconds_that_pass_count() -> None:
    with GivenSeconds() as took:
        time.sleep(0.5)
    assert took.seconds > 0.1


@pytest.mark.parametrize("stall", [2.0, 3.5], ids=["in the middle", "at the end"])
def test_seconds_in_which_nobody_was_woken_do_not_count(stall: float) -> None:
    command = [sys.executable, "-c", STOOD_STILL]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        time.sleep(stall)
        process.send_signal(signal.SIGCONT)
        assert float(process.stdout.readline()) < 2.5
