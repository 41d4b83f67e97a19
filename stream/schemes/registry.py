"""Owns which scheme a name stands for: the one table of all published systems that run here."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stream.config_schemes import ChainSettings, SchemeSettings, SpotsieveSettings, SubhashSettings
from stream.schemes import Scheme
from stream.schemes.chain import ChainScheme
from stream.schemes.spotsieve import SpotsieveScheme
from stream.schemes.subhash import SubhashScheme


class Registered(NamedTuple):
    """A scheme: its settings, and what makes it of them."""

    settings: type[SchemeSettings]
    scheme: Callable[[Any], Scheme]


SCHEMES: Mapping[str, Registered] = {
    "spotsieve": Registered(SpotsieveSettings, SpotsieveScheme),
    "chain": Registered(ChainSettings, ChainScheme),
    "subhash": Registered(SubhashSettings, SubhashScheme),
}


def scheme_of(settings: SchemeSettings) -> Scheme:
    """The scheme that the settings name, ready to sign. Raises SettingError where its parameters do not go together."""
    return SCHEMES[settings.name].scheme(settings)
