"""Parts of a URL: its host, its site, and its registered domain by the public suffix list.

The package publicsuffixlist contains the list; nothing is downloaded. The list differs between releases, but verdicts
must not: the release and a digest of the list are a setting that changes verdicts (index.domain_list).
"""

import importlib.metadata
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import xxhash

from spotsieve.stream.base.errors import SettingError

MAX_HOST_CHARACTERS = 253
"""The longest name in DNS. A longer one is not a host name, and encoding it took a second per megabyte."""

_PLAIN = re.compile(r"[a-z]+://([a-z0-9.-]+)(?=[/?#]|\Z)")
"""The beginning of nearly every URL: its host is in lower case, and has neither a login nor a port."""


def host_of(url: str) -> str:
    """The host in lower case and ASCII, without port, final dot and "www."; "" for a URL without a host.

    It is parsed by hand: urllib.parse takes 3 us per URL and raises for some URLs of crawls.
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
    """The URL without its fragment (RFC 3986, sec. 3.5), which is never sent to a server."""
    return url.partition("#")[0]


def site_of(host: str) -> str:
    """The registered name of a host, estimated from its labels: the last two, or three below names like co.uk.

    An IP address is returned as it is. The public suffix list is not used: it changes, and verdicts must not.
    """
    labels = host.split(".")
    if host.startswith("[") or labels[-1].isdigit():
        return host
    country = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3 if country else -2 :])


def _without_www(host: str) -> str:
    return host.rstrip(".").removeprefix("www.")


def _in_ascii(host: str) -> str:
    """An international name in its DNS form (xn--...), so that both spellings are one host; else the name itself."""
    if len(host) > MAX_HOST_CHARACTERS:
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host


_PACKAGE, _FILE = "publicsuffixlist", "public_suffix_list.dat"


@cache
def installed_list() -> str:
    """The release of the installed list and the XXH3-64 of its bytes. Raises SettingError if it is not installed."""
    try:
        import publicsuffixlist
    except ImportError:
        raise SettingError(
            "index.scope",
            "must not be domain without a public suffix list",
            None,
            "run: pip install 'spotsieve[domains]', or choose host",
        ) from None
    content = Path(publicsuffixlist.__file__).with_name(_FILE).read_bytes()
    return f"{importlib.metadata.version(_PACKAGE)} {xxhash.xxh3_64_hexdigest(content)}"


@cache
def domain_reader() -> Callable[[str], str]:
    """A function from a host to its registered domain; a host without one, such as an IP address, is its own domain."""
    installed_list()
    from publicsuffixlist import PublicSuffixList

    suffixes = PublicSuffixList()

    def domain_of(host: str) -> str:
        if host.startswith("[") or host.rpartition(".")[2].isdigit():
            return host
        return suffixes.privatesuffix(host) or host

    return domain_of
