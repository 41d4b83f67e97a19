"""The service's Prometheus metrics, and a histogram that observes whole arrays."""

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
SKIPPED_RECORDS = ("foreign", "configuration", "skipped")
POISON_STEPS = ("decode", "sign", "judge")
STAGE_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_PAGES_BUCKETS = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096)
CANDIDATE_BUCKETS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
BUCKET_ENTRY_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
KEYS = {
    KeyKind.BODY: "body",
    KeyKind.TEXT: "text",
    KeyKind.TABLES: "tables",
    KeyKind.MINIMA: "minhash",
    KeyKind.BLOCKS: "block_fingerprints",
    KeyKind.TITLE: "title",
    KeyKind.URL: "url",
}
"""Label values of spotsieve_duplicates_by_key."""
INDEX_MEMORY = {
    "cache": "cache_bytes",
    "pinned": "cache_pinned_bytes",
    "memtables": "memtable_bytes",
    "tables": "table_reader_bytes",
}
"""Label values of spotsieve_index_memory_bytes, each with its key in State.stats()."""
PAGE_BYTES_BUCKETS = (256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
TEXTS = ("kept", "in_need", "too_little", "none")
"""Label values of spotsieve_page_texts.

kept: the main text alone. in_need: the main text was too short, so the next best blocks were added. too_little: fewer
than scheme.min_features features. none: the page has no text, or no readable text."""
_KEPT, _IN_NEED, _TOO_LITTLE, _NO_TEXT, _UNREAD = range(len(TEXTS) + 1)
"""Indices into TEXTS, and one more for filtered pages."""
_TEXT_OF_STATUS = np.full(max(SignatureStatus) + 1, _NO_TEXT, np.uint8)
"""uint8, indexed by SignatureStatus. The statuses do not tell `kept` from `in_need`; the language code does."""
_TEXT_OF_STATUS[[SignatureStatus.FINGERPRINTED, SignatureStatus.PARTIAL, SignatureStatus.TOO_MANY_FEATURES]] = _KEPT
_TEXT_OF_STATUS[SignatureStatus.TOO_FEW_FEATURES] = _TOO_LITTLE
_TEXT_OF_STATUS[[SignatureStatus.INCOMPLETE, *FILTERED]] = _UNREAD
_REASONS = max(Reason) + 1


class ArrayHistogram(Collector):
    """A histogram that observes an array: one call per micro-batch instead of one per page."""

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
        """Yield the cumulative buckets for a scrape."""
        running = np.cumsum(self._counts)
        labels = [*(f"{bound:g}" if bound < 1e6 else str(int(bound)) for bound in self._bounds), "+Inf"]
        buckets = [(label, float(count)) for label, count in zip(labels, running, strict=True)]
        yield HistogramMetricFamily(self._name, self._about, buckets=buckets, sum_value=self._sum)

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Yield the name only, so that registration collects no values."""
        yield HistogramMetricFamily(self._name, self._about)


class Metrics:
    """All metrics of the service, in a separate registry."""

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
        """Remove the series of all (topic, partition) pairs except these from the gauges of input partitions."""
        wanted = {(topic, str(partition)) for topic, partition in partitions}
        for gauge in (self.lag, self.unstable, self.transaction_age):
            for sample in next(iter(gauge.collect())).samples:
                if (labels := (sample.labels["topic"], sample.labels["partition"])) not in wanted:
                    gauge.remove(*labels)

    def observe_state(self, stats: Mapping[str, int], disk: tuple[int, int]) -> None:
        """Set the gauges of the state from State.stats(), which counts swept_buckets since the state was opened.

        disk: total and free bytes of the file system that holds the state
        """
        self.disk_size.set(disk[0])
        self.disk_free.set(disk[1])
        self.state_entries.set(stats["entries"])
        self.state_bytes.set(stats["bytes_on_disk"])
        for kind, figure in INDEX_MEMORY.items():
            self.index_memory.labels(kind).set(stats.get(figure, 0))
        self.first_live_entry.set(stats["floor"])
        self.watermark.set(stats["watermark_ms"] / 1000)
        self.swept_buckets.inc(stats["swept_buckets"] - self._swept_buckets)
        self._swept_buckets = stats["swept_buckets"]

    def observe_waiting(self, shards: Collection[int], seconds: float) -> None:
        """Set how many seconds the open round has waited for these shards, and 0 for all other shards."""
        for number in self._waited_for | set(shards):
            self.response_age.labels(str(number)).set(seconds if number in shards else 0)
        self._waited_for = set(shards)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Observe the time of the block as a duration of this stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stage.labels(stage).observe(time.perf_counter() - start)

    def observe_judged(self, verdicts: Verdicts, bucket_sizes: NDArray[np.int64], capped: int, filled: int) -> None:
        """Count the candidates, bucket sizes and limits of one judged log record.

        bucket_sizes: int64[b], postings per bucket that grew
        capped: postings not indexed because their bucket was full
        filled: buckets that became full
        """
        self.candidates.observe(verdicts.candidates)
        self.bucket_entries.observe(bucket_sizes)
        self.capped_postings.inc(capped)
        self.capped_buckets.inc(filled)
        self.candidate_limited_pages.inc(int(np.count_nonzero(verdicts.cut)))

    def pages_by_kind(self) -> dict[Kind, int]:
        """Number of pages committed since the start, by kind of verdict."""
        totals = dict.fromkeys(Kind, 0)
        for reason in REASONS:
            value = self.registry.get_sample_value(
                "spotsieve_pages_total", {"verdict": reason.kind.label, "reason": reason.label}
            )
            totals[reason.kind] += int(value or 0)
        return totals

    def rejected(self) -> dict[str, int]:
        """Number of messages sent to the dead letter topic since the start, by reason."""
        return {
            sample.labels["reason"]: int(sample.value)
            for family in self.dead_letters.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        }

    def count_verdicts(self, verdicts: Verdicts, rows: NDArray[np.int64], message_bytes: NDArray[np.int64]) -> None:
        """Count committed pages.

        rows: int64[n], their rows in verdicts
        message_bytes: int64[n], the size of each message
        """
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
        """Count committed pages by the source of their main text and by language. Filtered pages have no main text.

        rows: int64[n], their rows in signatures
        """
        texts, paths = _TEXT_OF_STATUS[signatures.status[rows]], signatures.language[rows]
        texts[(texts == _KEPT) & (paths >= IN_NEED)] = _IN_NEED
        for text, number in _numbers(texts):
            if text != _UNREAD:
                self._texts[text].inc(number)
        for path, number in _numbers(paths[texts <= _TOO_LITTLE] & ~np.uint8(IN_NEED)):
            self._languages[path].inc(number)

    def count_hosts(self, signatures: Signatures, verdicts: Verdicts, rows: NDArray[np.int64]) -> None:
        """Count committed pages by host.

        rows: int64[n], their rows in signatures and verdicts
        """
        dropped = verdicts.kind[rows] == Kind.DUPLICATE
        self.hosts.count((signatures.urls[row] for row in rows.tolist()), dropped.tolist())

    def count_rules(self, pages_by_rule: Mapping[str, int]) -> None:
        """Count pages by the name of the rule that matches them. A rule with 0 pages is exposed too."""
        for rule, pages in pages_by_rule.items():
            self.rule_pages.labels(rule).inc(pages)

    def rules_without_pages(self) -> list[str]:
        """Names of the rules that have matched no page since the start."""
        (family,) = self.rule_pages.collect()
        counts = (sample for sample in family.samples if sample.name.endswith("_total"))
        return [sample.labels["rule"] for sample in counts if not sample.value]

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self.registry)

    def _declare_pages(self) -> None:
        """Metrics of pages: verdicts, sizes, text and dead letters."""
        self.pages = self._counter(
            "spotsieve_pages", "Pages judged and committed, by verdict and reason.", "verdict", "reason"
        )
        self.page_bytes = self._counter("spotsieve_page_bytes", "Bytes of messages committed, by verdict.", "verdict")
        self.page_size = ArrayHistogram(
            "spotsieve_page_size_bytes", "Size of the message that holds a page.", PAGE_BYTES_BUCKETS, self.registry
        )
        self.languages = self._counter(
            "spotsieve_page_languages",
            "Pages with text, by language. und: no word list fits. unspaced: a script without spaces.",
            "language",
        )
        self.texts = self._counter("spotsieve_page_texts", "Pages by how their main text was found.", "text")
        self.found_by = self._counter(
            "spotsieve_duplicates_by_key", "Duplicates by each kind of key that they share with their original.", "key"
        )
        self.hosts = HostMetrics(self.registry)
        self.rule_pages = self._counter(
            "spotsieve_rule_pages",
            "Pages that each of [[rules]] matches. A rule that stays at 0 matches no page of the input.",
            "rule",
        )
        self.tombstones = self._counter("spotsieve_tombstones", "Messages without a value, emitted unchanged.")
        self.dead_letters = self._counter(
            "spotsieve_dead_letters", "Messages sent to the dead letter topic, by reason.", "reason"
        )
        self.poison_pages = self._counter(
            "spotsieve_poison_pages",
            "Pages emitted unchecked because a defect of Spotsieve stopped a step (decode, sign, judge).",
            "step",
        )
        self.future_times = self._counter(
            "spotsieve_future_times",
            "Pages whose fetch time was later than the time of their message, and was set back to it.",
        )
        self.repaired_utf8 = self._counter(
            "spotsieve_repaired_utf8_pages",
            "Pages with invalid UTF-8, read as UTF-8 with U+FFFD in its place.",
        )
        self.without_rank = self._counter(
            "spotsieve_pages_without_rank",
            "Pages without a number or date at input.rank_from. They rank last.",
        )

    def _declare_judging(self) -> None:
        """Metrics of micro-batches and of the index buckets."""
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
            "Entries of a bucket after a page was indexed in it.",
            BUCKET_ENTRY_BUCKETS,
            self.registry,
        )
        self.capped_postings = self._counter(
            "spotsieve_capped_postings", "Postings not indexed because the bucket was full (bucket_cap)."
        )
        self.capped_buckets = self._counter("spotsieve_capped_buckets", "Buckets that became full (bucket_cap).")
        self.candidate_limited_pages = self._counter(
            "spotsieve_candidate_limited_pages", "Pages with more candidates than are compared (candidate_limit)."
        )
        self.forgotten = self._counter(
            "spotsieve_forgotten_pages", "Pages removed from the state by spotsieve state forget."
        )

    def _declare_state(self) -> None:
        """Metrics of the state and its log."""
        self.state_entries = self._gauge(
            "spotsieve_state_entries", "Pages indexed in the state and inside the deduplication window."
        )
        self.state_bytes = self._gauge("spotsieve_state_bytes", "Bytes of the state on disk.")
        self.disk_size = self._gauge("spotsieve_disk_size_bytes", "Bytes of the file system that holds the state.")
        self.disk_free = self._gauge("spotsieve_disk_free_bytes", "Free bytes of that file system.")
        self.index_memory = self._gauge(
            "spotsieve_index_memory_bytes",
            "Memory of RocksDB: cache (index.cache_mb: blocks, filters, indexes), pinned (the part of the cache that "
            "cannot be evicted now), memtables (data that is not in table files yet), tables (data of open files "
            "outside the cache).",
            "kind",
        )
        self.first_live_entry = self._gauge(
            "spotsieve_state_first_live_entry",
            "Number of the first entry inside the deduplication window. All entries before it are removed.",
        )
        self.watermark = self._gauge(
            "spotsieve_watermark_seconds",
            "Greatest event time of the log so far (Unix time). 0 without a deduplication window.",
        )
        self.swept_buckets = self._counter(
            "spotsieve_swept_buckets", "Buckets searched for entries outside the deduplication window."
        )
        self.log_position = self._gauge("spotsieve_log_position", "Offset of the next log record to apply.")
        self.log_end = self._gauge("spotsieve_log_end", "End offset of the log.")
        self.log_skipped = self._counter(
            "spotsieve_log_skipped_records",
            "Log records that only moved the position: records of other programs (foreign), configurations that came "
            "too late, and records that spotsieve topics skip-record names (skipped).",
            "why",
        )
        self.log_gap = self._gauge(
            "spotsieve_log_gap_seconds",
            "Estimated time until a starting worker has caught up with its log. 0 once it joins its group.",
        )

    def _declare_rounds(self) -> None:
        """Metrics of a service whose state is split over shards."""
        self.role = self._gauge(
            "spotsieve_role",
            "1 while this process works in its role, 0 before that and while a resolver is on standby. A process "
            "without a role has no such series.",
            "role",
            "shard",
        )
        self.response_age = self._gauge(
            "spotsieve_shard_response_age_seconds",
            "Time that the open round has waited for the response of a shard, by shard that is late.",
            "shard",
        )
        self.rounds = self._counter("spotsieve_rounds", "Rounds that this shard indexed or this resolver published.")
        self.round_speculations = self._counter(
            "spotsieve_round_speculations",
            "Repeated sequential resolutions of a round by the shards, under a corrected speculation.",
        )
        self.round_pages = Histogram(
            "spotsieve_round_pages",
            "Pages of a round.",
            buckets=(1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536),
            registry=self.registry,
        )
        self.round_seconds = Histogram(
            "spotsieve_round_seconds",
            "Time from the announcement of a round to its outcome.",
            buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60),
            registry=self.registry,
        )

    def _declare_broker(self) -> None:
        """Metrics of commits, the broker and the worker process."""
        by_partition = ("topic", "partition")
        self.lag = self._gauge(
            "spotsieve_consumer_lag", "Readable messages that are not committed yet, by input partition.", *by_partition
        )
        self.unstable = self._gauge(
            "spotsieve_unstable_messages",
            "Messages that open transactions hide (high watermark minus last stable offset), by input partition.",
            *by_partition,
        )
        self.transaction_age = self._gauge(
            "spotsieve_open_transaction_seconds",
            "Time that the last stable offset has stood still below the high watermark, by input partition.",
            *by_partition,
        )
        self.commits = self._counter("spotsieve_commits", "Commits of input offsets.")
        self.commit_failures = self._counter(
            "spotsieve_commit_failures", "Commits that failed and were repeated, by error.", "error"
        )
        self.expired = self._counter(
            "spotsieve_expired_messages", "Messages that the input topic's retention removed before they were read."
        )
        self.driver_patches = self._gauge(
            "spotsieve_driver_patch",
            "1 if a performance patch of the Kafka driver is applied, 0 if it is left out.",
            "patch",
        )
        self.retries = self._counter(
            "spotsieve_broker_retries", "Waits for the broker before a retry, by step.", "step"
        )
        self.rebalances = self._counter("spotsieve_rebalances", "Assignments of input partitions.")
        self.partitions = self._gauge("spotsieve_assigned_partitions", "Input partitions assigned to this worker.")
        self.open_partitions = self._gauge(
            "spotsieve_open_partitions", "Input partitions that are assigned to this worker and open for reading."
        )
        self.loop_delay = Histogram(
            "spotsieve_event_loop_delay_seconds",
            "Delay of a task that the event loop should run once a second.",
            buckets=STAGE_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self.ready = self._gauge(
            "spotsieve_ready", "1 while the worker judges pages. 0 while it starts, stops or waits for the broker."
        )
        self.build = Info("spotsieve_build", "Version and scheme.", registry=self.registry)

    def _show_zeros(self) -> None:
        """Expose every known label at 0, and cache the counters that every commit increments."""
        for stage in STAGES:
            self.stage.labels(stage)
        # The lookup of a label takes 2 us, and a commit of a few pages increments about thirty counters.
        self._pages_of = {
            (int(reason.kind), int(reason)): self.pages.labels(reason.kind.label, reason.label) for reason in REASONS
        }
        self._bytes_of = {int(kind): self.page_bytes.labels(kind.label) for kind in Kind}
        self._found_by = {int(key): self.found_by.labels(name) for key, name in KEYS.items()}
        self._languages = [self.languages.labels(language) for language in path_names()]
        self._texts = [self.texts.labels(text) for text in TEXTS]
        for rejection in RejectReason:
            self.dead_letters.labels(rejection.value)
        for step in POISON_STEPS:
            self.poison_pages.labels(step)
        for why in SKIPPED_RECORDS:
            self.log_skipped.labels(why)


def _numbers(values: NDArray[np.integer]) -> list[tuple[int, int]]:
    """(value, count) for each value that occurs. values: small non-negative integers"""
    return [(value, number) for value, number in enumerate(np.bincount(values).tolist()) if number]
