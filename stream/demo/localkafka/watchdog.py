"""Kills a child process, such as a local broker, when the process that started it has died, even by SIGKILL.

Usage: `python -I -S watchdog.py OWNER_PID BROKER_PID [DIRECTORY]`. It waits until its standard input closes or its
parent changes. Then it kills the broker and removes DIRECTORY. A line on standard input means that the broker has ended
normally. PR_SET_PDEATHSIG would be shorter, but it fires when the starting *thread* ends, and worker threads start
brokers.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys

POLL_S = 1.0


def watch(child: subprocess.Popen[bytes], *directory: str) -> subprocess.Popen[bytes]:
    """Start a watchdog over a child of this process. directory: at most one, removed with the child"""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(child.pid), *directory],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def main(owner: int, broker: int, directory: str | None) -> None:
    """Block until the owner writes a line or dies; in the second case kill the broker and remove the directory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.getppid() == owner:
        if select.select([sys.stdin], [], [], POLL_S)[0]:
            if sys.stdin.readline():
                return
            break
    with contextlib.suppress(ProcessLookupError):
        os.kill(broker, signal.SIGKILL)
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
