"""Owns the HTTP port: /metrics, /healthz and /readyz, and nothing else."""

import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from stream.config import MetricsSettings
from stream.errors import SettingError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

REQUEST_TIMEOUT_SECONDS = 5
PLAIN_TEXT = ("Content-Type", "text/plain; charset=utf-8")


class HealthServer:
    """Serves metrics, health and readiness from a thread of its own.

    problems() names what keeps the worker from being ready; alive() is False once the worker has failed.
    """

    def __init__(
        self,
        settings: MetricsSettings,
        registry: CollectorRegistry,
        alive: Callable[[], bool],
        problems: Callable[[], list[str]],
    ) -> None:
        self._alive = alive
        self._problems = problems
        self._metrics = make_wsgi_app(registry)
        server_class = _ServerV6 if ":" in settings.host else _Server
        try:
            self._server = make_server(
                settings.host, settings.port, self._answer, server_class=server_class, handler_class=_QuietHandler
            )
        except OSError as error:
            raise SettingError(
                "metrics.port", f"cannot be bound on {settings.host}: {error.strerror}", settings.port,
                "choose a free port, or 0 for any",
            ) from None  # fmt: skip
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            start_response("405 Method Not Allowed", [PLAIN_TEXT, ("Allow", "GET, HEAD")])
            return [b"only GET and HEAD\n"]
        path = environ["PATH_INFO"]
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        if path == "/healthz":
            return self._state(start_response, [] if self._alive() else ["the worker has failed; see its log"])
        if path == "/readyz":
            return self._state(start_response, self._problems())
        start_response("404 Not Found", [PLAIN_TEXT])
        return [b"only /metrics, /healthz and /readyz\n"]

    @staticmethod
    def _state(start_response: "StartResponse", problems: list[str]) -> Iterable[bytes]:
        start_response("503 Service Unavailable" if problems else "200 OK", [PLAIN_TEXT])
        return ["\n".join(problems or ["ok"]).encode() + b"\n"]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_port = False
    """A second worker on the same port is a mistake to tell, also where a newer http.server would let both bind."""

    def server_bind(self) -> None:
        """Bind without http.server's look-up of our own name, which takes seconds where no name server answers."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_SECONDS
    """A client that opens a connection and says nothing is cut off."""

    def log_message(self, *_: Any) -> None:
        """Scrapes are not news."""
