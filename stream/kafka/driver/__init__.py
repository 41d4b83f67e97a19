"""Changes to aiokafka: connections, record batches, header names and partition assignment."""
