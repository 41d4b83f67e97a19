"""The row of the dashboard for shards and resolver; empty for a single-process service."""

from bench.deploy.dashboard.panels import graph, row
from bench.deploy.dashboard.queries import asked, each, quantile, rate

LAG = (
    "max by (role) ((spotsieve_role == 1) * 0 + on (job) group_left () max by (job) (spotsieve_log_end)"
    " - on (job, instance) group_left () spotsieve_log_position)"
)
BUSY = (
    'sum by (instance) (rate(spotsieve_stage_duration_seconds_sum{stage=~"ahead|answer|confirm|walk|file"}'
    "[$__rate_interval]))"
)

ROWS = (
    row(
        "Rounds of shards and resolver",
        graph(
            "Rounds",
            "Filed by each shard and published by the resolver, a second. A shard below the others lags.",
            rate("spotsieve_rounds_total", by="instance"),
        ),
        graph(
            "Time of a round",
            "From naming a round to its outcome, 99 of 100 at most: it ends with the slowest shard.",
            quantile(0.99, "spotsieve_round_seconds"),
            unit="s",
        ),
        graph(
            "Pages of a round",
            "Half of the rounds have more. At cluster.round_pages the resolver or the shards are the bottleneck.",
            quantile(0.5, "spotsieve_round_pages"),
        ),
        graph(
            "Walks once more",
            "Times a second that shards walked again, since a page rested on a wrong guess.",
            rate("spotsieve_round_guesses_total"),
        ),
        graph(
            "Behind the log's end, by role",
            "Records of the log that the slowest process of a role has not taken in. SpotsieveRoleLags watches it.",
            asked(LAG, legend="{{role}}"),
        ),
        graph(
            "Busy shards",
            "The share of its time that a shard works for rounds. All rounds wait for the busiest shard.",
            asked(BUSY, legend="{{instance}}"),
            unit="percentunit",
        ),
        graph(
            "Skew between shards",
            "The busiest shard's work over the mean of all. 1: all alike. SpotsieveShardsSkewed watches it.",
            asked(f"max({BUSY}) / avg({BUSY})", legend="busiest / mean"),
        ),
        graph(
            "Roles at work",
            "Processes that work in their role. One resolver; the others stand by and do not count.",
            asked("sum by (role) (spotsieve_role)", legend="{{role}}"),
        ),
        graph(
            "Waiting for a shard",
            "How long the open round has waited for each shard that is late. SpotsieveShardSilent watches it.",
            each("spotsieve_unanswered_seconds", legend="shard {{shard}}"),
            unit="s",
        ),
    ),
)
