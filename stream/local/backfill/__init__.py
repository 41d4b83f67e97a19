"""Filter archives with many processes. Verdicts, log and state are those of `spotsieve filter`.

    readers   read, decode and sign whole inputs, some ahead of the judge, and hold the records    reader.py
    driver    takes the signed batches in the order of the inputs, has them judged, and returns
              the verdicts to the readers                                                          run.py, schedule.py
    rounds    judge each record as a round of stream/sharding, here or on shards elsewhere         rounds.py, shard.py
    readers   write the novel pages and the verdicts, one part per input                           parts.py

The state directory holds the log, the state of one process, and the outcome of every round (outcomes.py). So a killed
run continues where it stopped (run_file.py), the inputs of a lost reader are read again, and a lost shard is filled
from the log and the outcomes. processes/ starts readers as processes of this machine, ray_cluster.py readers and shards
on Ray; no other module here depends on processes or Ray.
"""
