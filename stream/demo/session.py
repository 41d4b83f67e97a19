"""Runs the demo once: starts the broker, sends the crawl, filters it, compares the results, and cleans up."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import orjson

from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.terminal import show
from spotsieve.stream.demo import present
from spotsieve.stream.demo.crawl import build_crawl
from spotsieve.stream.demo.explain import choose_examples, explain_example, pages_can_be_written, write_page
from spotsieve.stream.demo.filter_process import FilterProcess
from spotsieve.stream.demo.localkafka.jars import cache_directory
from spotsieve.stream.demo.present import DemoResult
from spotsieve.stream.demo.traffic import compare, count_brokers, delete_topics, receive_outputs, send_crawl
from spotsieve.stream.kafka.topics import create_topics, topic_names

PARTITIONS = 4
READY_TIMEOUT_S = 240.0
"""The first run on a machine compiles the kernels, which takes up to a minute."""
FILTER_TIMEOUT_S = 120.0
EXIT_NOT_GOOD = 1


def run_demo(bootstrap_servers: str | None, *, keep: bool, as_json: bool) -> int:
    """Run the whole demo; -> the exit code, EXIT_NOT_GOOD if a page was lost or doubled. Raises BrokerError."""
    # Our own error message reports a failure once. The log of aiokafka would repeat it without a next step.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    say = _stopwatch(sys.stderr if as_json else sys.stdout)
    with _sigterm_as_interrupt(), ExitStack() as stack:
        own_broker = bootstrap_servers is None
        servers = _start_broker(stack, say) if bootstrap_servers is None else bootstrap_servers
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spotsieve-demo-")))
        overrides = _overrides(
            servers, scratch / "state", "" if own_broker else f"spotsieve-demo-{uuid.uuid4().hex[:8]}."
        )
        settings = load_settings(None, {}, dict(overrides))
        replication = 1 if own_broker else min(3, asyncio.run(count_brokers(settings)))
        asyncio.run(create_topics(settings, PARTITIONS, replication))
        if not own_broker:
            names = list(topic_names(settings.topics).values())
            stack.callback(lambda: asyncio.run(delete_topics(settings, names)))
        say(f"topics created: {', '.join(topic_names(settings.topics).values())}")
        filter_process = FilterProcess(overrides, scratch / "filter.log")
        stack.enter_context(filter_process)
        result = _filter_crawl(settings, filter_process, say)
        _print(present.as_json(result) if as_json else present.as_text(result))
        if not as_json:
            _print(present.next_steps(_command(), kept=keep))
            _print(present.to_look_at(_write_explanations(result)))
        if keep:
            about = present.still_running(settings, filter_process.metrics_url)
            _wait(filter_process, lambda: _print(about, sys.stderr if as_json else sys.stdout))
    return 0 if result.outcome.good else EXIT_NOT_GOOD


def _filter_crawl(settings: Settings, filter_process: FilterProcess, say: Callable[[str], None]) -> DemoResult:
    crawl = build_crawl()
    asyncio.run(send_crawl(settings, crawl))
    size = sum(len(sent.value or b"") for sent in crawl)
    say(f"crawl sent: {len(crawl)} messages, {size / 1e6:.1f} MB, {PARTITIONS} partitions")
    say("filter starting; the first run on a machine compiles the kernels, up to a minute")
    filter_process.await_ready(READY_TIMEOUT_S)
    ready = time.monotonic()
    say("filter ready (spotsieve run, exactly_once)")
    filter_process.await_messages(len(crawl), FILTER_TIMEOUT_S)
    seconds = time.monotonic() - ready
    say("all messages judged and committed")
    received = asyncio.run(receive_outputs(settings))
    outcome = compare(crawl, received)
    chosen = [] if outcome.lost else choose_examples(crawl, outcome.reports)
    explanations = [explain_example(crawl, report, settings, borderline=borderline) for report, borderline in chosen]
    return DemoResult(crawl, received, outcome, explanations, seconds, settings)


def _write_explanations(result: DemoResult) -> list[Path]:
    """Write an HTML page for each example; -> the files in their order, none without the package for it."""
    if not pages_can_be_written():
        return []
    reports = {record.value: orjson.loads(record.value) for record in result.received.duplicates}
    written = list[Path]()
    for number, example in enumerate(result.explanations, 1):
        raw = next(value for value, report in reports.items() if report == example.report)
        written.append(cache_directory() / f"demo-example-{number}.html")
        write_page(written[-1], result.crawl, example.report, raw, result.settings)
    return written


def _start_broker(stack: ExitStack, say: Callable[[str], None]) -> str:
    from spotsieve.stream.demo.localkafka import LocalKafka, prepare, release

    prepare(say)
    say(f"starting Apache Kafka {release()}")
    broker = stack.enter_context(LocalKafka())
    say(f"Kafka serves {broker.bootstrap_servers}")
    return broker.bootstrap_servers


def _overrides(servers: str, state: Path, prefix: str) -> dict[str, str]:
    """The setting overrides of the demo. On a user's broker every topic and group has a prefix."""
    overrides = {"kafka.bootstrap_servers": servers, "index.directory": str(state)}
    if prefix:
        overrides |= {f"topics.{role}": prefix + name for role, name in topic_names(Settings().topics).items()}
        overrides["kafka.group_id"] = prefix + "filter"
    return overrides


def _command() -> str:
    """The command that calls spotsieve: its name if it is on the path, else as the demo was called."""
    called = Path(sys.argv[0])
    if shutil.which("spotsieve") or called.name != "spotsieve":
        return "spotsieve" if shutil.which("spotsieve") else "python -m spotsieve.stream"
    return os.path.relpath(called)


def _wait(filter_process: FilterProcess, announce: Callable[[], None]) -> None:
    """Call `announce`, and wait for Ctrl-C or SIGTERM, the expected end (exit code 0)."""
    with contextlib.suppress(KeyboardInterrupt):
        announce()
        while True:
            filter_process.check()
            time.sleep(0.5)


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C: first the filter stops, then the broker."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stopwatch(out: TextIO) -> Callable[[str], None]:
    start = time.monotonic()

    def say(text: str) -> None:
        show(f"[{time.monotonic() - start:5.1f} s] {text}", to=out)

    return say


def _print(text: str, out: TextIO | None = None) -> None:
    show(*text.split("\n"), to=out)
