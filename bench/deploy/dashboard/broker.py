"""The rows of the dashboard for the surroundings of a worker: the log, the broker and the process."""

from bench.deploy.dashboard.panels import graph, row, stacked, table
from bench.deploy.dashboard.queries import asked, each, gained, quantile, rate

ROWS = (
    row(
        "The log and the broker",
        graph(
            "Log position",
            "Offset of the next log record to apply, and the end of the log.",
            each("spotsieve_log_position", legend="position, {{instance}}"),
            asked("max(spotsieve_log_end)", legend="end"),
            width=8,
        ),
        graph(
            "Records behind the log's end",
            "What a worker still has to apply; after a lost disk, the rebuild.",
            asked("spotsieve_log_end - spotsieve_log_position", legend="{{instance}}"),
            width=8,
        ),
        stacked(
            "Waiting pages by partition",
            "Messages of the input topic that are not committed yet.",
            asked("sum by (topic, partition) (spotsieve_consumer_lag)", legend="{{topic}}-{{partition}}"),
            width=8,
        ),
        graph("Commits", "Commits of input offsets.", rate("spotsieve_commits_total", legend="commits"), unit="cps"),
        stacked(
            "Failed commits by error",
            "They are redone; no verdict is lost or doubled.",
            rate("spotsieve_commit_failures_total", by="error", or_zero=True),
            unit="cps",
        ),
        stacked(
            "Waits for the broker by step",
            "Tries that had to be repeated.",
            rate("spotsieve_broker_retries_total", by="step", or_zero=True),
            unit="cps",
        ),
        graph(
            "Rebalances",
            "Times that input partitions were assigned.",
            gained("spotsieve_rebalances_total", by="instance"),
        ),
        graph(
            "Time to the log's end at a start",
            (
                "Seconds until a starting worker has caught up with its log and joins its group, at the rate so "
                "far; 0 afterwards."
            ),
            each("spotsieve_log_gap_seconds"),
            unit="s",
        ),
        graph(
            "Pages that broke the code",
            (
                "Pages passed on unchecked because an error of ours stopped a step. Their messages are kept "
                "beside the state: please report them."
            ),
            gained("spotsieve_internal_errors_total", by="step"),
        ),
        graph(
            "Open partitions",
            "Input partitions that a worker reads, and those that it has. They differ while it takes them.",
            each("spotsieve_open_partitions", legend="open {{instance}}"),
            each("spotsieve_assigned_partitions", legend="assigned {{instance}}"),
        ),
        graph(
            "Log records passed over",
            (
                "Records of the log that moved nothing but the position: foreign ones, configurations that came "
                "too late, and those that topics skip-record names."
            ),
            gained("spotsieve_log_passed_records_total", by="instance, why", legend="{{why}} {{instance}}"),
        ),
    ),
    row(
        "The process",
        graph(
            "CPU",
            "Cores in use, by worker.",
            asked('rate(process_cpu_seconds_total{job="spotsieve"}[$__rate_interval])', legend="{{instance}}"),
        ),
        graph(
            "CPU for a page",
            "CPU time of the workers divided by pages judged.",
            asked(
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
            "Resident memory, by worker: flat but for the index cache.",
            each('process_resident_memory_bytes{job="spotsieve"}'),
            unit="bytes",
        ),
        table(
            "Versions",
            "Version and scheme of each worker.",
            asked("spotsieve_build_info"),
            hidden=("Time", "Value", "__name__", "job"),
        ),
        graph(
            "Memory of the index",
            (
                "RocksDB: the cache with blocks, filters and indexes (index.cache_mb), what of it cannot be "
                "evicted now, what is not in files yet, and what is held of open files beside the cache."
            ),
            asked("sum by (instance, kind) (spotsieve_index_memory_bytes)", legend="{{kind}} {{instance}}"),
            unit="bytes",
            width=12,
        ),
        graph(
            "Event loop",
            ("How late the event loop comes back, 99 of 100 times at most. Heartbeats need it every few seconds."),
            quantile(0.99, "spotsieve_event_loop_delay_seconds", by="instance"),
            unit="s",
            width=12,
        ),
    ),
)
