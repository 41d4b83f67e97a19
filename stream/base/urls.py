"""Reads the parts of an address: its host, as signatures hash it and as people name it to forget its pages.

The public suffix list: which part of a host's name one owner has registered.

The list is that of the package publicsuffixlist, which ships it; nothing is fetched. Lists differ from one release to
the next, and verdicts may not: so the release and a digest of its list are a setting that verdicts depend on.
"""

import importlib.metadata
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import xxhash

from spotsieve.stream.base.errors import SettingError

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


_PACKAGE, _FILE = "publicsuffixlist", "public_suffix_list.dat"


@cache
def installed_list() -> str:
    """The release of the list that is installed, and the XXH3-64 of its bytes. Raises SettingError if there is none."""
    try:
        import publicsuffixlist
    except ImportError:
        raise SettingError(
            "index.scope",
            "must not be domain without a public suffix list",
            None,
            "pip install 'spotsieve[domains]', or choose host",
        ) from None
    content = Path(publicsuffixlist.__file__).with_name(_FILE).read_bytes()
    return f"{importlib.metadata.version(_PACKAGE)} {xxhash.xxh3_64_hexdigest(content)}"


@cache
def domain_reader() -> Callable[[str], str]:
    """A function from a host to its registered domain; a host without one, as an IP address, is its own domain."""
    installed_list()
    from publicsuffixlist import PublicSuffixList

    known = PublicSuffixList()

    def domain_of(host: str) -> str:
        if host.startswith("[") or host.rpartition(".")[2].isdigit():
            return host
        return known.privatesuffix(host) or host

    return domain_of
