"""Judges the log with many processes: shards hold parts of the state, the resolver holds only a few numbers.

A round is a range of the log (rounds.py). Every round takes the same steps. Each step is a plain function over arrays
and read views of a state:

    shards    find candidates of the pages under the shard's own keys           responses.py    -> ShardCandidates
    shards    confirm candidates whose entries they hold                        confirmation.py -> confirmations
    shards    resolve the pages of their hosts, by speculation                  hosts.py        -> HostResolutions
    resolver  check the speculation; if it is wrong, repeat the step above      speculation.py
    resolver  resolve the round in log order, and number the indexed pages      resolution.py   -> the outcome
    shards    index the outcome                                                 indexing.py     -> IndexUpdate

Only schemes with a memory of hosts take steps two to four; the shards of other schemes confirm candidates in step one.
candidates.py merges the responses of all shards. isolation.py repeats a round without its poison pages, so that the
round completes. keys.py and shares.py assign keys, hosts and entries to shards. rounds.py also holds the limits by
which rounds are judged, and rejects settings under which URLs decide. The rules of the verdict are in stream/judge.

The decisions of a shard, the resolver and a worker are steps, which yield actions and receive their results: steps.py,
shard_steps.py and resolver_steps.py. messages.py keeps decoded messages. Nothing here reads or writes a topic:
stream/service/roles performs the actions over Kafka. stream/local/backfill takes the steps of a round over archives
(docs/scale.md).
"""
