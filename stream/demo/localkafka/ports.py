"""Chooses a free port on the loopback address."""

import random
import socket

from spotsieve.stream.errors import BrokerError

# Below Linux's ephemeral range (32768 up): while a broker restarts, no client connection may be given its port.
LOWEST = 20_000
HIGHEST = 32_000
TRIES = 200


def free_port(taken: int = 0) -> int:
    """A port on 127.0.0.1 that nothing listens on now, other than `taken`; BrokerError after 200 occupied ones."""
    choose = random.SystemRandom()
    for _ in range(TRIES):
        port = choose.randrange(LOWEST, HIGHEST)
        if port != taken and is_free(port):
            return port
    raise BrokerError(
        "the local broker", f"needs a free port on 127.0.0.1 between {LOWEST} and {HIGHEST}", None, "name one: --port"
    )


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
