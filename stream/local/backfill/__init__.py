"""Filter archives with many processes. Verdicts, log and state are those of `spotsieve filter`.

reader.py       readers decode and sign whole inputs, some ahead of the judge, and hold the records (batch_queue.py)
schedule.py     which reader reads which input, and which inputs are read again after a reader is lost
run.py          the driver takes the signatures in the order of the inputs, has them judged, and returns the verdicts
rounds.py       a record is a round of stream/sharding, judged in this process or by shards (shard.py)
parts.py        readers write novel pages and verdicts: one part for each input
outcomes.py     the outcome of every round, in a file beside the log
run_file.py     which run a state directory is in the middle of, and which inputs are done
processes/      readers as processes of this machine
ray_cluster.py  readers and shards on Ray

The state directory holds the log, the state of one process, and the outcomes. So a killed run resumes where it stopped,
a lost reader reads its inputs again, and a lost shard is filled from the log and the outcomes. Only processes/ and
ray_cluster.py know of processes and of Ray.
"""
