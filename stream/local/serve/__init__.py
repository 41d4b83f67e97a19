"""`spotsieve serve`: verdicts over HTTP for crawlers in other languages, on top of the library.

Its protocol and its server are subclasses of uvicorn's, and use private names of these, which a release may rename at
any time. Importing a module of this package verifies the names first, and raises SettingError if one does not fit.
"""

from spotsieve.stream.base.startup import Expectation, require

TESTED = ">=0.54,<0.55"
"""The releases of uvicorn on which all tests run; pyproject.toml names the same."""
_MODULE, _SERVER = "uvicorn.protocols.http.httptools_impl", "uvicorn.server:Server"
_PROTOCOL, _CYCLE = f"{_MODULE}:HttpToolsProtocol", f"{_MODULE}:RequestResponseCycle"
EXPECTED = (
    Expectation(f"{_MODULE}:STATUS_LINE"),
    Expectation("uvicorn.server:ServerState"),
    Expectation(
        f"{_PROTOCOL}.__init__",
        "(self, config, server_state, app_state, _loop=None)",
        uses=(
            *("HttpRequestParser", "client", "cycle", "flow", "headers", "loop", "parser", "pipeline", "transport"),
            *("timeout_keep_alive", "timeout_keep_alive_task"),
        ),
    ),
    Expectation(f"{_PROTOCOL}.connection_made", "(self, transport)", uses=("client", "flow", "transport")),
    Expectation(f"{_PROTOCOL}.connection_lost", "(self, exc)", uses=("cycle", "disconnected", "message_event")),
    Expectation(f"{_PROTOCOL}.data_received", "(self, data)", uses=("_unset_keepalive_if_required", "feed_data")),
    Expectation(f"{_PROTOCOL}._unset_keepalive_if_required", "(self)", uses=("cancel", "timeout_keep_alive_task")),
    Expectation(f"{_PROTOCOL}.timeout_keep_alive_handler", "(self)", uses=("close",)),
    Expectation(f"{_PROTOCOL}.pause_writing", "(self)"),
    Expectation(f"{_PROTOCOL}.resume_writing", "(self)"),
    Expectation(f"{_PROTOCOL}.on_message_begin", "(self)", uses=("expect_100_continue", "headers", "scope", "url")),
    Expectation(f"{_PROTOCOL}.on_url", "(self, url)", uses=("url",)),
    Expectation(f"{_PROTOCOL}.on_header", "(self, name, value)", uses=("expect_100_continue", "headers", "lower")),
    Expectation(
        f"{_PROTOCOL}.on_headers_complete", "(self)", uses=("cycle", "flow", "on_response_complete", "pipeline")
    ),
    Expectation(f"{_PROTOCOL}.on_body", "(self, body)", uses=("cycle", "response_complete")),
    Expectation(f"{_PROTOCOL}.on_message_complete", "(self)", uses=("cycle", "response_complete")),
    Expectation(
        f"{_PROTOCOL}.on_response_complete",
        "(self)",
        uses=("call_later", "pipeline", "timeout_keep_alive_handler", "timeout_keep_alive_task"),
    ),
    Expectation("uvicorn.protocols.http.flow_control:FlowControl.pause_reading", "(self)", uses=("read_paused",)),
    Expectation(
        f"{_CYCLE}.__init__", uses=("disconnected", "keep_alive", "message_event", "response_complete", "transport")
    ),
    Expectation(f"{_CYCLE}.send", "(self, message)", uses=("close", "keep_alive", "transport", "write")),
    Expectation(f"{_CYCLE}.receive", "(self)", uses=("disconnected", "message_event")),
    Expectation(f"{_SERVER}.__init__", "(self, config)", uses=("server_state", "should_exit", "force_exit", "started")),
    Expectation(f"{_SERVER}.serve", "(self, sockets=None)", uses=("capture_signals",)),
    Expectation(f"{_SERVER}.startup", "(self, sockets=None)", uses=("servers", "server_state", "started")),
    Expectation(f"{_SERVER}.shutdown", uses=("servers", "force_exit")),
    Expectation(f"{_SERVER}.on_tick", uses=("should_exit",)),
    Expectation(f"{_SERVER}.capture_signals", "(self)"),
)
"""Each name that connections.py and server.py override, call or set."""

require("uvicorn", TESTED, EXPECTED)
