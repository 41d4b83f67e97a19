"""Settings of a service whose state several processes hold together."""

from spotsieve.stream.settings.section import Section, setting

MOST_ROUND_PAGES = 65_536
"""Records of rounds are read within this bound, too (stream/sharding/records/columns.py)."""


class ClusterSettings(Section):
    """Who judges where one process is not enough: shards that hold the state together, and a resolver.

    Nothing here changes a verdict. Each process is started with its role (`spotsieve run --role`).
    """

    shards: int = setting(0, "shards that hold the state together; 0: every worker holds all of it", ge=0, le=1_024)
    round_pages: int = setting(16_384, "most pages that are judged together", unit="pages", ge=1, le=MOST_ROUND_PAGES)
    resolver_session_ms: int = setting(
        6_000, "a resolver silent for so long is replaced by one that stands by", unit="ms", ge=1_000
    )
