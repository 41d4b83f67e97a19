"""Judges the log by many processes: shards that hold parts of the state, and a resolver that holds a few numbers.

A round is a range of the log (rounds.py). Each round takes the same steps, all plain functions over arrays and read
views of a state:

    shards    find candidates of the pages under the shard's own keys           responses.py    -> ShardCandidates
    shards    confirm candidates whose entries they hold                        confirmation.py -> confirmations
    shards    resolve the pages of their hosts, by a speculation                hosts.py        -> HostResolutions
    resolver  check the speculation; a wrong one repeats the step before        hosts.py
    resolver  resolve the round in log order, and number the indexed pages      resolution.py   -> the outcome
    shards    index the outcome                                                 indexing.py     -> IndexUpdate

Steps two to four are for schemes that remember hosts; others confirm candidates themselves. candidates.py merges the
responses of all shards. isolation.py repeats a round without its poison pages, so that the round completes. keys.py and
shares.py assign keys, hosts and entries to shards. rounds.py also holds the limits by which rounds are judged, and
rejects settings under which URLs decide. The rules of the verdict are those of stream/judge and are called there.

Nothing here reads or writes a topic: stream/service/roles does that over Kafka, and stream/local/backfill over archives
(docs/scale.md).
"""
