"""One worker with 1,000 partitions and a backlog, over TLS, on a real broker; then a second worker that joins."""
