"""Decides who may send requests: names of the port in Host and Origin, the bearer token, and TLS."""

import hmac
import ipaddress
import ssl
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.runtime import ServeSettings

LEAST_TOKEN = 16
"""Fewest characters of a token. `openssl rand -hex 32` makes a good one."""
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that need no token, because probes have none."""


class AccessRefusal(NamedTuple):
    """A request that must not be answered. headers: in addition to the usual ones"""

    status: int
    error: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Access:
    """The rules of a port.

    A web page in a browser on this machine can reach the port: by DNS rebinding the page's own host name stands for
    127.0.0.1, so the browser allows its requests. Host and Origin then hold that name. Therefore a port on a loopback
    address accepts only loopback names and serve.allowed_hosts. On any other address, names are checked if there are
    allowed_hosts.
    """

    def __init__(self, settings: ServeSettings, address: str) -> None:
        """address: the address that the socket is bound to.  Raises SettingError for a weak token."""
        self._names = frozenset(name.lower().rstrip(".") for name in settings.allowed_hosts)
        self._checks_names = bool(self._names) or is_loopback(address)
        self._token = settings.token.get_secret_value().encode("utf-8", "replace")
        if self._token and not (len(self._token) >= LEAST_TOKEN and all(0x21 <= byte < 0x7F for byte in self._token)):
            rule = f"must have at least {LEAST_TOKEN} characters, all of them ASCII without spaces"
            raise SettingError("serve.token", rule, None, "make one with `openssl rand -hex 32`")

    @property
    def needs_token(self) -> bool:
        """Whether requests need a token."""
        return bool(self._token)

    def check(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> AccessRefusal | None:
        """The reason why a request is refused; None if it may be answered. headers: names in lower case"""
        hosts, origins, logins = list[bytes](), list[bytes](), list[bytes]()
        lists = {b"host": hosts, b"origin": origins, b"authorization": logins}
        for name, value in headers:
            if name in lists:
                lists[name].append(value)
        if self._checks_names:
            if len(hosts) != 1 or not self._is_named(f"//{hosts[0].decode('latin-1')}"):
                return _other_name("Host", hosts)
            if origins and not all(self._is_named(origin.decode("latin-1")) for origin in origins):
                return _other_name("Origin", origins)
        if self._token and path not in OPEN_PATHS and not self._is_login(logins):
            rule = "the request must have the header Authorization: Bearer TOKEN"
            return AccessRefusal(
                401, f"{rule}; the token is the one of serve.token_file", ((b"www-authenticate", b"Bearer"),)
            )
        return None

    def _is_named(self, url: str) -> bool:
        """Whether the host of a URL is a name of this port."""
        try:
            name = (urlsplit(url).hostname or "").rstrip(".")
        except ValueError:
            return False
        return name in self._names or is_loopback(name)

    def _is_login(self, logins: list[bytes]) -> bool:
        kind, _, token = (logins[0] if len(logins) == 1 else b"").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


def _other_name(header: str, values: list[bytes]) -> AccessRefusal:
    got = " ".join(value[:80].decode("latin-1") for value in values) or "none"
    rule = f"{header} must be a name of this port, got {got!r}"
    return AccessRefusal(403, f"{rule}; use http://127.0.0.1, or add the name to serve.allowed_hosts")


def is_loopback(name: str) -> bool:
    """Whether a host name or an address stands for this machine alone."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def tls_context(settings: ServeSettings) -> ssl.SSLContext | None:
    """The TLS context of the port; None without a certificate. Raises SettingError for files that cannot be used."""
    if not settings.tls_certfile and not settings.tls_keyfile:
        return None
    for name, other in (("tls_certfile", "tls_keyfile"), ("tls_keyfile", "tls_certfile")):
        if not getattr(settings, name):
            raise SettingError(f"serve.{name}", f"must be set if {other} is set", None, "name both PEM files")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Never without a password: OpenSSL would prompt for it on the terminal.
        context.load_cert_chain(settings.tls_certfile, settings.tls_keyfile, password="")
    except (OSError, ssl.SSLError) as error:
        reason = str(getattr(error, "reason", "") or getattr(error, "strerror", "") or error)
        rule = f"must be readable PEM files with a matching key without a password ({reason.lower().replace('_', ' ')})"
        files = [settings.tls_certfile, settings.tls_keyfile]
        raise SettingError("serve.tls_certfile and serve.tls_keyfile", rule, files, "check both files") from None
    return context
