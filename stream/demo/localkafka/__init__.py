"""Runs a real Apache Kafka on this machine from package registries alone: no Docker, and no Java to install."""

from spotsieve.stream.demo.localkafka.broker import LocalKafka, prepare
from spotsieve.stream.demo.localkafka.jars import release

__all__ = ["LocalKafka", "prepare", "release"]
