"""The pipeline of pages in a worker: fetch, micro-batches, outputs and commits, partition by partition."""
