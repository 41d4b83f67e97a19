"""Owns a real Apache Kafka on this machine, from registries only: no Docker, no Java to install."""

from spotsieve.stream.demo.localkafka.broker import LocalKafka
from spotsieve.stream.demo.localkafka.jars import KAFKA_VERSION, prepare

__all__ = ["KAFKA_VERSION", "LocalKafka", "prepare"]
