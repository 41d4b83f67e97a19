"""Writes docs/measured/large-state.md: the large state, and the effect of each RocksDB option on a smaller state."""

from typing import Any, NamedTuple

from bench.command import date_and_machine, outcome
from bench.large_state.judging import MIB, JudgingCosts
from bench.large_state.variants import DEFAULTS, VARIANTS, LargeStatePlan, Variant

PAGES = 30_000_000
TIMES_MEMORY = 5
LONGEST_WRITE_MS = 1000.0


class VariantRuns(NamedTuple):
    """The costs of judging over a state, for each variant."""

    plan: LargeStatePlan
    runs: list[tuple[Variant, JudgingCosts]]


def broken(large: VariantRuns) -> list[str]:
    """A sentence for each bound that the large state breaks."""
    pages = large.plan.pages if large.runs else 0
    wrong = [] if pages >= PAGES else [f"the state had {pages:,} pages instead of {PAGES:,}"]
    for variant, judged in large.runs:
        if judged.disk < TIMES_MEMORY * judged.resident:
            times = judged.disk / judged.resident
            wrong.append(f"{variant.name}: the state is {times:.1f} times the memory of the process")
        if judged.write_ms > LONGEST_WRITE_MS:
            wrong.append(f"{variant.name}: indexing a record took {judged.write_ms:,.0f} ms")
    return wrong


def document(
    small: VariantRuns, large: VariantRuns, command: str, host: dict[str, Any], loads: tuple[float, float]
) -> str:
    """The text of the document. loads: the load averages before and after, a sign of other programs"""
    settings = DEFAULTS.settings(small.plan.pages, small.plan.buffer_mb)
    return f"""# A state larger than memory

{outcome(broken(large))}

Measured by `{command}`
{date_and_machine(host)}. The load average was {loads[0]:.1f} before and {loads[1]:.1f}
after; where it is above the number of cores, other programs ran, and times on the clock are mostly theirs. Reads
and bytes do not depend on them; CPU does, so the same work may differ by a fifth.

## How it is measured

A state is filled with whole table files: 14 postings, an entry and a fiftieth of a host's memory for each page, as the
default scheme indexes them. Then the engine judges records of made-up pages over it, {large.plan.batch} pages each.
Three pages in ten are copies of pages that lie anywhere in the state, so their entries are read; the others are novel
and are indexed. The first tenth of the records only warms the caches.

No cgroup bounds the memory. RocksDB reads and writes past the system's page cache (direct reads), so all that the
state has of memory is in the process, and its resident memory is the limit that the state is compared with. Python and
its libraries are counted in it. A service reads through the page cache: it has whatever memory is left besides.

Reads are calls of the judging thread that read a file; filters that are not in the cache are among them. "Written" is
what all threads read and wrote besides, for the write-ahead log, flushes and compactions. "Longest write" is the
longest filing of a record, whatever RocksDB did in the background. Where few pages are judged, few flushes and
compactions happen, and the rows say little of them. A cache has 8 MiB at least: below 440,000 pages its variants are
one and the same.

## The large state

The plan: {large.plan.pages:,} pages are indexed and {large.plan.judged:,} judged. The state must be at least
{TIMES_MEMORY} times the memory of the process, and no write may take longer than {LONGEST_WRITE_MS / 1000:.0f} s.

{_large(large)}

## One option at a time

{small.plan.pages:,} pages were indexed and {small.plan.judged:,} judged. The cache has {settings.cache_mb} MiB and the
write buffer {settings.write_buffer_mb} where nothing else is said. {len(small.runs)} of {len(VARIANTS)} variants ran.
Each judges the same pages and must find the same copies: {_verdicts(small)}.

{_table(small)}

This document is written by `make large`; do not edit it.
"""


def _large(large: VariantRuns) -> str:
    """The table, or a sentence that says what is missing."""
    table = _table(large) if large.runs else "The time given ended before this run."
    if large.runs and large.plan.pages >= PAGES:
        return table
    missing = f"""The run over {PAGES:,} pages is still to be made by `make large`, on an idle machine with 15 GB of
disk. Until then these figures say nothing of a state that exceeds its memory, and no default follows them."""
    return f"{table}\n\n{missing}"


def _verdicts(small: VariantRuns) -> str:
    found = {(judged.novel, judged.copies) for _, judged in small.runs}
    counts = ", ".join(f"{novel:,} novel and {copies:,} copies" for novel, copies in sorted(found))
    return f"all found {counts}" if len(found) == 1 else f"THEY DIFFER: {counts}"


def _table(ran: VariantRuns) -> str:
    """One row per variant."""
    head = (
        "| variant | on disk | resident | CPU, us a page | reads a page | read, KB a page | written, KB a page | "
        "a record, p50 / p99 ms | cold, ms | longest write, ms |"
    )
    return "\n".join([head, "| --- |" + " ---: |" * 9, *(_row(variant, judged) for variant, judged in ran.runs)])


def _row(variant: Variant, judged: JudgingCosts) -> str:
    return (
        f"| {variant.name} | {judged.disk / MIB:,.0f} MiB | {judged.resident / MIB:,.0f} MiB | {judged.cpu_us:.0f} | "
        f"{judged.reads:.2f} | {judged.read_bytes / 1e3:.1f} | {judged.compacted / 1e3:.1f} | "
        f"{judged.p50_ms:.0f} / {judged.p99_ms:.0f} | {judged.cold_ms:.0f} | {judged.write_ms:.0f} |"
    )
