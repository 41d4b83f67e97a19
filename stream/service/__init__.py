"""The streaming service: reads pages from Kafka, judges them through the log, and commits outputs and offsets."""
