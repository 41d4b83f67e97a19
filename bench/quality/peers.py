"""Runs the peers of bench/peers over a labelled set in memory, so that thresholds share sketches and extracts are kept.

CPU is that of this thread, measured for each step; each row has the cost of all its steps.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.peers.methods import METHODS, stream_through
from bench.quality.extracts import Extracts
from bench.quality.sets import LabelledSet

_METHODS = {
    "trafilatura": ("datasketch", "simhash"),
    "resiliparse": ("rensa",),
    "visible text": ("rensa",),
}
"""The methods of each extractor."""


@dataclass(frozen=True, slots=True)
class PeerRun:
    """A peer over a set. originals: places or None  cpu_ms: per page, all steps"""

    name: str
    originals: tuple[int | None, ...]
    cpu_ms: float


def run_peers(labelled: LabelledSet, extracts: Extracts, say: Callable[[str], None]) -> list[PeerRun]:
    """Every peer over a set."""
    runs = []
    for extractor, names in _METHODS.items():
        say(f"  {labelled.name}: {extractor}")
        extract = extracts.main_content(labelled, extractor)
        for method in (METHODS[name]() for name in names):
            before = time.thread_time()
            sketches = [method.sketch(text) for text in extract.texts]
            sketched = time.thread_time() - before
            for threshold, make in method.indexes.items():
                before = time.thread_time()
                originals = tuple(stream_through(sketches, make()))
                seconds = extract.cpu_s + sketched + time.thread_time() - before
                name = f"{extractor} + {method.name} {threshold}"
                runs.append(PeerRun(name, originals, 1e3 * seconds / len(labelled.pages)))
    return runs
