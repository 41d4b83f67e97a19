"""A live view of a running service, read from the metrics of its workers."""
