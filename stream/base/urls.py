"""Parts of a URL: its host, its owner, and its registered domain by the public suffix list.

The package publicsuffixlist contains the list; nothing is downloaded. The list differs between releases, but verdicts
must not: the release and a digest of the list are a setting that changes verdicts (index.domain_list).
"""

import importlib.metadata
import re
from collections.abc import Callable, Sequence
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


_VISIT = re.compile(
    rb"[?&;](?:sid|sess?id|session_?id|phpsessid|jsessionid|aspsessionid[a-z]*|cfid|cftoken|zenid|oscsid|xtcsid"
    rb"|utm_[a-z_]+|gclid|gclsrc|gbraid|wbraid|dclid|fbclid|msclkid|yclid|ttclid|twclid|srsltid|igshid|mc_[ce]id"
    rb"|mkt_tok|wickedid|_g[al]|_hsenc|_hsmi)=[^?&;#]*",
    re.IGNORECASE,
)
"""Parameters that name a visit, a campaign or a visitor, not a page, by the names that common software gives them."""


def names_visit(url: bytes) -> bool:
    """Whether a URL has a session id or a tracking tag."""
    return _VISIT.search(url.partition(b"#")[0]) is not None


def url_without_visit(url: bytes) -> bytes:
    """The URL that all visits to a page share: without fragment, session ids and tracking tags."""
    page = url.partition(b"#")[0]
    if b"=" not in page:
        return page
    kept = _VISIT.sub(b"", page)
    return kept if b"?" in kept else kept.replace(b"&", b"?", 1)


def owner_reader(author_paths: Sequence[str]) -> Callable[[str], str]:
    """A function from a URL to its owner: its host, or host and path of an author, such as herald.example/~smith.

    author_paths: beginnings of paths, as "/~" or "/users/"; the name of an author follows, up to the next "/", "?", "#"
    """
    longest_first = sorted(author_paths, key=len, reverse=True)
    author = re.compile(rf"[^/?#]*//[^/?#]*((?:{'|'.join(map(re.escape, longest_first))})[^/?#]+)")

    def owner_of(url: str) -> str:
        host = host_of(url)
        # Both spellings of ~ are one path (RFC 3986, sec. 2.3).
        found = author.match(re.sub("%7e", "~", url, flags=re.IGNORECASE) if "%7" in url else url)
        return host + found[1] if found and host else host

    return owner_of if author_paths else host_of


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
