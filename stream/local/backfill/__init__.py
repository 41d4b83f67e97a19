"""Filters archives with many processes: the verdicts, the log and the state are those of `spotsieve filter`.

    readers   read, decode and sign whole inputs, some ahead of the judge; they hold the records  reader.py
    driver    takes what they signed in the order of the inputs, has it judged, and tells them     driver.py
    judging   a record is a round of stream/sharding, judged here or by shards elsewhere           judging.py, shard.py
    readers   write what was let through and the verdicts, a part for each input                   parts.py

The state directory keeps the log, the state of one process, and the outcome of every round (outcomes.py). So a run that
was killed goes on where it was (known.py, run_file.py), a lost reader reads its inputs again, and a lost shard is
filled from the log and the outcomes. processes/ starts readers as processes of this machine, ray_cluster.py readers and
shards on Ray; nothing else here knows of processes or Ray.
"""
