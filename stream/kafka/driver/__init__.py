"""Makes the clients of Kafka: connections, TLS, batches, and how a group deals out partitions."""
