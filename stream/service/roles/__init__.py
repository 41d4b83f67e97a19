"""Runs the roles of a service whose state shards hold together: worker, shard and resolver.

    workers ──> signatures (log) ──┬──> shards ──> matches ──┬──> resolver ──> verdicts ──┬──> workers
                                   └──> resolver             └──> shards                  └──> shards

Each reads the log in its order, and the rounds in the order of `verdicts`. told.py reads what is told of rounds, and
log_records.py the log. Nobody elects or is elected: the resolver is the one that a consumer group gives the partition
of `verdicts`, and its transactional id fences the one before it.
"""
