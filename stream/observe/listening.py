"""Binds the socket of an HTTP port, and says in one line why it cannot be bound."""

import socket

from spotsieve.stream.errors import SettingError


def listen(setting: str, host: str, port: int, backlog: int) -> socket.socket:
    """A listening socket. setting: the name of the port's setting. Raises SettingError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # Without reuse_port: a second process on the same port is a mistake that must be reported.
        return socket.create_server((host, port), family=family, backlog=backlog)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "this is no host name"
        raise SettingError(
            setting, f"cannot be bound on {host}: {why}", port, "choose a free port, or 0 for any"
        ) from None
