"""Judges the log by many: shards that hold parts of the state, and a resolver that has a few numbers.

A round is a range of the log (rounds.py). For each the same steps, all plain functions of arrays and views of a state:

    shards    answer       whom the pages meet under the shard's own keys            answering.py -> ShardCandidates
    shards    resolve_hosts   verdicts of the pages of the shard's hosts                hosts.py -> HostResolutions,
    again while a
    resolver  check_speculation  page rests on a wrong guess                               resolving_hosts.py
    resolver  resolve      the rule, in log order; who is filed as which entry       resolving.py, resolving_hosts.py
    shards    file         what the state of the shard takes                         filing.py -> IndexUpdate

A scheme that confirms candidates by itself has no second and third step. A page that breaks one of the first four steps
is left out, and the round is answered anew (sparing.py). The rules are those of stream/judge; they are called here and
stand there. shares.py says what is whose, meetings.py merges answers. limits.py says by which limits rounds are judged,
and which settings are refused: those by which addresses decide.

Nothing here reads or writes a topic: stream/service/roles does, and stream/local/backfill runs it over archives.
docs/scale.md says how.
"""
