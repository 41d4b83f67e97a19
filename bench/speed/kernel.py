"""Measures the kernels, HTML bytes to complete signature, against selectolax's (lexbor's) parse and text."""

import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from selectolax.lexbor import LexborHTMLParser

from spotsieve.stream.sign.features.sieve import SieveSettings, sieve_pages
from spotsieve.stream.sign.features.spots import SpotModel, SpotSettings, extract_spots
from spotsieve.stream.sign.fingerprints.simhash import simhash64
from spotsieve.stream.sign.text.machine import PADDING
from tests.reference.lexbor import DATA, pages_of

BATCH_PAGES = 512


def measure_kernel(rounds: int = 7, pages: Sequence[bytes] = ()) -> dict[str, float | int | str]:
    """Medians over alternating rounds, one core, CPU seconds of this thread; FileNotFoundError without pages.

    pages: what to measure on, by default those of ../shared/data/news. MB are 10^6 bytes of HTML. The kernels run in
    batches of 512 pages; every second of their own is counted, wrapper and fold included. `kernel` is the default
    scheme's: main text, digest of the body, MinHash values, blocks, samples, title. `chain` is that scheme's: spots and
    simhash. selectolax parses each page and takes `text()`, nothing else.
    """
    if not pages and not (DATA / "news" / "pages.jsonl.xz").exists():
        raise FileNotFoundError("../shared/data/news/pages.jsonl.xz is not beside the repository; the bench reads it")
    pages = pages or [page for _, page in pages_of("news")]
    batches = []
    for first in range(0, len(pages), BATCH_PAGES):
        part = pages[first : first + BATCH_PAGES]
        bounds = np.concatenate([[0], np.cumsum([len(page) for page in part])]).astype(np.int64)
        batches.append((np.frombuffer(b"".join([*part, bytes(PADDING)]), dtype=np.uint8), bounds))
    model = SpotModel(SpotSettings())

    def kernel() -> None:
        for buffer, bounds in batches:
            sieve_pages(buffer, bounds, True, SieveSettings())

    def chain() -> None:
        for buffer, bounds in batches:
            features = extract_spots(buffer, bounds, True, model)
            simhash64(features.spots, features.spot_bounds)

    def lexbor() -> None:
        for page in pages:
            LexborHTMLParser(page).text()

    for run in (kernel, chain):
        run()  # Compiles it, or reads it from the cache.
    megabytes = sum(map(len, pages)) / 1e6
    kernel_speeds, chain_speeds, lexbor_speeds = [], [], []
    for _ in range(rounds):
        # The kernel is so much faster that one pass would only take a tenth of a second.
        kernel_speeds.append(5 * megabytes / _seconds(lambda: repeat(kernel, 5)))
        chain_speeds.append(5 * megabytes / _seconds(lambda: repeat(chain, 5)))
        lexbor_speeds.append(megabytes / _seconds(lexbor))
    ours, theirs = statistics.median(kernel_speeds), statistics.median(lexbor_speeds)
    return {
        "pages": len(pages),
        "megabytes": round(megabytes, 1),
        "rounds": rounds,
        "kernel_mb_per_s": round(ours, 1),
        "kernel_mb_per_s_best": round(max(kernel_speeds), 1),
        "chain_mb_per_s": round(statistics.median(chain_speeds), 1),
        "chain_mb_per_s_best": round(max(chain_speeds), 1),
        "selectolax_mb_per_s": round(theirs, 1),
        "selectolax_mb_per_s_best": round(max(lexbor_speeds), 1),
        "ratio": round(ours / theirs, 2),
        "kernel_us_per_page": round(megabytes / ours / len(pages) * 1e6, 1),
    }


def repeat(run: Callable[[], object], times: int) -> None:
    """Run `step` several times in a row."""
    for _ in range(times):
        run()


def _seconds(run: Callable[[], object]) -> float:
    before = time.thread_time()
    run()
    return time.thread_time() - before


if __name__ == "__main__":
    for name, value in measure_kernel(int(sys.argv[1]) if len(sys.argv) > 1 else 7).items():
        print(f"{name:24} {value}")
