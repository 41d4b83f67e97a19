"""The settings of a local broker with several ports, each for another kind of client."""

from collections.abc import Mapping
from dataclasses import dataclass

from spotsieve.stream.demo.localkafka.broker import NODE_ID, free_port

HOST = "127.0.0.1"
NOBODY = f"{HOST}:1"
"""An address without a server. A free port would only do until a broker of another test takes it."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One port of a broker: its protocol, and the port that it advertises if that is another one."""

    port: int
    protocol: str = "PLAINTEXT"
    told_port: int | None = None


def listener_settings(listeners: Mapping[str, Listener], controller_port: int) -> dict[str, str]:
    """server.properties of a combined node: listener name -> port; PLAINTEXT is required, brokers use it."""
    listening = {**{name: each.port for name, each in listeners.items()}, "CONTROLLER": controller_port}
    told = {name: each.told_port or each.port for name, each in listeners.items()}
    protocols = {**{name: each.protocol for name, each in listeners.items()}, "CONTROLLER": "PLAINTEXT"}
    return {
        "listeners": _addresses(listening),
        "advertised.listeners": _addresses(told),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
    }


def free_ports(number: int) -> list[int]:
    """`count` different ports that are free now."""
    found: set[int] = set()
    while len(found) < number:
        found.add(free_port())
    return list(found)


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
