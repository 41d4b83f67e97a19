"""The process that readers are forked from: it has loaded what each needs, has one thread, and opens no state.

A reader that starts by itself takes 2.2 s of CPU up to its first page, one that is forked .03 s.
"""

import multiprocessing
import signal
from multiprocessing import forkserver, resource_tracker

CONTEXT = multiprocessing.get_context("forkserver")
"""A process that is forked from the command itself has its threads' locks as they were, and RocksDB's."""
PRELOADED_MODULES = [
    f"spotsieve.stream.local.backfill.processes.{name}" for name in ("preload", "readers", "preloaded")
]
"""multiprocessing passes silently over a name that it cannot import."""
CONTEXT.set_forkserver_preload(PRELOADED_MODULES)


def begin_loading() -> None:
    """Start it, so that it loads while the command does; it ends with the command.

    Ctrl-C, and a signal to all processes of a job, go past it: the command decides what becomes of its readers.
    """
    resource_tracker.ensure_running()  # Otherwise it is started with the other one, and lets these signals through.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
