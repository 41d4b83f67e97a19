"""Rules of the settings that depend on a page's URL: which pages are exempt, compared, and by which thresholds.

The first rule that matches a page counts. Everything is decided by the URL as the log holds it and by the settings, so
every reader of the log decides alike. The installed public suffix list is part of the settings that a state is bound to
(stream/base/urls.py).
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
from spotsieve.stream.base.urls import domain_reader, host_of, owner_reader
from spotsieve.stream.sign.schemes import HostThresholds

NO_RULE = -1
_ANY_TEXT = "\0"
"""Replaces * in a pattern when another pattern is tested for covering it. Only a * of the other one matches it."""


class UrlMatcher:
    """The rules of the settings as a matcher of URLs, in the form that the log holds."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Raises SettingError for a rule that can never match, because an earlier rule covers it."""
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
        """Number, from 0, of the first rule that matches a URL, or NO_RULE."""
        first = len(self.rules)
        if self._hosts or self._suffixes:
            host = host_of(url)
            first = min(self._hosts.get(host, first), self._first_suffix(host, first))
        for number, pattern in self._patterns:
            if number >= first:
                break
            if pattern.match(url):
                first = number
        return first if first < len(self.rules) else NO_RULE

    def numbers(self, urls: Sequence[str]) -> NDArray[np.int64]:
        """Number of the first matching rule of n URLs, or NO_RULE: int64[n]."""
        return np.fromiter(map(self.first, urls), np.int64, len(urls))

    def _first_suffix(self, host: str, none: int) -> int:
        first = none
        while self._suffixes and host:
            first = min(first, self._suffixes.get(host, none))
            host = host.partition(".")[2]
        return first

    def _check(self, number: int, rule: Rule) -> None:
        for before, other in enumerate(self.rules[:number]):
            if other.matcher == rule.matcher:
                fault = f"contradicts rule {before + 1}, which matches the same pages"
            elif _covers(other, rule):
                fault = f"can never match: rule {before + 1} ({_shown(other)}) matches all of its pages"
            else:
                continue
            then = "the first matching rule counts: remove one, or put the narrower one first"
            raise SettingError(rule_name(number, rule), fault, None, then)


class PageRules:
    """Settings of a page that depend on its URL: exemption, scope and thresholds.

    exempting: whether a rule exempts pages  scoping: whether the scope of a page depends on its URL
    """

    def __init__(self, settings: Settings) -> None:
        """Raises SettingError for rules that contradict each other or that the scheme does not support."""
        self.rules = UrlMatcher(settings.rules)
        self._default = settings.index.scope
        rules = settings.rules
        self.exempting = any(rule.exempt for rule in rules)
        self.scoping = self._default == "domain" or any(rule.scope for rule in rules)
        domains = self._default == "domain" or any(rule.scope == "domain" for rule in rules)
        self._domain_of: Callable[[str], str] = domain_reader() if domains else str
        self._owner_of = owner_reader(settings.index.author_paths)
        self._thresholds_of = [_thresholds_of(settings, number, rule) for number, rule in enumerate(rules)]
        self._known = dict[tuple[str, str], int]()

    def exempt(self, url: str) -> bool:
        """Whether a rule exempts a page with this URL."""
        number = self.rules.first(logged_url(url))
        return number != NO_RULE and self.rules.rules[number].exempt

    def scopes(self, urls: Sequence[str]) -> NDArray[np.uint64]:
        """Scopes of pages with these n URLs: uint64[n]. Only pages of one scope are compared; 0 is global."""
        return np.fromiter(map(self._scope, urls), np.uint64, len(urls))

    def taken(self, urls: Iterable[str]) -> dict[str, int]:
        """Number of pages that each rule matches, by the names of all rules. urls: as the log holds them"""
        names = [rule_name(number, rule) for number, rule in enumerate(self.rules.rules)]
        counts = dict.fromkeys(names, 0)
        for number in map(self.rules.first, urls) if names else ():
            if number != NO_RULE:
                counts[names[number]] += 1
        return counts

    def rows_of(self, urls: Sequence[str]) -> NDArray[np.int64]:
        """Row of table_of() for pages with these n URLs: int64[n]."""
        return self.rules.numbers(urls) + 1

    def table_of(self, thresholds: HostThresholds) -> NDArray[np.float64]:
        """Thresholds of pages without a rule, then of each rule: float64[rules + 1, fields of HostThresholds]."""
        return np.array([thresholds, *(thresholds._replace(**changed) for changed in self._thresholds_of)], np.float64)

    def _scope(self, url: str) -> int:
        number = self.rules.first(url)
        kind = (self.rules.rules[number].scope if number != NO_RULE else "") or self._default
        if kind == "global":
            return 0
        owner = host_of(url) if kind == "domain" else self._owner_of(url)
        known = self._known.get((kind, owner))
        if known is None:
            if len(self._known) > 100_000:
                self._known.clear()
            name = f"{kind}:{self._domain_of(owner) if kind == 'domain' else owner}"
            digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8, person=b"scope").digest()
            known = self._known[kind, owner] = int.from_bytes(digest, "little") or 1
        return known


@lru_cache(maxsize=8)
def page_rules(settings: Settings) -> PageRules | None:
    """The page rules of the settings, or None if nothing depends on URLs. Raises SettingError like PageRules."""
    return PageRules(settings) if settings.rules or settings.index.scope == "domain" else None


def rule_name(number: int, rule: Rule) -> str:
    """Name of a rule in messages and summaries."""
    return f"rule {number + 1} ({_shown(rule)})"


def _shown(rule: Rule) -> str:
    kind, name = rule.matcher
    return f'{kind} = "{name}"'


def _thresholds_of(settings: Settings, number: int, rule: Rule) -> Mapping[str, Any]:
    """Thresholds that a rule changes, by field. Raises SettingError."""
    if rule.threshold is None:
        return {}
    scheme = settings.scheme
    setting = f"threshold of rule {number + 1}"
    if not isinstance(scheme, SpotsieveSettings):
        then = "remove it, or choose scheme.name = spotsieve"
        raise SettingError(setting, f"must not be given with the scheme {scheme.name}", rule.threshold, then)
    thresholds = {scheme.threshold.setting: rule.threshold, **scheme.threshold.beside(rule.threshold)}
    try:
        type(scheme).model_validate(scheme.model_dump() | thresholds)
    except ValidationError as error:
        fault = error.errors()[0]["msg"].removeprefix("Input ")
        raise SettingError(
            setting, fault, rule.threshold, "such as 0.7; a higher threshold drops fewer pages"
        ) from None
    return thresholds


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled pattern, in which * is any text and ? any character. It matches in linear time."""
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def _covers(one: Rule, other: Rule) -> bool:
    """Whether `one` surely matches all pages of `other`."""
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
    """The host of every URL that matches a pattern, or "" if it is not determined."""
    scheme, separator, rest = pattern.partition("://")
    host, slash, _ = rest.partition("/")
    determined = separator and slash and not set(scheme + host) & set("*?@")
    return host_of(f"http://{host}/") if determined else ""
