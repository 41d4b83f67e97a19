"""Runs the roles of a service whose state shards hold together: worker, shard and resolver.

    workers ──> signatures (log) ──┬──> shards ──> matches ──┬──> resolver ──> verdicts ──┬──> workers
                                   └──> resolver             └──> shards                  └──> shards

Each role reads the log in order (log_records.py), and the rounds in the order of `verdicts` (round_messages.py). There
is no election: the resolver is the consumer that the group assigns the partition of `verdicts`. Its transactional id
fences its predecessor.
"""
