"""How shards and a resolver judge together: a row of the dashboard, empty where one process judges alone."""

from tests.measure.deploy.dashboard.panels import graph, row
from tests.measure.deploy.dashboard.queries import quantile, rate

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
    ),
)
