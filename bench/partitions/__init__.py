"""Measures one worker with 1,000 partitions and a backlog, over TLS, on a real broker; then a second worker joins."""
