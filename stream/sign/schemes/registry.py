"""The registry: the one table of the published systems that run here, by name.

The module of a scheme is imported when the scheme is first used. Only the default scheme is imported here.

To add a scheme: define its settings with their threshold (stream/base/settings/schemes/), write a module in this folder
that reads like its paper, and add a line to SCHEMES, and one to TERMS if it needs a model.
tests/properties/test_scheme_contract.py states what a scheme must guarantee.
"""

import copy
import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.digest import CANONICAL
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import (
    AdaptiveShinglesSettings,
    ChainSettings,
    ConceptSettings,
    ImatchSettings,
    ImatchSSettings,
    MankuSettings,
    MinhashSettings,
    OnebitSettings,
    SchemeSettings,
    SpotsieveSettings,
    SpotsigsLshSettings,
    SpotsigsSettings,
    SubhashSettings,
)
from spotsieve.stream.base.urls import owner_reader
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.by_url import HostScope, RecrawlScheme, UrlRulesScheme, WrappedScheme
from spotsieve.stream.sign.schemes.prepared_pages import CanonicalScheme, ScriptTextScheme
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from spotsieve.stream.sign.schemes.url_rules import page_rules

if TYPE_CHECKING:
    from spotsieve.stream.sign.schemes.terms import Terms


def _named(module: str, name: str) -> Callable[[Any], Any]:
    """A factory that imports `name` from a module of this folder when it is called.

    The kernels of all schemes take 0.1 s to load, and a process needs those of one scheme.
    """

    def make(settings: SchemeSettings) -> Any:
        return getattr(importlib.import_module(f"{__package__}.{module}"), name)(settings)

    return make


class SchemeEntry(NamedTuple):
    """A scheme: the class of its settings, and its factory, which takes such settings."""

    settings: type[SchemeSettings]
    scheme: Callable[[Any], Scheme]


SCHEMES: Mapping[str, SchemeEntry] = {
    "spotsieve": SchemeEntry(SpotsieveSettings, _named("spotsieve", "SpotsieveScheme")),
    "chain": SchemeEntry(ChainSettings, _named("simhash", "ChainScheme")),
    "manku": SchemeEntry(MankuSettings, _named("simhash", "MankuScheme")),
    "subhash": SchemeEntry(SubhashSettings, _named("simhash", "SubhashScheme")),
    "minhash": SchemeEntry(MinhashSettings, _named("minwise", "MinhashScheme")),
    "onebit": SchemeEntry(OnebitSettings, _named("minwise", "OnebitScheme")),
    "adaptive-shingles": SchemeEntry(AdaptiveShinglesSettings, _named("adaptive_shingles", "AdaptiveShinglesScheme")),
    "imatch": SchemeEntry(ImatchSettings, _named("spotsigs", "ImatchScheme")),
    "imatch-s": SchemeEntry(ImatchSSettings, _named("spotsigs", "ImatchScheme")),
    "spotsigs": SchemeEntry(SpotsigsSettings, _named("spotsigs", "SpotsigsScheme")),
    "spotsigs-lsh": SchemeEntry(SpotsigsLshSettings, _named("spotsigs", "SpotsigsLshScheme")),
    "concept": SchemeEntry(ConceptSettings, _named("concept", "ConceptScheme")),
}
TERMS: Mapping[str, "Callable[[Any], Terms]"] = {
    "imatch": _named("terms", "terms_of"),
    "imatch-s": _named("terms", "terms_of"),
    "spotsigs": _named("terms", "terms_of"),
    "spotsigs-lsh": _named("terms", "terms_of"),
    "concept": _named("terms", "ConceptTerms"),
}
"""Factories of the terms that the model of a scheme counts, for schemes that need a model."""


def scheme_of(settings: SchemeSettings) -> Scheme:
    """The scheme that the settings name, ready to sign. Raises SettingError for contradictory parameters."""
    return SCHEMES[settings.name].scheme(settings)


def salted(scheme: Scheme, salt: int) -> Scheme:
    """The same scheme with the salt of a state or log (its first record), which keys the identities of blocks.

    Only signing depends on it: a scheme without the salt judges signatures alike.
    """
    if isinstance(scheme, WrappedScheme):
        wrapped = copy.copy(scheme)
        wrapped.inner = salted(scheme.inner, salt)
        return wrapped
    if isinstance(scheme, SpotsieveScheme) and scheme.sieve.salt != salt:
        keyed = copy.copy(scheme)
        keyed.sieve = replace(scheme.sieve, salt=salt)
        return keyed
    return scheme


def scheme_in_scope(settings: Settings) -> Scheme:
    """The scheme of the settings, wrapped as input.script_text, index.scope, the policies and the rules require.

    Raises SettingError for parameters or rules that contradict each other, and for policy.variants = "keep" and
    policy.parts = "drop" with a scheme that cannot recognise variants and parts.
    """
    scheme, owner_of = scheme_of(settings.scheme), owner_reader(settings.index.author_paths)
    for setting, usual in (("variants", "drop"), ("parts", "keep")):
        value = getattr(settings.policy, setting)
        if value != usual and not isinstance(scheme, SpotsieveScheme):
            raise SettingError(
                f"policy.{setting}",
                f"must be {usual} for the scheme {scheme.name}, which does not compare the parts of pages",
                value,
                f"set scheme.name = spotsieve to {value} {setting}",
            )
    if isinstance(scheme, SpotsieveScheme):
        scheme = scheme.with_policy(settings.policy.variants == "keep", settings.policy.parts == "drop", owner_of)
    within: Scheme = ScriptTextScheme(scheme) if settings.input.script_text else scheme
    within = RecrawlScheme(within) if settings.policy.recrawl == "identical" else within
    within = CanonicalScheme(within) if settings.policy.keep == CANONICAL else within
    rules = page_rules(settings)
    if rules is None or not rules.scoping:
        within = HostScope(within, owner_of) if settings.index.scope == "host" else within
    return within if rules is None else UrlRulesScheme(within, rules)
