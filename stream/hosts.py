"""Reads the parts of an address: its host, as signatures hash it and as people name it to forget its pages."""

import re

MAX_HOST_CHARACTERS = 253
"""The length of a name in DNS. A longer one is none, and its labels are not examined: that took a second a megabyte."""

_PLAIN = re.compile(r"[a-z]+://([a-z0-9.-]+)(?=[/?#]|\Z)")
"""The beginning of nearly every address: its host is in lower case, and has neither a login nor a port."""


def host_of(url: str) -> str:
    """Return the host in lower case and ASCII, without port, final dot and "www."; "" for an address without a host.

    It is read by hand: urllib.parse takes 3 us for an address and raises for some that crawlers meet.
    """
    plain = _PLAIN.match(url)
    if plain:
        return _without_www(plain[1])
    before, found, rest = url.strip().partition("//")
    if not found or "/" in before or "?" in before or "#" in before:
        return ""
    for end in "/?#\\":
        rest = rest.partition(end)[0]
    host = rest.rpartition("@")[2].lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    host = _without_www(host.partition(":")[0])
    return host if host.isascii() else _in_ascii(host)


def url_without_fragment(url: str) -> str:
    """Return the text before an address's fragment (RFC 3986, sec. 3.5): what a server is asked for."""
    return url.partition("#")[0]


def site_of(host: str) -> str:
    """Return the registered name of a host, as far as its labels tell: the last two, or three below names like co.uk.

    An IP address is whole. No list of public suffixes is asked: it changes, and verdicts may not.
    """
    labels = host.split(".")
    if host.startswith("[") or labels[-1].isdigit():
        return host
    country = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3 if country else -2 :])


def _without_www(host: str) -> str:
    return host.rstrip(".").removeprefix("www.")


def _in_ascii(host: str) -> str:
    """Return an international name as DNS has it (xn--...), so both spellings are one host; else the name itself."""
    if len(host) > MAX_HOST_CHARACTERS:
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host
