"""`python -m bench.speed` runs the selected measurements and prints one table."""

import argparse
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import orjson

from bench.command import reports_errors, say
from bench.speed import page, report
from bench.speed.compression import measure_compression
from bench.speed.latency import measure_latency
from bench.speed.memory import measure_memory
from bench.speed.pages import html_pages, source_of_pages
from bench.speed.pipeline import measure_pipeline
from bench.targets import exit_code
from spotsieve.stream.demo.localkafka import prepare

INDEX_SIZES = (1_000_000, 5_000_000)
INDEX_TABLES = (10, 20)
QUICK_INDEX_SIZES = (100_000,)
COMPRESSED_PAGES = 400


@reports_errors
def main(arguments: list[str] | None = None) -> int:
    """Measure, write docs/measured/bench.json and docs/measured/speed.md, print the table. Returns 5 without a broker.

    1 where a target is missed, measured now or before; small sizes are held to none.
    """
    parser = argparse.ArgumentParser(
        "python -m bench.speed", description="Measure, and print a table with the targets."
    )
    parser.add_argument(
        "what",
        nargs="*",
        choices=[*MEASUREMENTS, "all"],
        default="all",
        metavar="WHAT",
        help=f"{', '.join(MEASUREMENTS)} or all (default)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds; the documents are left alone")
    options = parser.parse_args(arguments)
    # Topics are used as soon as they are created; the retry of aiokafka is not worth a warning.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    chosen = [name for name in MEASUREMENTS if "all" in options.what or name in options.what]
    prepare()
    figures = {}
    for name in chosen:
        began = time.monotonic()
        say(f"{name} ...")
        figures[name] = MEASUREMENTS[name](options.quick)
        if name in OF_BENCH_PAGES:
            figures[name]["source"] = source_of_pages()
        say(f"{name}: {time.monotonic() - began:.0f} s")
        if not options.quick:
            report.keep({name: figures[name]})
    kept = {**figures, "machine": report.machine()} if options.quick else report.keep({})
    if not options.quick:
        page.rewrite()
    table = report.table(kept)
    print(table)
    return 0 if options.quick else exit_code(table)


def _kernel(quick: bool) -> dict[str, Any]:
    from bench.speed.kernel import measure_kernel

    rounds = 3 if quick else 7
    try:
        return {**measure_kernel(rounds), "source": "pages of the labelled set news"}
    except FileNotFoundError:
        say("  ../shared/data/news is not here: measuring on generated pages instead")
        return {**measure_kernel(rounds, html_pages(1_000, 3)), "source": "generated pages"}


def _signing(quick: bool) -> dict[str, Any]:
    from bench.speed.signing import measure_signing

    return {**(measure_signing(2, 32) if quick else measure_signing())}


def _index(quick: bool) -> dict[str, Any]:
    from bench.speed.index import measure_index

    sizes = QUICK_INDEX_SIZES if quick else INDEX_SIZES
    figures: dict[str, Any] = {}
    for size in sizes:
        for tables in INDEX_TABLES:
            figures[f"{size}.{tables}"] = measure_index(size, tables, say)
    return figures


def _candidates(quick: bool) -> dict[str, Any]:
    from bench.speed.index import measure_candidates

    size = QUICK_INDEX_SIZES[0] if quick else INDEX_SIZES[0]
    return {str(size): measure_candidates(size, say)}


def _pipeline(quick: bool) -> dict[str, Any]:
    return {**measure_pipeline(1, 4_000, say)} if quick else {**measure_pipeline(progress=say)}


def _compression(quick: bool) -> dict[str, Any]:
    from tests.reference.lexbor import DATA, pages_of

    rounds = 1 if quick else 5
    if not (DATA / "news" / "pages.jsonl.xz").exists():
        return {**measure_compression(rounds), "source": "generated pages"}
    # Consecutive pages, as in a crawl. Generated pages share sentences and would compress better than real ones.
    real = [(name.encode(), orjson.dumps({"url": name, "body": page.decode()})) for name, page in pages_of("news")]
    return {**measure_compression(rounds, real[:COMPRESSED_PAGES]), "source": "pages of the labelled set news"}


def _memory(quick: bool) -> dict[str, Any]:
    return {**measure_memory(20_000, say)} if quick else {**measure_memory(progress=say)}


def _latency(quick: bool) -> dict[str, Any]:
    return {**measure_latency(2.0, 1, say)} if quick else {**measure_latency(progress=say)}


def _library(quick: bool) -> dict[str, Any]:
    from bench.speed.library import measure_library

    return {**measure_library(1, 2_000, say)} if quick else {**measure_library(progress=say)}


def _backfill(quick: bool) -> dict[str, Any]:
    from bench.speed.backfill import measure_backfill

    return {**measure_backfill(1, 2_000, say)} if quick else {**measure_backfill(progress=say)}


def _serve(quick: bool) -> dict[str, Any]:
    from bench.speed.serve import measure_serve

    return {**measure_serve(1, 2_000, 3.0, say)} if quick else {**measure_serve(progress=say)}


def _peers(quick: bool) -> dict[str, Any]:
    from bench.speed.peers import measure_peers

    return {**measure_peers(1, 200, say)} if quick else {**measure_peers(progress=say)}


def _letters(quick: bool) -> dict[str, Any]:
    from bench.speed.letters import measure_letters

    return {**measure_letters(1, 100, say)} if quick else {**measure_letters(progress=say)}


MEASUREMENTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "kernel": _kernel,
    "signing": _signing,
    "compression": _compression,
    "pipeline": _pipeline,
    "memory": _memory,
    "latency": _latency,
    "library": _library,
    "backfill": _backfill,
    "serve": _serve,
    "peers": _peers,
    "letters": _letters,
    "index": _index,
    "candidates": _candidates,
}

OF_BENCH_PAGES = "signing", "pipeline", "latency", "library", "backfill", "serve", "letters", "candidates"
"""Measurements over bench_messages, or over signatures of the same pages."""

if __name__ == "__main__":
    sys.exit(main())
