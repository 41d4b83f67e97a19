"""The public suffix list: which part of a host's name one owner has registered.

The list is that of the package publicsuffixlist, which ships it; nothing is fetched. Lists differ from one release to
the next, and verdicts may not: so the release and a digest of its list are a setting that verdicts depend on.
"""

import importlib.metadata
from collections.abc import Callable
from functools import cache
from pathlib import Path

import xxhash

from spotsieve.stream.errors import SettingError

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
