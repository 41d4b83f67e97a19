"""A page's way through a worker: fetched, cut into micro-batches, sent and committed, partition by partition."""
