"""Runs a worker on many partitions with a backlog, watches it, and lets a second worker join."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from aiokafka import AIOKafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from spotsieve.stream.demo.localkafka import LocalKafka
from tests.fixtures.brokers.certificates import Authority
from tests.fixtures.brokers.listeners import HOST, Listener, free_ports, listener_settings
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import html_of
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import wait_until

DIFFERENT_PAGES = 500
LOOK_SECONDS = 0.5
MOST_SECONDS = 600.0
SESSION_MS = 30_000
"""The default value: a missed heartbeat must cost partitions here if it would in production."""


@dataclass(frozen=True, slots=True)
class PartitionsPlan:
    """The number and size of partitions, and how long the worker is watched after it has opened them."""

    partitions: int
    partition_bytes: int
    page_bytes: int
    watch_seconds: float


@dataclass(frozen=True, slots=True)
class PartitionsResult:
    """The figures of a run.

    opened_seconds: from the assignment until the last partition is open, while the worker already reads the backlog
    rebalances: of the first worker before the second one joins: 1 for its own joining, one more per missed session
    late_loops: number of times that the event loop returned more than a heartbeat interval late
    worst_loop_seconds: the upper bound of the histogram class of the slowest turn
    stayed, movable: partitions that the first worker kept when the second one joined, and how many it may keep
    """

    sent_bytes: int
    opened_seconds: float
    most_rss_mib: float
    most_sockets: int
    rebalances: int
    late_loops: int
    worst_loop_seconds: float
    pages: int
    pages_per_second: float
    reopened_seconds: float
    stayed: int
    movable: int


def measure(scratch: Path, plan: PartitionsPlan, say: Callable[[str], None]) -> PartitionsResult:
    """Start a broker with a TLS port, fill the topic, and watch the workers."""
    authority = Authority(scratch / "ca", "test CA")
    plain, tls, controller = free_ports(3)
    settings = {
        **listener_settings({"PLAINTEXT": Listener(plain), "TLS": Listener(tls, "SSL")}, controller),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign("broker", f"IP:{HOST}").both),
        # A thousand partitions of each topic slow a small broker: a late heartbeat must not fence it.
        "broker.session.timeout.ms": "120000",
        "transaction.state.log.num.partitions": "50",
        "offsets.topic.num.partitions": "50",
    }
    with LocalKafka(port=plain, heap_mb=1536, settings=settings) as kafka:
        say(f"making 4 topics of {plan.partitions} partitions")
        with TopicSet(kafka.bootstrap_servers, partitions=plan.partitions) as topics:
            say(f"sending {plan.partitions * plan.partition_bytes / 2**20:,.0f} MiB of pages")
            sent = asyncio.run(_fill(kafka.bootstrap_servers, topics.names["input"], plan))
            toml = topics.toml(SESSION_MS) + (
                f'kafka.bootstrap_servers = "{HOST}:{tls}"\nkafka.security_protocol = "SSL"\n'
                f'kafka.ssl_cafile = "{authority.certificate}"\n'
            )
            # TOML rejects a name that is set twice, so the plain address is removed.
            lines = [line for line in toml.splitlines() if f":{plain}" not in line]
            return _watch(scratch, "\n".join(lines) + "\n", plan, sent, say)


async def _fill(servers: str, topic: str, plan: PartitionsPlan) -> int:
    """Send every partition its pages; returns the bytes of all pages. Copies are fine: only the size matters."""
    filler = "<script>" + "x" * plan.page_bytes + "</script>"
    pages = [html_of(number, sentences=30) for number in range(DIFFERENT_PAGES)]
    values = [
        b'{"url": "https://site.example/%d", "body": "%s"}'
        % (number, (page + filler)[: plan.page_bytes].replace('"', "'").encode())
        for number, page in enumerate(pages)
    ]
    each = max(1, plan.partition_bytes // plan.page_bytes)
    sent = 0
    async with AIOKafkaProducer(
        bootstrap_servers=servers, linger_ms=20, max_batch_size=900_000, max_request_size=2**22, acks=1
    ) as producer:
        for partition in range(plan.partitions):
            futures = []
            for number in range(each):
                value = values[(partition * each + number) % DIFFERENT_PAGES]
                futures.append(await producer.send(topic, value, partition=partition))
                sent += len(value)
            if partition % 8 == 7:
                await producer.flush()
        await producer.flush()
    return sent


def _watch(scratch: Path, toml: str, plan: PartitionsPlan, sent: int, say: Callable[[str], None]) -> PartitionsResult:
    with (
        Spotsieve(scratch, toml, name="worker-1") as first,
        Spotsieve(scratch, toml, name="worker-2") as second,
    ):
        first.start()
        looks = _Looks(first)
        wait_until(lambda: looks.take()["spotsieve_assigned_partitions"] == plan.partitions, MOST_SECONDS, "the group")
        assigned_at = time.monotonic()
        say("assigned; waiting until all are open")
        opened = "all partitions to be open"
        wait_until(lambda: looks.take()["spotsieve_open_partitions"] == plan.partitions, MOST_SECONDS, opened)
        opened_seconds = time.monotonic() - assigned_at
        say(f"all open after {opened_seconds:.1f} s; watching {plan.watch_seconds:.0f} s of backlog")
        began, pages = time.monotonic(), looks.take()["spotsieve_commits_pages"]
        while time.monotonic() - began < plan.watch_seconds:
            looks.take()
            time.sleep(LOOK_SECONDS)
        seen = looks.take()
        seconds = time.monotonic() - began
        before = first_partitions(first, plan.partitions)
        say("a second worker joins")
        second.start()
        half = plan.partitions // 2

        def shared() -> bool:
            looks.take()
            names = "spotsieve_assigned_partitions", "spotsieve_open_partitions"
            return all(worker.metric(name) == half for worker in (first, second.until_ready()) for name in names)

        joined_at = time.monotonic()
        wait_until(shared, MOST_SECONDS, "both workers to have opened their halves")
        reopened_seconds = time.monotonic() - joined_at
        stayed = len(before & first_partitions(first, half))
        return PartitionsResult(
            sent_bytes=sent,
            opened_seconds=opened_seconds,
            most_rss_mib=looks.most_rss_mib,
            most_sockets=looks.most_sockets,
            rebalances=int(seen["spotsieve_rebalances_total"]),
            late_loops=int(seen["late_loops"]),
            worst_loop_seconds=seen["worst_loop_seconds"],
            pages=int(seen["spotsieve_commits_pages"]),
            pages_per_second=(seen["spotsieve_commits_pages"] - pages) / seconds,
            reopened_seconds=reopened_seconds,
            stayed=stayed,
            movable=half,
        )


def first_partitions(worker: Spotsieve, number: int) -> set[int]:
    """The partitions whose lag the worker reports, which it reads, once there are `number` of them."""

    def shown() -> set[int] | None:
        families = text_string_to_metric_families(worker.get("/metrics")[1])
        found = {
            int(sample.labels["partition"])
            for family in families
            for sample in family.samples
            if sample.name == "spotsieve_consumer_lag"
        }
        return found if len(found) == number else None

    return wait_until(shown, MOST_SECONDS, f"the lags of {number} partitions")


class _Looks:
    """Polls a worker's metrics and process, and keeps the maxima."""

    def __init__(self, worker: Spotsieve) -> None:
        worker.until_ready()
        self._worker = worker
        self._process = psutil.Process(worker.alive.pid)
        self.most_rss_mib = 0.0
        self.most_sockets = 0

    def take(self) -> dict[str, float]:
        """The values by name. `late_loops`, `worst_loop_seconds` and `spotsieve_commits_pages` are computed here."""
        # The kernel's own maximum, which includes peaks between two polls.
        status = Path(f"/proc/{self._process.pid}/status").read_text("utf-8")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        self.most_rss_mib = int(peak.split()[1]) / 1024
        self.most_sockets = max(self.most_sockets, len(self._process.net_connections("tcp")))
        samples = list(self._samples())
        found: dict[str, float] = {name: value for name, labels, value in samples if not labels}
        found["spotsieve_commits_pages"] = sum(value for name, _, value in samples if name == "spotsieve_pages_total")
        loops = {
            float(labels["le"]): value
            for name, labels, value in samples
            if name == "spotsieve_event_loop_delay_seconds_bucket"
        }
        total = loops[float("inf")]
        found["late_loops"] = total - loops[2.5]
        found["worst_loop_seconds"] = min((bound for bound, count in loops.items() if count == total), default=0.0)
        return found

    def _samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        for family in text_string_to_metric_families(self._worker.get("/metrics")[1]):
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value
