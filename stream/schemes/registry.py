"""Says which scheme a name stands for: the one table of all published systems that run here.

To add one: its settings with their threshold (stream/settings/schemes/), a file here that reads like its paper, a
line in SCHEMES, and one in TERMS if it needs a model. tests/properties/test_scheme_contract.py says what it must keep.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from spotsieve.stream.errors import SettingError
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.schemes.adaptive_shingles import AdaptiveShinglesScheme
from spotsieve.stream.schemes.by_address.addressed import AddressedScheme
from spotsieve.stream.schemes.by_address.recrawl import TextsByAddress
from spotsieve.stream.schemes.by_address.rules import page_rules
from spotsieve.stream.schemes.by_address.scope import HostScope
from spotsieve.stream.schemes.chain import ChainScheme
from spotsieve.stream.schemes.concept import ConceptScheme
from spotsieve.stream.schemes.idf import Terms
from spotsieve.stream.schemes.imatch import ImatchScheme
from spotsieve.stream.schemes.manku import MankuScheme
from spotsieve.stream.schemes.minhash import MinhashScheme
from spotsieve.stream.schemes.onebit import OnebitScheme
from spotsieve.stream.schemes.spotsieve import SpotsieveScheme
from spotsieve.stream.schemes.spotsigs import SpotsigsScheme
from spotsieve.stream.schemes.spotsigs_lsh import SpotsigsLshScheme
from spotsieve.stream.schemes.subhash import SubhashScheme
from spotsieve.stream.schemes.terms import ConceptTerms, terms_of
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.schemes import (
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


class Registered(NamedTuple):
    """A scheme: its settings, and what makes it of them."""

    settings: type[SchemeSettings]
    scheme: Callable[[Any], Scheme]


SCHEMES: Mapping[str, Registered] = {
    "spotsieve": Registered(SpotsieveSettings, SpotsieveScheme),
    "chain": Registered(ChainSettings, ChainScheme),
    "manku": Registered(MankuSettings, MankuScheme),
    "subhash": Registered(SubhashSettings, SubhashScheme),
    "minhash": Registered(MinhashSettings, MinhashScheme),
    "onebit": Registered(OnebitSettings, OnebitScheme),
    "adaptive-shingles": Registered(AdaptiveShinglesSettings, AdaptiveShinglesScheme),
    "imatch": Registered(ImatchSettings, ImatchScheme),
    "imatch-s": Registered(ImatchSSettings, ImatchScheme),
    "spotsigs": Registered(SpotsigsSettings, SpotsigsScheme),
    "spotsigs-lsh": Registered(SpotsigsLshSettings, SpotsigsLshScheme),
    "concept": Registered(ConceptSettings, ConceptScheme),
}
TERMS: Mapping[str, Callable[[Any], Terms]] = {
    "imatch": terms_of,
    "imatch-s": terms_of,
    "spotsigs": terms_of,
    "spotsigs-lsh": terms_of,
    "concept": ConceptTerms,
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
