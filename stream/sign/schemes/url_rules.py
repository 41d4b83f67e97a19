"""Says what is other for a page by its address: the rules of the settings, and the scope of a registered domain.

The first rule that matches a page counts. All is decided by the address as the log holds it and by the settings, so
every reader of the log decides alike; the public suffix list that is installed is among the settings that a state is
bound to (stream/base/urls.py).
"""

import fnmatch
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Rule, Settings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import logged_url
from spotsieve.stream.base.urls import domain_reader, host_of
from spotsieve.stream.sign.schemes import HostThresholds

NO_RULE = -1
_ANY_TEXT = "\0"
"""Stands for * in a pattern that another pattern is to cover: only the other's * matches it."""


class AddressRules:
    """Finds the first rule that matches an address, as the log holds it."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Raises SettingError for a rule that can never match, because one before it takes all of its pages."""
        self._hosts: dict[str, int] = {}
        self._suffixes: dict[str, int] = {}
        self._patterns: list[tuple[int, re.Pattern[str]]] = []
        self.rules = tuple(rules)
        for number, rule in enumerate(rules):
            self._check(number, rule)
            kind, name = rule.matcher
            if kind == "host":
                self._hosts[name] = number
            elif kind == "host_suffix":
                self._suffixes[name] = number
            else:
                self._patterns.append((number, _compiled(name)))

    def first(self, url: str) -> int:
        """The number of the first rule that matches, from 0; NO_RULE."""
        found = len(self.rules)
        if self._hosts or self._suffixes:
            host = host_of(url)
            found = min(self._hosts.get(host, found), self._of_suffix(host, found))
        for number, pattern in self._patterns:
            if number >= found:
                break
            if pattern.match(url):
                found = number
        return found if found < len(self.rules) else NO_RULE

    def numbers(self, urls: Sequence[str]) -> NDArray[np.int64]:
        """The same of n addresses: int64[n]."""
        return np.fromiter(map(self.first, urls), np.int64, len(urls))

    def _of_suffix(self, host: str, none: int) -> int:
        found = none
        while self._suffixes and host:
            found = min(found, self._suffixes.get(host, none))
            host = host.partition(".")[2]
        return found

    def _check(self, number: int, rule: Rule) -> None:
        for before, other in enumerate(self.rules[:number]):
            if other.matcher == rule.matcher:
                fault = f"contradicts rule {before + 1}, which names the same pages"
            elif _covers(other, rule):
                fault = f"can never match: rule {before + 1} ({_shown(other)}) takes all of its pages"
            else:
                continue
            then = "the first rule that matches counts: leave one out, or put the narrower one first"
            raise SettingError(rule_name(number, rule), fault, None, then)


class PageRules:
    """What the settings say of pages by their addresses.

    exempting: whether a rule exempts pages  scoping: whether which pages may meet depends on addresses
    """

    def __init__(self, settings: Settings) -> None:
        """Raises SettingError for rules that do not go together or that the scheme cannot keep to."""
        self.rules = AddressRules(settings.rules)
        self._default = settings.index.scope
        rules = settings.rules
        self.exempting = any(rule.exempt for rule in rules)
        self.scoping = self._default == "domain" or any(rule.scope for rule in rules)
        domains = self._default == "domain" or any(rule.scope == "domain" for rule in rules)
        self._domain_of: Callable[[str], str] = domain_reader() if domains else str
        self._bars = [_bars(settings, number, rule) for number, rule in enumerate(rules)]
        self._known = dict[tuple[str, str], int]()

    def exempt(self, url: str) -> bool:
        """Whether a rule exempts a page of this address."""
        number = self.rules.first(logged_url(url))
        return number != NO_RULE and self.rules.rules[number].exempt

    def scopes(self, urls: Sequence[str]) -> NDArray[np.uint64]:
        """Numbers that are equal where pages of these n addresses may meet: uint64[n]; 0: global."""
        return np.fromiter(map(self._scope, urls), np.uint64, len(urls))

    def taken(self, urls: Iterable[str]) -> dict[str, int]:
        """How many pages of these addresses, as the log holds them, each rule takes; by the names of all rules."""
        names = [rule_name(number, rule) for number, rule in enumerate(self.rules.rules)]
        counts = dict.fromkeys(names, 0)
        for number in map(self.rules.first, urls) if names else ():
            if number != NO_RULE:
                counts[names[number]] += 1
        return counts

    def bars_of(self, urls: Sequence[str]) -> NDArray[np.int64]:
        """Which row of bars_table() pages of these n addresses are held to: int64[n]."""
        return self.rules.numbers(urls) + 1

    def bars_table(self, bars: HostThresholds) -> NDArray[np.float64]:
        """The bars of pages that no rule matches, and then of each rule: float64[rules + 1, fields of
        HostThresholds].
        """
        return np.array([bars, *(bars._replace(**changed) for changed in self._bars)], np.float64)

    def _scope(self, url: str) -> int:
        number = self.rules.first(url)
        kind = (self.rules.rules[number].scope if number != NO_RULE else "") or self._default
        if kind == "global":
            return 0
        host = host_of(url)
        known = self._known.get((kind, host))
        if known is None:
            if len(self._known) > 100_000:
                self._known.clear()
            name = f"{kind}:{self._domain_of(host) if kind == 'domain' else host}"
            digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8, person=b"scope").digest()
            known = self._known[kind, host] = int.from_bytes(digest, "little") or 1
        return known


@lru_cache(maxsize=8)
def page_rules(settings: Settings) -> PageRules | None:
    """What the settings say of pages by their addresses; None where that is nothing. Raises SettingError."""
    return PageRules(settings) if settings.rules or settings.index.scope == "domain" else None


def rule_name(number: int, rule: Rule) -> str:
    """A rule as people know it."""
    return f"rule {number + 1} ({_shown(rule)})"


def _shown(rule: Rule) -> str:
    kind, name = rule.matcher
    return f'{kind} = "{name}"'


def _bars(settings: Settings, number: int, rule: Rule) -> Mapping[str, Any]:
    """The bars that a rule changes."""
    if rule.threshold is None:
        return {}
    scheme = settings.scheme
    named = f"threshold of rule {number + 1}"
    if not isinstance(scheme, SpotsieveSettings):
        then = "leave it out, or choose scheme.name = spotsieve"
        raise SettingError(named, f"must not be given with the scheme {scheme.name}", rule.threshold, then)
    bars = {scheme.threshold.setting: rule.threshold, **scheme.threshold.beside(rule.threshold)}
    try:
        type(scheme).model_validate(scheme.model_dump() | bars)
    except ValidationError as error:
        fault = error.errors()[0]["msg"].removeprefix("Input ")
        raise SettingError(named, fault, rule.threshold, "such as 0.7; higher drops less") from None
    return bars


def _compiled(pattern: str) -> re.Pattern[str]:
    """* is any text and ? any character; all else stands for itself. Its time is linear in the address."""
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def _covers(one: Rule, other: Rule) -> bool:
    """Whether all pages of the other rule are pages of the one, as far as that can be told."""
    kind, name = one.matcher
    other_kind, other_name = other.matcher
    if kind == "url":
        return other_kind == "url" and _matches_all(name, other_name)
    host = other_name if other_kind != "url" else _host_of_pattern(other_name)
    if not host or (kind == "host" and other_kind == "host_suffix"):
        return False
    return host == name or (kind == "host_suffix" and host.endswith(f".{name}"))


def _matches_all(pattern: str, other: str) -> bool:
    literal = other.replace("*", _ANY_TEXT).replace("?", "\1")
    parts = {"*": ".*", "?": f"[^{_ANY_TEXT}]"}
    compiled = "".join(parts.get(character, re.escape(character)) for character in re.sub(r"\*+", "*", pattern))
    return re.fullmatch(compiled, literal, re.DOTALL) is not None


def _host_of_pattern(pattern: str) -> str:
    """The host that every address of a pattern has; "" where that cannot be told."""
    scheme, found, rest = pattern.partition("://")
    host, slash, _ = rest.partition("/")
    told = found and slash and not set(scheme + host) & set("*?@")
    return host_of(f"http://{host}/") if told else ""
