"""The fork server of readers: it has loaded everything that a reader needs, has one thread, and opens no state.

A reader that starts on its own takes 2.2 s of CPU until its first page, a forked one 0.03 s.
"""

import multiprocessing
import signal
from multiprocessing import forkserver, resource_tracker

CONTEXT = multiprocessing.get_context("forkserver")
"""Readers are not forked from the command, because they would inherit held locks of its threads and of RocksDB."""
PRELOADED_MODULES = [
    f"spotsieve.stream.local.backfill.processes.{name}" for name in ("preload", "readers", "preloaded")
]
"""multiprocessing silently ignores a name that it cannot import."""
CONTEXT.set_forkserver_preload(PRELOADED_MODULES)


def begin_loading() -> None:
    """Start the fork server, which then loads while the command does and ends with the command.

    It ignores Ctrl-C and signals to the process group, because the command decides when its readers end.
    """
    # Started here, because the fork server would start it with these signals unblocked.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
