"""The rows of the dashboard for the work of a worker: stages and the index."""

from bench.deploy.dashboard.panels import graph, heatmap, row
from bench.deploy.dashboard.queries import asked, each, gained, mean, quantile, rate

ROWS = (
    row(
        "The way of a page: stages of a micro-batch",
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
                "Seconds a second that a stage is busy; the one nearest to 1 is the bottleneck. `fetch` includes "
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
            mean("spotsieve_batch_pages", legend="messages in one"),
            width=8,
        ),
        graph("Input partitions", "Assigned to each worker.", each("spotsieve_assigned_partitions"), width=8),
    ),
    row(
        "The index",
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
            "Entries in a bucket after a page was filed in it: near bucket_cap, filings are skipped.",
            quantile(0.5, "spotsieve_bucket_entries", legend="median"),
            quantile(0.99, "spotsieve_bucket_entries", legend="99th percentile"),
            mean("spotsieve_bucket_entries", legend="mean"),
            width=8,
        ),
        graph(
            "Full buckets",
            (
                "Buckets that became full, and postings not filed because of it (bucket_cap); pages that met more"
                " candidates than are compared (candidate_limit). Copies of such pages may pass as novel."
            ),
            rate("spotsieve_capped_buckets_total", legend="buckets that became full"),
            rate("spotsieve_capped_filings_total", legend="postings not filed"),
            rate("spotsieve_cut_pages_total", legend="pages with more candidates than are compared"),
            unit="cps",
            width=8,
        ),
        graph("Pages remembered", "Novel pages filed in the state, by worker.", each("spotsieve_state_entries")),
        graph(
            "Free disk",
            "The share of the state's file system that is free. Below .15 SpotsieveDiskNearlyFull fires.",
            asked("spotsieve_disk_free_bytes / spotsieve_disk_size_bytes", legend="{{instance}}"),
            unit="percentunit",
        ),
        graph("State on disk", "Bytes of the state directory, by worker.", each("spotsieve_state_bytes"), unit="bytes"),
        graph(
            "Disk for a page remembered",
            "State bytes divided by pages remembered.",
            asked("spotsieve_state_bytes / (spotsieve_state_entries > 0)", legend="{{instance}}"),
            unit="bytes",
        ),
        graph(
            "Pages forgotten on demand",
            ("Entries that spotsieve state forget took out, by worker: each reads the same log, so each counts them."),
            gained("spotsieve_forgotten_pages_total", by="instance"),
        ),
        graph(
            "Entries beyond the horizon",
            (
                "Pages that no longer count as originals and are removed (index.horizon_hours), by worker: each "
                "reads the same log. Flat: there is no horizon, or event time stands still."
            ),
            each("spotsieve_state_floor"),
        ),
        graph(
            "Event time behind the clock",
            (
                "How far the greatest event time of the log lies in the past: what counts as an original is "
                "reckoned from it. Growing while pages come: the input brings old pages, or pages without times."
            ),
            asked("time() - (spotsieve_watermark_seconds > 0)", legend="{{instance}}"),
            unit="s",
        ),
        graph(
            "Buckets swept",
            (
                "Buckets looked at for entries beyond the horizon, a second: two for each posting that is filed, "
                "while there is something to remove."
            ),
            rate("spotsieve_swept_buckets_total", by="instance"),
        ),
        graph(
            "Times from the future",
            (
                "Pages whose own time (fetched_at) lay beyond their message's and was set back to it: a crawler's"
                " clock is wrong, or somebody tries to make the filter forget."
            ),
            gained("spotsieve_future_times_total", by="instance"),
        ),
        graph(
            "Pages without a rank",
            (
                "Pages in whose message input.rank_from leads to no number or date; they count as the last of all. "
                "As many as there are pages: the setting names another field than the crawler."
            ),
            gained("spotsieve_pages_without_rank_total", by="instance"),
        ),
    ),
)
