"""Owns a real Apache Kafka on this machine, from registries only: no Docker, no Java to install."""

from deploy.localkafka.broker import LocalKafka
from deploy.localkafka.jars import KAFKA_VERSION, prepare

__all__ = ["KAFKA_VERSION", "LocalKafka", "prepare"]
