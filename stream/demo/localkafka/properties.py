"""The settings of a one-node broker: Kafka's defaults, except where one node or a quick start needs others."""

from collections.abc import Mapping
from pathlib import Path

NODE_ID = 1

ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": str(NODE_ID),
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # A misspelt topic must be an error, as on a production cluster.
    "auto.create.topics.enable": "false",
}

QUICK = {
    # 50 partitions each by default: a second of start-up and a hundred open files for nothing.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # After a SIGKILL the controller refuses the restarted broker until its old session has run out (9 s by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # An owner killed in mid-transaction is cleaned up within a second of its transaction time-out.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Preallocated per segment: 10 MB by default, times every topic a test makes.
    "log.index.size.max.bytes": "1048576",
    # 128 MB of heap by default.
    "log.cleaner.dedupe.buffer.size": "4194304",
    # Pages carry the crawl's own times, often years old: by those, retention would delete them at once.
    "log.retention.ms": "-1",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


CLASSIC = {
    # Kafka 3.9 has both coordinators; 4.0 and later have the new one alone.
    "group.coordinator.new.enable": "false",
    "group.coordinator.rebalance.protocols": "classic",
}


def write_properties(
    path: Path, data: Path, port: int, controller_port: int, settings: Mapping[str, str], *, classic: bool = False
) -> None:
    """Write server.properties for a broker on 127.0.0.1. `settings` win over everything here.

    classic: with the classic group coordinator, which Kafka 4 no longer has
    """
    places = {
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data),
    }
    merged = {**ONE_NODE, **QUICK, **(CLASSIC if classic else {}), **places, **settings}
    path.write_text("".join(f"{name}={value}\n" for name, value in merged.items()), "utf-8")
