"""The process that readers are forked from: it has loaded what each needs, has one thread, and opens no state.

A reader that starts by itself takes 2.2 s of CPU up to its first page, one that is forked .03 s.
"""

import multiprocessing
from multiprocessing import forkserver

CONTEXT = multiprocessing.get_context("forkserver")
"""A process that is forked from the command itself has its threads' locks as they were, and RocksDB's."""
CONTEXT.set_forkserver_preload(
    [f"spotsieve.stream.backfill.processes.{name}" for name in ("first", "readers", "loaded")]
)


def begin_loading() -> None:
    """Start it, so that it loads while the command does; it ends with the command."""
    forkserver.ensure_running()
