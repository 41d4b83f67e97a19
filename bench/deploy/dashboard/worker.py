"""The dashboard rows for the stages of a worker and for its index."""

from bench.deploy.dashboard.panels import graph, heatmap, row
from bench.deploy.dashboard.queries import each, gained, mean, quantile, query, rate

ROWS = (
    row(
        "Why not? Stages of a micro-batch",
        graph(
            "Stage duration, median",
            "Half of the micro-batches take longer.",
            quantile(0.5, "spotsieve_stage_duration_seconds", by="stage"),
            unit="s",
            width=8,
        ),
        graph(
            "Stage duration, 99th percentile",
            "One micro-batch in a hundred takes longer.",
            quantile(0.99, "spotsieve_stage_duration_seconds", by="stage"),
            unit="s",
            width=8,
        ),
        graph(
            "Stage occupation",
            (
                "Busy seconds of a stage per second. The stage nearest to 1 is the bottleneck. `fetch` includes "
                "waiting for pages."
            ),
            rate("spotsieve_stage_duration_seconds_sum", by="stage"),
            unit="percentunit",
            width=8,
        ),
        heatmap(
            "Pages in a micro-batch",
            "Small batches under load mean that partitions move or that batch_bytes cuts them.",
            rate("spotsieve_batch_pages_bucket", by="le"),
            width=8,
        ),
        graph(
            "Micro-batches",
            "Micro-batches formed each second, and messages in one on average.",
            rate("spotsieve_batch_pages_count", legend="micro-batches/s"),
            mean("spotsieve_batch_pages", legend="messages per micro-batch"),
            width=8,
        ),
        graph("Input partitions", "Assigned to each worker.", each("spotsieve_assigned_partitions"), width=8),
    ),
    row(
        "Why not? The index and its disk",
        graph(
            "Candidates of a page",
            "Postings tested for a page.",
            quantile(0.5, "spotsieve_page_candidates", legend="median"),
            quantile(0.99, "spotsieve_page_candidates", legend="99th percentile"),
            mean("spotsieve_page_candidates", legend="mean"),
            width=8,
        ),
        graph(
            "Entries in a bucket",
            "Entries of a bucket after a page was indexed in it. A bucket at bucket_cap takes no more postings.",
            quantile(0.5, "spotsieve_bucket_entries", legend="median"),
            quantile(0.99, "spotsieve_bucket_entries", legend="99th percentile"),
            mean("spotsieve_bucket_entries", legend="mean"),
            width=8,
        ),
        graph(
            "Full buckets",
            (
                "Buckets that became full, and postings not indexed because of it (bucket_cap). Pages with more "
                "candidates than are compared (candidate_limit). Copies of such pages may be emitted as novel."
            ),
            rate("spotsieve_capped_buckets_total", legend="buckets that became full"),
            rate("spotsieve_capped_postings_total", legend="postings not indexed"),
            rate("spotsieve_candidate_limited_pages_total", legend="pages with more candidates than are compared"),
            unit="cps",
            width=8,
        ),
        graph("Pages indexed", "Novel pages indexed in the state, by worker.", each("spotsieve_state_entries")),
        graph(
            "Free disk",
            "The share of the state's file system that is free. Below 0.15 SpotsieveDiskNearlyFull fires.",
            query("spotsieve_disk_free_bytes / spotsieve_disk_size_bytes", legend="{{instance}}"),
            unit="percentunit",
        ),
        graph("State on disk", "Bytes of the state directory, by worker.", each("spotsieve_state_bytes"), unit="bytes"),
        graph(
            "Disk per indexed page",
            "State bytes divided by indexed pages.",
            query("spotsieve_state_bytes / (spotsieve_state_entries > 0)", legend="{{instance}}"),
            unit="bytes",
        ),
        graph(
            "Pages forgotten on demand",
            ("Entries that spotsieve state forget removed. Each worker reads the same log, so each counts them."),
            gained("spotsieve_forgotten_pages_total", by="instance"),
        ),
        graph(
            "First live entry",
            (
                "Number of the first entry inside the deduplication window (index.horizon_hours). All entries "
                "before it are removed. Flat: there is no window, or event time stands still."
            ),
            each("spotsieve_state_first_live_entry"),
        ),
        graph(
            "Event time behind the clock",
            (
                "Age of the greatest event time of the log. The deduplication window ends at it. Growing while pages "
                "arrive: the input brings old pages, or pages without times."
            ),
            query("time() - (spotsieve_watermark_seconds > 0)", legend="{{instance}}"),
            unit="s",
        ),
        graph(
            "Buckets swept",
            (
                "Buckets searched for entries outside the deduplication window, per second: two for each indexed "
                "posting, while there are entries to remove."
            ),
            rate("spotsieve_swept_buckets_total", by="instance"),
        ),
        graph(
            "Times from the future",
            (
                "Pages whose fetched_at was later than the time of their message, and was set back to it: the clock of "
                "a crawler is wrong, or a sender tries to end the deduplication window early."
            ),
            gained("spotsieve_future_times_total", by="instance"),
        ),
        graph(
            "Repaired UTF-8",
            "Pages with invalid UTF-8, replaced by U+FFFD: a stray byte, or a page cut inside a character.",
            gained("spotsieve_repaired_utf8_pages_total", by="instance"),
        ),
        graph(
            "Pages without a rank",
            (
                "Pages without a number or date at input.rank_from. They rank last. All pages: the setting names a "
                "field that the crawler does not write."
            ),
            gained("spotsieve_pages_without_rank_total", by="instance"),
        ),
    ),
)
