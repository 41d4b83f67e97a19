"""Binds the socket of an HTTP port, and says in one line why it cannot be bound."""

import os
import socket

from spotsieve.stream.errors import SettingError


def listen(setting: str, host: str, port: int, backlog: int) -> socket.socket:
    """A listening socket. setting: the name of the port's setting. Raises SettingError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # Without reuse_port: a second process on the same port is a mistake that must be reported.
        return socket.create_server((host, port), family=family, backlog=backlog)
    except (OSError, UnicodeError) as error:
        raise SettingError(
            setting, f"cannot be bound on {host}: {_why(error)}", port, "choose a free port, or 0 for any"
        ) from None


def _why(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError):
        return "this is no host name"
    # The socket's own text names host and port once more. A name that is not found has no number of the system.
    return os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error.strerror)
