"""The dashboard rows for the log, the broker and the worker process."""

from bench.deploy.dashboard.panels import graph, row, stacked, table
from bench.deploy.dashboard.queries import each, gained, quantile, query, rate

ROWS = (
    row(
        "Why not? The log and the broker",
        graph(
            "Log position",
            "Offset of the next log record to apply, and the end of the log.",
            each("spotsieve_log_position", legend="position, {{instance}}"),
            query("max(spotsieve_log_end)", legend="end"),
            width=8,
        ),
        graph(
            "Records behind the log's end",
            "Log records that a worker still has to apply. After a lost disk: the rebuild.",
            query("spotsieve_log_end - spotsieve_log_position", legend="{{instance}}"),
            width=8,
        ),
        stacked(
            "Waiting pages by partition",
            "Messages of the input topic that are not committed yet.",
            query("sum by (topic, partition) (spotsieve_consumer_lag)", legend="{{topic}}-{{partition}}"),
            width=8,
        ),
        graph(
            "Messages behind open transactions",
            "An open transaction hides these messages until its producer ends it. The lag does not count them.",
            query("sum by (topic, partition) (spotsieve_unstable_messages)", legend="{{topic}}-{{partition}}"),
        ),
        graph(
            "Age of open transactions",
            "Time that the last stable offset has stood still below the end of the partition.",
            query("max by (topic, partition) (spotsieve_open_transaction_seconds)", legend="{{topic}}-{{partition}}"),
            unit="s",
        ),
        graph("Commits", "Commits of input offsets.", rate("spotsieve_commits_total", legend="commits"), unit="cps"),
        stacked(
            "Failed commits by error",
            "Failed commits are repeated. No verdict is lost or doubled.",
            rate("spotsieve_commit_failures_total", by="error", or_zero=True),
            unit="cps",
        ),
        stacked(
            "Waits for the broker by step",
            "Requests that had to be repeated.",
            rate("spotsieve_broker_retries_total", by="step", or_zero=True),
            unit="cps",
        ),
        graph(
            "Rebalances",
            "Assignments of input partitions.",
            gained("spotsieve_rebalances_total", by="instance"),
        ),
        graph(
            "Time to the log's end at a start",
            ("Estimated seconds until a starting worker has caught up with its log and joins its group. 0 afterwards."),
            each("spotsieve_log_gap_seconds"),
            unit="s",
        ),
        graph(
            "Poison pages",
            (
                "Pages emitted unchecked because a defect of Spotsieve stopped a step. Their messages are in "
                "internal-errors/ of the state directory: please report them."
            ),
            gained("spotsieve_poison_pages_total", by="step"),
        ),
        graph(
            "Open partitions",
            "Input partitions that a worker reads, and partitions assigned to it. They differ while it opens them.",
            each("spotsieve_open_partitions", legend="open {{instance}}"),
            each("spotsieve_assigned_partitions", legend="assigned {{instance}}"),
        ),
        graph(
            "Driver patches left out",
            "Performance patches of the Kafka driver that the installed aiokafka does not fit. Pages only take longer.",
            query("sum by (instance) (1 - spotsieve_driver_patch)", legend="{{instance}}"),
        ),
        graph(
            "Log records skipped",
            (
                "Log records that only moved the position: records of other programs (foreign), configurations that "
                "came too late, and records that spotsieve topics skip-record names (skipped)."
            ),
            gained("spotsieve_log_skipped_records_total", by="instance, why", legend="{{why}} {{instance}}"),
        ),
    ),
    row(
        "Why not? The process",
        graph(
            "CPU",
            "Cores in use, by worker.",
            query('rate(process_cpu_seconds_total{job="spotsieve"}[$__rate_interval])', legend="{{instance}}"),
        ),
        graph(
            "CPU for a page",
            "CPU time of the workers divided by pages judged.",
            query(
                (
                    'sum(rate(process_cpu_seconds_total{job="spotsieve"}[$__rate_interval])) / '
                    "sum(rate(spotsieve_pages_total[$__rate_interval]))"
                ),
                legend="all workers",
            ),
            unit="s",
        ),
        graph(
            "Memory",
            "Resident memory, by worker. It is flat except for the index cache.",
            each('process_resident_memory_bytes{job="spotsieve"}'),
            unit="bytes",
        ),
        table(
            "Versions",
            "Version and scheme of each worker.",
            query("spotsieve_build_info"),
            hidden=("Time", "Value", "__name__", "job"),
        ),
        graph(
            "Memory of the index",
            (
                "RocksDB: the cache with blocks, filters and indexes (index.cache_mb), the part of it that cannot be "
                "evicted now, data that is not in files yet, and data of open files outside the cache."
            ),
            query("sum by (instance, kind) (spotsieve_index_memory_bytes)", legend="{{kind}} {{instance}}"),
            unit="bytes",
            width=12,
        ),
        graph(
            "Event loop",
            ("Delay of the event loop, 99th percentile. Heartbeats need the event loop every few seconds."),
            quantile(0.99, "spotsieve_event_loop_delay_seconds", by="instance"),
            unit="s",
            width=12,
        ),
    ),
)
