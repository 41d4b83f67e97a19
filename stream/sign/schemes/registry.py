"""Says which scheme a name stands for: the one table of all published systems that run here.

To add one: its settings with their threshold (stream/base/settings/schemes/), a file in its family here that reads
like its
paper, a line in SCHEMES, and one in TERMS if it needs a model. What it must keep is said by
tests/properties/test_scheme_contract.py.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spotsieve.stream.base.errors import SettingError
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
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.by_url import AddressedScheme, HostScope, TextsByAddress
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from spotsieve.stream.sign.schemes.url_rules import page_rules

if TYPE_CHECKING:
    from spotsieve.stream.sign.schemes.terms import Terms


def _named(module: str, name: str) -> Callable[[Any], Any]:
    """What makes something of settings, by the module below this folder that has it.

    It is imported when it is called: the kernels of all schemes take .1 s to load, and a process needs those of one.
    """

    def make(settings: SchemeSettings) -> Any:
        return getattr(importlib.import_module(f"{__package__}.{module}"), name)(settings)

    return make


class SchemeEntry(NamedTuple):
    """A scheme: its settings, and what makes it of them."""

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
"""Schemes that need a model: what it counts, by their settings."""


def scheme_of(settings: SchemeSettings) -> Scheme:
    """The scheme that the settings name, ready to sign. Raises SettingError where its parameters do not go together."""
    return SCHEMES[settings.name].scheme(settings)


def scheme_in_scope(settings: Settings) -> Scheme:
    """The scheme that pages are judged by, within index.scope, policy.variants, policy.recrawl and the rules.

    Raises SettingError as scheme_of does, where variants are to be kept by a scheme that cannot tell them, and where
    rules contradict.
    """
    scheme = scheme_of(settings.scheme)
    if settings.policy.variants == "keep":
        if not isinstance(scheme, SpotsieveScheme):
            raise SettingError(
                "policy.variants",
                f"must be drop for the scheme {scheme.name}, which does not tell numbers from text",
                settings.policy.variants,
                "keep needs scheme.name = spotsieve",
            )
        scheme = scheme.keeping_variants()
    within: Scheme = TextsByAddress(scheme) if settings.policy.recrawl == "identical" else scheme
    rules = page_rules(settings)
    if rules is None or not rules.scoping:
        within = HostScope(within) if settings.index.scope == "host" else within
    return within if rules is None else AddressedScheme(within, rules)
