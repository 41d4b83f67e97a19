"""Remembers pages: buckets and entries, the log that they follow, and the position in that log.

The folders stand in layers, and imports run downhill:

    portable                   a state as JSON Lines
    still, verify              a state that does not change: read, searched, described; checked to the last byte
    snapshot                   checkpoints and snapshots of a state, and requests for them
    store                      the state, over a backend of keys and values: RocksDB, memory or a checkpoint
    identity, log              which log and settings a state belongs to; records, and the log in a file
    format                     the bytes of every stored value
    removal                    what is taken out of a state
    index                      what judging sees of a state, and what it hands back
    directory                  the files of a state directory, which only their owner can read
    horizon                    how far event time has come
"""
