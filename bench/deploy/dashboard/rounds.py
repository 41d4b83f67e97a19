"""The dashboard row for rounds of shards and resolver. It is empty where one process judges alone."""

from bench.deploy.dashboard.panels import graph, row
from bench.deploy.dashboard.queries import each, quantile, query, rate

LAG = (
    "max by (role) ((spotsieve_role == 1) * 0 + on (job) group_left () max by (job) (spotsieve_log_end)"
    " - on (job, instance) group_left () spotsieve_log_position)"
)
BUSY = (
    "sum by (instance) (rate(spotsieve_stage_duration_seconds_sum"
    '{stage=~"prefetch|find_candidates|confirm|resolve_hosts|index"}'
    "[$__rate_interval]))"
)

ROWS = (
    row(
        "Why not? Rounds of shards and resolver",
        graph(
            "Rounds",
            "Rounds indexed by each shard and published by the resolver, per second. A shard below the others lags.",
            rate("spotsieve_rounds_total", by="instance"),
        ),
        graph(
            "Time of a round",
            "From the announcement of a round to its outcome, 99th percentile. A round ends with the slowest shard.",
            quantile(0.99, "spotsieve_round_seconds"),
            unit="s",
        ),
        graph(
            "Pages of a round",
            "Half of the rounds have more. At cluster.round_pages the resolver or the shards are the bottleneck.",
            quantile(0.5, "spotsieve_round_pages"),
        ),
        graph(
            "Speculations corrected",
            "Rounds per second that the shards resolved again, because a speculation was wrong.",
            rate("spotsieve_round_speculations_total"),
        ),
        graph(
            "Behind the log's end, by role",
            "Log records that the slowest process of a role has not applied. SpotsieveRoleLags watches it.",
            query(LAG, legend="{{role}}"),
        ),
        graph(
            "Busy shards",
            "Share of its time that a shard works for rounds. All rounds wait for the busiest shard.",
            query(BUSY, legend="{{instance}}"),
            unit="percentunit",
        ),
        graph(
            "Skew between shards",
            "The busiest shard's work over the mean of all. 1: all alike. SpotsieveShardsSkewed watches it.",
            query(f"max({BUSY}) / avg({BUSY})", legend="busiest / mean"),
        ),
        graph(
            "Roles at work",
            "Processes that work in their role. One resolver works; resolvers on standby do not count.",
            query("sum by (role) (spotsieve_role)", legend="{{role}}"),
        ),
        graph(
            "Waiting for a shard",
            "How long the open round has waited for each shard that is late. SpotsieveShardSilent watches it.",
            each("spotsieve_shard_response_age_seconds", legend="shard {{shard}}"),
            unit="s",
        ),
    ),
)
