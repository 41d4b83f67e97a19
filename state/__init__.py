"""Stores indexed pages: buckets, entries and memories of hosts, and the log position that they stand for.

The folders are layers. A folder imports only from the folders below it:

    portable                   a state as JSON Lines
    still, verify              read-only states: read, searched and described; every value verified
    snapshot                   checkpoints and snapshots of a state, and requests for them
    store                      the state, over a backend of keys and values: RocksDB, memory or a checkpoint
    identity, log              the log and settings of a state; log records, and the log in a file
    format                     the bytes of every stored value
    removal                    forgotten pages, and the sweep of dead postings and memories
    index                      the read view of a state, and the updates that judging returns
    directory                  the files of a state directory, readable by their owner only
    horizon                    event time: the watermark, and the deduplication window
"""
