"""The roles of a service whose state is split over shards: worker, shard and resolver.

    workers ──> signatures (log) ──┬──> shards ──> matches ──┬──> resolver ──> verdicts ──┬──> workers
                                   └──> resolver             └──> shards                  └──> shards

All roles read the log in its order, and rounds in the order of `verdicts`. round_messages.py reads the round topics,
and log_records.py reads the log. The active resolver is the member to which a consumer group assigns the partition of
`verdicts`. Its transactional id fences the previous one.
"""
