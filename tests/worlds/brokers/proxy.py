"""A proxy to the broker that fails at one request: the request or its response is lost, with every connection."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Literal, Self

from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from tests.worlds.brokers.listeners import HOST, Listener, free_ports, listener_settings

PRODUCE, FETCH, OFFSET_COMMIT, HEARTBEAT = 0, 1, 8, 12
ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
"""Kafka protocol guide, "Protocol API keys"."""

Lost = Literal["request", "answer"]


class Proxy:
    """Passes bytes between clients and a broker's port, frame by frame, until the connection is cut.

    A frame is its size (4 bytes) and its content, which begins with api key, version and correlation id in a request,
    and with the correlation id in a response (Kafka protocol guide, "Network").
    """

    def __init__(self, port: int, broker_port: int) -> None:
        self._port = port
        self._broker_port = broker_port
        self._cut_at: tuple[int, Lost] | None = None
        self._awaited: tuple[socket.socket, int] | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._passing = True
        self.was_cut = threading.Event()

    def __enter__(self) -> Self:
        self._listening = socket.create_server((HOST, self._port), reuse_port=False)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self._close_all()

    def cut_at(self, api_key: int, lost: Lost) -> None:
        """Cut at the next such request: before it reaches the broker, or once the broker has responded."""
        self.was_cut.clear()
        self._cut_at = (api_key, lost)

    def mend(self) -> None:
        """Accept connections again."""
        self._passing = True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    broker = socket.create_connection((HOST, self._broker_port), 60) if self._passing else None
                except OSError:
                    broker = None
                if broker is None:
                    client.close()
                    continue
                broker.settimeout(None)
                with self._lock:
                    self._open |= {client, broker}
                threading.Thread(target=self._pass_requests, args=(client, broker), daemon=True).start()
                threading.Thread(target=self._pass_answers, args=(broker, client), daemon=True).start()

    def _pass_requests(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while frame := _read_frame(client):
                api_key, _, correlation = struct.unpack_from(">hhi", frame, 4)
                if self._cut_at == (api_key, "request"):
                    break
                if self._cut_at == (api_key, "answer"):
                    self._awaited = (broker, correlation)
                broker.sendall(frame)
            else:
                self._close(client, broker)
                return
            self._cut()

    def _pass_answers(self, broker: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while frame := _read_frame(broker):
                if self._awaited == (broker, *struct.unpack_from(">i", frame, 4)):
                    self._cut()
                    return
                client.sendall(frame)
            self._close(client, broker)

    def _cut(self) -> None:
        self._passing, self._cut_at = False, None
        self._close_all()
        self.was_cut.set()

    def _close_all(self) -> None:
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            _end(end)

    def _close(self, *ends: socket.socket) -> None:
        with self._lock:
            self._open -= set(ends)
        for end in ends:
            _end(end)


@contextlib.contextmanager
def broker_behind_proxy() -> Iterator[tuple[LocalKafka, Proxy, str]]:
    """A broker, a proxy to it that can be cut, and the proxy's address."""
    prepare()
    port, proxied, told, controller = free_ports(4)
    listeners = {"PLAINTEXT": Listener(port), "PROXIED": Listener(proxied, told_port=told)}
    settings = listener_settings(listeners, controller)
    with LocalKafka(port=port, settings=settings) as broker, Proxy(told, proxied) as proxy:
        yield broker, proxy, f"{HOST}:{told}"


def _read_frame(connection: socket.socket) -> bytes:
    """A whole frame with its size in front; empty if the connection has ended, even within a frame."""
    size = _read(connection, 4)
    rest = _read(connection, *struct.unpack(">i", size)) if size else b""
    return size + rest if rest else b""


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 2**16))
        if not part:
            return b""
        parts += part
    return bytes(parts)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # Otherwise a thread that reads from it would continue.
    connection.close()
