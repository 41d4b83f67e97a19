"""Stores and shows figures: docs/measured/bench.json, and one table with each target and whether it is met."""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.targets import met
from spotsieve.stream.research.evaluation import report

KERNEL_MB_PER_S = 700
CHAIN_MB_PER_S = 800
KERNEL_RATIO = 3
INDEX_US = 45
CANDIDATES_US = 90
STATE_BYTES = 400
PIPELINE_RATIO = {"exactly_once": 0.9, "at_least_once": 0.85}
"""Share of the throughput of a worker that emits every page."""
LATENCY_TIMES = 1.3
LATENCY_MS = {"exactly_once": (50, 120), "at_least_once": (20, 60)}
"""Bounds of p50 and p99 of a page's latency."""
MEMORY_GROWTH = 0.1
LIBRARY_RATIO = 1.1
BACKFILL_RATIO = 1.6
PEER_RATIO = 3.6
CYRILLIC_RATIO = 1.25
LOOKUPS_PER_S = 2_000
LOOKUP_P99_MS = 20
SIGNING_US = 2_000
PACKAGES = ("aiokafka", "orjson", "rocksdict", "selectolax")


def bench_file() -> Path:
    """The path of docs/measured/bench.json in this repository."""
    return Path(__file__).resolve().parents[2] / "docs" / "measured" / "bench.json"


def keep(figures: dict[str, Any]) -> dict[str, Any]:
    """Merge new figures into bench.json by name, and return all of them with the machine."""
    path = bench_file()
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    stamped = {name: {**parts, "measured": datetime.now(UTC).date().isoformat()} for name, parts in figures.items()}
    merged = {**kept, **stamped, "machine": machine()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(merged, indent=2, sort_keys=True) + "\n", "utf-8")
    return merged


def machine() -> dict[str, Any]:
    """The machine of the figures, with Kafka, the commit and the measured packages."""
    packages = {package: version(package) for package in PACKAGES}
    return {**report.machine(), "kafka": _kafka_version(), "commit": _commit(), **packages}


def table(figures: dict[str, Any]) -> str:
    """All figures as a Markdown table: figure, value, target, whether it is met."""
    rows = [
        ("measurement", "figure", "target", "met"),
        ("---", "---:", "---:", "---"),
        *_kernel_rows(figures.get("kernel", {})),
        *_signing_rows(figures.get("signing", {})),
        *_index_rows(figures.get("index", {})),
        *_candidate_rows(figures.get("candidates", {})),
        *_pipeline_rows(figures.get("pipeline", {})),
        *_latency_rows(figures.get("latency", {})),
        *_compression_rows(figures.get("compression", {})),
        *_memory_rows(figures.get("memory", {})),
        *_library_rows(figures.get("library", {})),
        *_backfill_rows(figures.get("backfill", {})),
        *_serve_rows(figures.get("serve", {})),
        *_peer_rows(figures.get("peers", {})),
        *_letter_rows(figures.get("letters", {})),
    ]
    about = figures.get("machine", {})
    first = f"{about.get('cpu')}, {about.get('cores')} cores, Python {about.get('python')}, Kafka {about.get('kafka')}"
    return "\n".join([first, "", *("| " + " | ".join(row) + " |" for row in rows)])


Row = tuple[str, str, str, str]


def _kernel_rows(kernel: dict[str, Any]) -> Iterator[Row]:
    if not kernel:
        return
    speed, ratio = kernel["kernel_mb_per_s"], kernel["ratio"]
    yield (
        f"kernel, HTML to the default scheme's complete signature, one core ({kernel['source']})",
        f"{speed:.0f} MB/s",
        f">= {KERNEL_MB_PER_S} MB/s",
        met(speed >= KERNEL_MB_PER_S),
    )
    chain = kernel["chain_mb_per_s"]
    yield (
        "kernel of `chain`, HTML to spots and simhash, one core",
        f"{chain:.0f} MB/s",
        f">= {CHAIN_MB_PER_S} MB/s",
        met(chain >= CHAIN_MB_PER_S),
    )
    yield (
        f"selectolax parse + text, {kernel['selectolax_mb_per_s']:.0f} MB/s; kernel is",
        f"{ratio:.1f} x",
        f">= {KERNEL_RATIO} x",
        met(ratio >= KERNEL_RATIO),
    )


def _signing_rows(signing: dict[str, Any]) -> Iterator[Row]:
    for name, cost in sorted(signing.items()):
        if name not in ("page_bytes", "measured", "source"):
            yield (
                f"signing a page of 20 KB, `{name}`, CPU",
                f"{cost:.0f} us",
                f"<= {SIGNING_US} us",
                met(cost <= SIGNING_US),
            )


def _index_rows(index: dict[str, Any]) -> Iterator[Row]:
    for name in sorted((key for key in index if "." in key), key=lambda key: [int(part) for part in key.split(".")]):
        number, tables = name.split(".")
        cost, aim = index[name]["cpu_us_per_page"], (number, tables) == ("1000000", "10")
        yield (
            f"index at {int(number):,} fingerprints, {tables} tables, CPU a page",
            f"{cost:.1f} us",
            f"<= {INDEX_US} us" if aim else "",
            met(cost <= INDEX_US) if aim else "",
        )


def _candidate_rows(candidates: dict[str, Any]) -> Iterator[Row]:
    for name in sorted((key for key in candidates if key.isdigit()), key=int):
        figures = candidates[name]
        cost, size = figures["cpu_us_per_page"], figures["state_bytes_per_entry"]
        what = f"of the default scheme at {figures['pages']:,} pages with their hosts' memory"
        yield (f"index {what}, CPU a page", f"{cost:.1f} us", f"<= {CANDIDATES_US} us", met(cost <= CANDIDATES_US))
        yield (
            f"state {what}, bytes for each indexed page, without its URL",
            f"{size:.0f}",
            f"<= {STATE_BYTES}",
            met(size <= STATE_BYTES),
        )


def _pipeline_rows(pipeline: dict[str, Any]) -> Iterator[Row]:
    for guarantee in ("exactly_once", "at_least_once"):
        if guarantee not in pipeline:
            continue
        ours, theirs = pipeline[f"{guarantee}.filter"], pipeline[f"{guarantee}.passthrough"]
        ratio = pipeline[guarantee]["ratio"]
        yield f"whole filter, {guarantee}", f"{ours['pages_per_s']:.0f} pages/s", "", ""
        yield f"plain aiokafka pass-through, {guarantee}", f"{theirs['pages_per_s']:.0f} pages/s", "", ""
        spread = f"({pipeline[guarantee]['ratio_least']:.2f}..{pipeline[guarantee]['ratio_most']:.2f})"
        yield (
            f"filter / pass-through, {guarantee} {spread}",
            f"{ratio:.2f}",
            f">= {PIPELINE_RATIO[guarantee]}",
            met(ratio >= PIPELINE_RATIO[guarantee]),
        )
        client = f"{ours['client_cpu_us']:.0f} us, {theirs['client_cpu_us']:.0f} us"
        yield f"CPU a page, {guarantee}: filter, pass-through", client, "", ""
        broker = f"{ours['broker_cpu_us']:.0f} us, {theirs['broker_cpu_us']:.0f} us"
        yield f"CPU of the broker a page, {guarantee}: filter, pass-through", broker, "", ""


def _latency_rows(latency: dict[str, Any]) -> Iterator[Row]:
    names = [name.split(".") for name in latency if "." in name]
    for guarantee, rate in sorted(names, key=lambda name: (name[0], int(name[1]))):
        name = f"{guarantee}.{rate}"
        p50, p99 = latency[name]["p50_ms"], latency[name]["p99_ms"]
        most_p50, most_p99 = LATENCY_MS[guarantee]
        yield (
            f"a page of 20 KB at {int(rate):,}/s, produce to read_committed, {guarantee}: p50, p99",
            f"{p50:.0f}, {p99:.0f} ms",
            f"<= {most_p50}, {most_p99} ms",
            met(p50 <= most_p50 and p99 <= most_p99),
        )
        if "passthrough_p50_ms" in latency[name]:
            plain = latency[name]["passthrough_p50_ms"], latency[name]["passthrough_p99_ms"]
            yield "the same of the plain aiokafka pass-through, in turn", f"{plain[0]:.0f}, {plain[1]:.0f} ms", "", ""
            times = p50 / plain[0], p99 / plain[1]
            what = "times the latency of the pass-through: p50, p99"
            yield what, f"{times[0]:.1f}, {times[1]:.1f}", f"<= {LATENCY_TIMES}", met(max(times) <= LATENCY_TIMES)


def _compression_rows(compression: dict[str, Any]) -> Iterator[Row]:
    for codec, parts in compression.items():
        if isinstance(parts, dict):
            cost = f"{parts['cpu_us_per_page']:.0f} us, {parts['ratio']:.1f} x smaller"
            yield f"producer compression {codec}, CPU for 20 KB ({compression['source']})", cost, "", ""


def _memory_rows(memory: dict[str, Any]) -> Iterator[Row]:
    if not memory:
        return
    figure = f"{memory['rss_early_mib']:.0f}, {memory['rss_mib']:.0f} MiB ({memory['growth']:+.1%})"
    what = f"RSS after {memory['early_pages']:,} and {memory['pages']:,} pages"
    yield what, figure, f"+{MEMORY_GROWTH:.0%} at most", met(memory["growth"] <= MEMORY_GROWTH)


def _library_rows(library: dict[str, Any]) -> Iterator[Row]:
    if not library:
        return
    ours, theirs = library["library_pages_per_s"], library["filter_pages_per_s"]
    yield "`Deduplicator.add_many`, state on disk; `spotsieve filter`", f"{ours:.0f}, {theirs:.0f} pages/s", "", ""
    ratio, most = library["ratio"], library["ratio_most"]
    what = f"pages/s of `spotsieve filter` / of `Deduplicator.add_many` (at most {most:.2f})"
    yield what, f"{ratio:.2f}", f"<= {LIBRARY_RATIO}", met(ratio <= LIBRARY_RATIO)
    one = f"{library['add_us']:.0f} us, {library['query_us']:.0f} us"
    yield "`Deduplicator.add`, `Deduplicator.query` of one page of 20 KB", one, "", ""
    memory = f"{library['memory_bytes_per_page'] / 1000:.1f} KB"
    yield "an emitted page in `Deduplicator()`, in memory", memory, "", ""


def _backfill_rows(backfill: dict[str, Any]) -> Iterator[Row]:
    if not backfill:
        return
    ours, theirs, ratio = backfill["backfill_s"], backfill["filter_s"], backfill["ratio"]
    files = f"{backfill['pages']:,} pages of 20 KB, whole commands"
    yield f"`spotsieve backfill`; `spotsieve filter` over {files}", f"{ours:.0f}, {theirs:.0f} s", "", ""
    yield (
        "how many times as fast backfill is",
        f"{ratio:.2f} x",
        f">= {BACKFILL_RATIO} x",
        met(ratio >= BACKFILL_RATIO),
    )
    yield "the same, without the start of either command", f"{backfill['pace_ratio']:.2f} x", "", ""


def _serve_rows(serve: dict[str, Any]) -> Iterator[Row]:
    if not serve:
        return
    rate, p99 = serve["lookups_per_s"], serve["p99_ms"]
    yield (
        f"`spotsieve serve`, look-ups of one page of 20 KB at a steady {serve['rate']:,}/s: answered; p50, p99",
        f"{rate:.0f}/s; {serve['p50_ms']:.1f}, {p99:.1f} ms",
        f"{LOOKUPS_PER_S:,}/s; p99 <= {LOOKUP_P99_MS} ms",
        met(rate >= 0.98 * LOOKUPS_PER_S and p99 <= LOOKUP_P99_MS),
    )
    yield "the same: CPU of the server a look-up", f"{serve['server_cpu_us']:.0f} us", "", ""
    most = f"{serve['most_lookups_per_s']:.0f}/s; p99 {serve['most_p99_ms']:.0f} ms"
    yield f"`spotsieve serve`, {serve['connections']} clients that wait for each answer", most, "", ""


def _peer_rows(peers: dict[str, Any]) -> Iterator[Row]:
    if not peers:
        return
    pair = f"{peers['filter_us']:.0f} us; {peers['peer_us']:.0f} us"
    yield f"`spotsieve filter`; selectolax + rensa, CPU a page ({peers['source']})", pair, "", ""
    ratio = peers["ratio"]
    yield (
        "how many times as fast the filter is",
        f"{ratio:.1f} x",
        f">= {PEER_RATIO} x",
        met(ratio >= PEER_RATIO),
    )
    bound = f"{peers['bound_ratio']:.1f} x"
    yield "CPU of the filter by that of a mere exact hash in Polars", bound, "", ""


def _letter_rows(letters: dict[str, Any]) -> Iterator[Row]:
    if not letters:
        return
    yield (
        f"`spotsieve filter`, CPU a page in Latin letters ({letters['source']})",
        f"{letters['us.Latin']:.0f} us",
        "",
        "",
    )
    for name, ratio in ((key.removeprefix("ratio."), letters[key]) for key in letters if key.startswith("ratio.")):
        target = (f"<= {CYRILLIC_RATIO}", met(ratio <= CYRILLIC_RATIO)) if name == "Cyrillic" else ("", "")
        what = "their text as plain text" if name == "plain text" else f"the same pages, {name}"
        yield f"{what}: CPU a page, of that in Latin letters", f"{ratio:.2f}", *target


def _kafka_version() -> str:
    from spotsieve.stream.demo.localkafka import release

    return release()


def _commit() -> str:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
