"""What is remembered: buckets, entries, the log's record format and its position."""
