"""Holds the service's metrics, named by the Prometheus conventions, and histograms that take whole arrays."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, PlatformCollector, ProcessCollector
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from spotsieve.stream.base.errors import RejectReason
from spotsieve.stream.base.signature import FILTERED, IN_NEED, Signatures, SignatureStatus
from spotsieve.stream.base.verdict import REASONS, KeyKind, Kind, Reason, Verdicts
from spotsieve.stream.observe.top_hosts import HostMetrics
from spotsieve.stream.sign.features.languages import path_names

STAGES = ("fetch", "sign", "append", "judge", "commit")
PASSED_RECORDS = ("foreign", "configuration", "skipped")
BREAKING_STEPS = ("decode", "sign", "judge")
STAGE_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_PAGES_BUCKETS = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096)
CANDIDATE_BUCKETS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
BUCKET_ENTRY_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
KEYS = {kind: kind.name.lower() for kind in KeyKind if kind.name}
INDEX_MEMORY = {
    "cache": "cache_bytes",
    "pinned": "cache_pinned_bytes",
    "memtables": "memtable_bytes",
    "tables": "table_reader_bytes",
}
"""Kinds of RocksDB's memory, and the figure of State.stats() that each is."""
PAGE_BYTES_BUCKETS = (256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class ArrayHistogram(Collector):
    """A histogram that takes whole arrays: one call of observe() for a micro-batch instead of one for each page."""

    def __init__(self, name: str, about: str, bounds: Sequence[float], registry: CollectorRegistry) -> None:
        self._name = name
        self._about = about
        self._bounds = np.asarray(bounds, np.float64)
        self._counts = np.zeros(len(bounds) + 1, np.int64)
        self._sum = 0.0
        registry.register(self)

    def observe(self, values: ArrayLike) -> None:
        """Count every value of an array of any shape."""
        flat = np.asarray(values, np.float64).ravel()
        places = np.searchsorted(self._bounds, flat, side="left")
        self._counts += np.bincount(places, minlength=len(self._counts))
        self._sum += float(flat.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The buckets that a scrape sees."""
        running = np.cumsum(self._counts)
        labels = [*(f"{bound:g}" if bound < 1e6 else str(int(bound)) for bound in self._bounds), "+Inf"]
        buckets = [(label, float(count)) for label, count in zip(labels, running, strict=True)]
        yield HistogramMetricFamily(self._name, self._about, buckets=buckets, sum_value=self._sum)

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Only the name, so that registering collects nothing."""
        yield HistogramMetricFamily(self._name, self._about)


class Metrics:
    """Every metric of the service, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._swept_buckets = 0
        self._waited_for = set[int]()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._declare_pages()
        self._declare_judging()
        self._declare_state()
        self._declare_rounds()
        self._declare_broker()
        self._show_zeros()

    def keep_lags(self, partitions: Collection[tuple[str, int]]) -> None:
        """Remove the lag of every (topic, partition) but these."""
        kept = {(topic, str(partition)) for topic, partition in partitions}
        for family in self.lag.collect():
            for sample in family.samples:
                if (sample.labels["topic"], sample.labels["partition"]) not in kept:
                    self.lag.remove(sample.labels["topic"], sample.labels["partition"])

    def observe_state(self, stats: Mapping[str, int], disk: tuple[int, int]) -> None:
        """Take over State.stats(), where swept_buckets counts from the opening of the state.

        disk: bytes of the file system that holds the state, and those of them that are free
        """
        self.disk_size.set(disk[0])
        self.disk_free.set(disk[1])
        self.state_entries.set(stats["entries"])
        self.state_bytes.set(stats["bytes_on_disk"])
        for kind, figure in INDEX_MEMORY.items():
            self.index_memory.labels(kind).set(stats.get(figure, 0))
        self.state_floor.set(stats["floor"])
        self.watermark.set(stats["watermark_ms"] / 1000)
        self.swept_buckets.inc(stats["swept_buckets"] - self._swept_buckets)
        self._swept_buckets = stats["swept_buckets"]

    def observe_waiting(self, shards: Collection[int], seconds: float) -> None:
        """Note the shards that the open round waits for, and for how long it does; the others wait no longer."""
        for number in self._waited_for | set(shards):
            self.unanswered.labels(str(number)).set(seconds if number in shards else 0)
        self._waited_for = set(shards)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count the time of the body as a duration of the stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stage.labels(stage).observe(time.perf_counter() - start)

    def observe_judged(self, verdicts: Verdicts, bucket_sizes: NDArray[np.int64], capped: int, filled: int) -> None:
        """Count the candidates, buckets and cuts of one judged record of the log.

        bucket_sizes: int64[b], postings of the buckets that grew  capped: filings left out because their bucket was
        full  filled: buckets that became full
        """
        self.candidates.observe(verdicts.candidates)
        self.bucket_entries.observe(bucket_sizes)
        self.capped_filings.inc(capped)
        self.capped_buckets.inc(filled)
        self.cut_pages.inc(int(np.count_nonzero(verdicts.cut)))

    def pages_by_kind(self) -> dict[Kind, int]:
        """Pages committed since the start, by kind of verdict."""
        totals = dict.fromkeys(Kind, 0)
        for reason in REASONS:
            value = self.registry.get_sample_value(
                "spotsieve_pages_total", {"verdict": reason.kind.name.lower(), "reason": reason.label}
            )
            totals[reason.kind] += int(value or 0)
        return totals

    def rejected(self) -> dict[str, int]:
        """Messages sent to the dead letters since the start, by reason."""
        return {
            sample.labels["reason"]: int(sample.value)
            for family in self.dead_letters.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        }

    def count_verdicts(self, verdicts: Verdicts, rows: NDArray[np.int64], message_bytes: NDArray[np.int64]) -> None:
        """Count committed pages.  rows: their indices in verdicts  message_bytes: int64[len(rows)]"""
        self.page_size.observe(message_bytes)
        kinds = verdicts.kind[rows]
        for pair, number in _numbers(kinds * np.int64(_REASONS) + verdicts.reason[rows]):
            self._pages_of[divmod(pair, _REASONS)].inc(number)
        for kind, size in enumerate(np.bincount(kinds, message_bytes).tolist()):
            self._bytes_of[kind].inc(size)
        for found_by, number in _numbers(verdicts.found_by[rows]):
            for key, counter in self._found_by.items():
                if found_by & key:
                    counter.inc(number)

    def count_texts(self, signatures: Signatures, rows: NDArray[np.int64]) -> None:
        """Count how the text of committed pages was found, and its language; filtered pages have none to be found.

        rows: their indices in signatures
        """
        texts, paths = _TEXT_OF_STATUS[signatures.status[rows]], signatures.language[rows]
        texts[(texts == _KEPT) & (paths >= IN_NEED)] = _IN_NEED
        for text, number in _numbers(texts):
            if text != _UNREAD:
                self._texts[text].inc(number)
        for path, number in _numbers(paths[texts <= _TOO_LITTLE] & ~np.uint8(IN_NEED)):
            self._languages[path].inc(number)

    def count_hosts(self, signatures: Signatures, verdicts: Verdicts, rows: NDArray[np.int64]) -> None:
        """Count committed pages by their hosts.  rows: their indices in signatures and verdicts"""
        dropped = verdicts.kind[rows] == Kind.DUPLICATE
        self.hosts.count((signatures.urls[row] for row in rows.tolist()), dropped.tolist())

    def count_rules(self, taken: Mapping[str, int]) -> None:
        """Count pages by the names of the rules that take them. A rule that takes none is shown, too."""
        for rule, pages in taken.items():
            self.rule_pages.labels(rule).inc(pages)

    def rules_without_pages(self) -> list[str]:
        """The rules that have taken no page since the start."""
        (family,) = self.rule_pages.collect()
        counts = (sample for sample in family.samples if sample.name.endswith("_total"))
        return [sample.labels["rule"] for sample in counts if not sample.value]

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self.registry)

    def _declare_pages(self) -> None:
        """Metrics of pages on their way: what became of them."""
        self.pages = self._counter(
            "spotsieve_pages", "Pages judged and committed, by verdict and reason.", "verdict", "reason"
        )
        self.page_bytes = self._counter("spotsieve_page_bytes", "Bytes of messages committed, by verdict.", "verdict")
        self.page_size = ArrayHistogram(
            "spotsieve_page_size_bytes", "Size of the message that holds a page.", PAGE_BYTES_BUCKETS, self.registry
        )
        self.languages = self._counter(
            "spotsieve_page_languages",
            "Pages with text, by language: und none of the lists, unspaced a script without spaces.",
            "language",
        )
        self.texts = self._counter("spotsieve_page_texts", "Pages by how their text was found.", "text")
        self.found_by = self._counter(
            "spotsieve_duplicates_met", "Duplicates by each kind of key under which they met their original.", "key"
        )
        self.hosts = HostMetrics(self.registry)
        self.rule_pages = self._counter(
            "spotsieve_rule_pages",
            "Pages that each of [[rules]] takes; a rule that stays at 0 names no page that comes.",
            "rule",
        )
        self.tombstones = self._counter("spotsieve_tombstones", "Messages without a value, passed through.")
        self.dead_letters = self._counter(
            "spotsieve_dead_letters", "Messages sent to the dead letters, by reason.", "reason"
        )
        self.internal_errors = self._counter(
            "spotsieve_internal_errors",
            "Pages passed on unchecked because an error of ours stopped a step (decode, sign, judge).",
            "step",
        )
        self.future_times = self._counter(
            "spotsieve_future_times", "Pages whose own time lay beyond their message's, and was set back to it."
        )
        self.without_rank = self._counter(
            "spotsieve_pages_without_rank",
            "Pages in whose message input.rank_from leads to no number or date; they count as the last of all.",
        )

    def _declare_judging(self) -> None:
        """Metrics of micro-batches, and of the buckets that judging met."""
        self.stage = Histogram(
            "spotsieve_stage_duration_seconds",
            "Time a micro-batch spends in a stage.",
            ("stage",),
            buckets=STAGE_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self.batch_pages = Histogram(
            "spotsieve_batch_pages", "Messages in a micro-batch.", buckets=BATCH_PAGES_BUCKETS, registry=self.registry
        )
        self.candidates = ArrayHistogram(
            "spotsieve_page_candidates", "Postings tested for a page.", CANDIDATE_BUCKETS, self.registry
        )
        self.bucket_entries = ArrayHistogram(
            "spotsieve_bucket_entries",
            "Entries in a bucket after a page was filed in it.",
            BUCKET_ENTRY_BUCKETS,
            self.registry,
        )
        self.capped_filings = self._counter(
            "spotsieve_capped_filings", "Postings not filed because the bucket was full (bucket_cap)."
        )
        self.capped_buckets = self._counter("spotsieve_capped_buckets", "Buckets that became full (bucket_cap).")
        self.cut_pages = self._counter(
            "spotsieve_cut_pages", "Pages that met more candidates than are compared (candidate_limit)."
        )
        self.forgotten = self._counter(
            "spotsieve_forgotten_pages", "Pages taken out of the state on demand (spotsieve state forget)."
        )

    def _declare_state(self) -> None:
        """Metrics of the state and its log."""
        self.state_entries = self._gauge("spotsieve_state_entries", "Pages filed in the state, and within the horizon.")
        self.state_bytes = self._gauge("spotsieve_state_bytes", "Bytes of the state on disk.")
        self.disk_size = self._gauge("spotsieve_disk_size_bytes", "Bytes of the file system that holds the state.")
        self.disk_free = self._gauge(
            "spotsieve_disk_free_bytes", "Bytes of that file system that the worker may still use."
        )
        self.index_memory = self._gauge(
            "spotsieve_index_memory_bytes",
            "Memory of RocksDB: cache (index.cache_mb: blocks, filters, indexes), pinned (what of the cache cannot be "
            "evicted now), memtables (what is not in table files yet), tables (what is held of open files beside the "
            "cache).",
            "kind",
        )
        self.state_floor = self._gauge(
            "spotsieve_state_floor", "Number of the first entry within the horizon: all before it are removed."
        )
        self.watermark = self._gauge(
            "spotsieve_watermark_seconds", "Greatest event time of the log so far (Unix time); 0 without a horizon."
        )
        self.swept_buckets = self._counter(
            "spotsieve_swept_buckets", "Buckets looked at for entries beyond the horizon."
        )
        self.log_position = self._gauge("spotsieve_log_position", "Offset of the next log record to apply.")
        self.log_end = self._gauge("spotsieve_log_end", "End offset of the log.")
        self.log_passed = self._counter(
            "spotsieve_log_passed_records",
            "Records of the log that moved nothing but the position: foreign ones, configurations that came too late, "
            "and those that topics skip-record names.",
            "why",
        )
        self.log_gap = self._gauge(
            "spotsieve_log_gap_seconds",
            "Time until a starting worker has caught up with its log, at the rate so far; 0 once it joins its group.",
        )

    def _declare_rounds(self) -> None:
        """What roles tell of a service whose state shards hold together."""
        self.role = self._gauge(
            "spotsieve_role",
            "1 while this process works in its role, 0 before, and while a resolver stands by. A process that does all "
            "has none.",
            "role",
            "shard",
        )
        self.unanswered = self._gauge(
            "spotsieve_unanswered_seconds",
            "Time for which the open round waits for a shard: of shards that the working resolver had to wait for.",
            "shard",
        )
        self.rounds = self._counter("spotsieve_rounds", "Rounds that this shard filed, or this resolver published.")
        self.round_guesses = self._counter(
            "spotsieve_round_guesses", "Times that shards walked through a round once more, by a better guess."
        )
        self.round_pages = Histogram(
            "spotsieve_round_pages",
            "Pages of a round.",
            buckets=(1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536),
            registry=self.registry,
        )
        self.round_seconds = Histogram(
            "spotsieve_round_seconds",
            "From naming a round to its outcome, with the answers of all shards.",
            buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60),
            registry=self.registry,
        )

    def _declare_broker(self) -> None:
        """Metrics of commits, the broker and the worker itself."""
        self.lag = self._gauge(
            "spotsieve_consumer_lag",
            "Messages that can be read and are not committed yet, by input partition.",
            "topic",
            "partition",
        )
        self.commits = self._counter("spotsieve_commits", "Commits of input offsets.")
        self.commit_failures = self._counter(
            "spotsieve_commit_failures", "Commits that failed and were redone, by error.", "error"
        )
        self.expired = self._counter(
            "spotsieve_expired_messages", "Messages that the input topic's retention removed before they were read."
        )
        self.retries = self._counter(
            "spotsieve_broker_retries", "Waits for the broker before another try, by step.", "step"
        )
        self.rebalances = self._counter("spotsieve_rebalances", "Times that input partitions were assigned.")
        self.partitions = self._gauge("spotsieve_assigned_partitions", "Input partitions assigned to this worker.")
        self.open_partitions = self._gauge(
            "spotsieve_open_partitions", "Input partitions that this worker reads: assigned, and opened since."
        )
        self.loop_delay = Histogram(
            "spotsieve_event_loop_delay_seconds",
            "How late the event loop came back to a task that asks once a second.",
            buckets=STAGE_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self.ready = self._gauge(
            "spotsieve_ready", "1 while the worker judges pages, 0 before, after, and while it waits for the broker."
        )
        self.build = Info("spotsieve_build", "Version and scheme.", registry=self.registry)

    def _show_zeros(self) -> None:
        """Make every known label visible before it is counted, and keep the counters that every commit asks for."""
        for stage in STAGES:
            self.stage.labels(stage)
        # Looking a label up takes 2 us, and each commit of a few pages counts under thirty.
        self._pages_of = {
            (int(reason.kind), int(reason)): self.pages.labels(reason.kind.name.lower(), reason.label)
            for reason in REASONS
        }
        self._bytes_of = {int(kind): self.page_bytes.labels(kind.name.lower()) for kind in Kind}
        self._found_by = {int(key): self.found_by.labels(name) for key, name in KEYS.items()}
        self._languages = [self.languages.labels(language) for language in path_names()]
        self._texts = [self.texts.labels(text) for text in TEXTS]
        for rejection in RejectReason:
            self.dead_letters.labels(rejection.value)
        for step in BREAKING_STEPS:
            self.internal_errors.labels(step)
        for why in PASSED_RECORDS:
            self.log_passed.labels(why)


def _numbers(values: NDArray[np.integer]) -> list[tuple[int, int]]:
    """How often each value occurs that does, of small ones that are not negative."""
    return [(value, number) for value, number in enumerate(np.bincount(values).tolist()) if number]


TEXTS = ("kept", "in_need", "too_little", "none")
"""kept: the page's own blocks; in_need: the page has too few of them, so others were kept, too; too_little: fewer than
scheme.min_features; none: the page has no text, or none that can be read."""
_KEPT, _IN_NEED, _TOO_LITTLE, _NO_TEXT, _UNREAD = range(len(TEXTS) + 1)
"""Places in TEXTS, and one more for pages whose text nobody looked for."""
_TEXT_OF_STATUS = np.full(max(SignatureStatus) + 1, _NO_TEXT, np.uint8)
"""Indexed by SignatureStatus. Pages that have blocks enough and those that are in need have the same."""
_TEXT_OF_STATUS[[SignatureStatus.FINGERPRINTED, SignatureStatus.TOO_MANY_FEATURES]] = _KEPT
_TEXT_OF_STATUS[SignatureStatus.TOO_FEW_FEATURES] = _TOO_LITTLE
_TEXT_OF_STATUS[list(FILTERED)] = _UNREAD
_REASONS = max(Reason) + 1
