"""Owns which scheme a name stands for."""

from stream.config import SchemeSettings, SpotsSection
from stream.schemes import Scheme
from stream.schemes.chain import ChainScheme
from stream.schemes.spotsieve import SpotsieveScheme


def scheme_of(scheme: SchemeSettings, spots: SpotsSection) -> Scheme:
    """The scheme that the settings name, ready to sign. Raises SettingError where its parameters do not go together."""
    if scheme.name == "chain":
        return ChainScheme(scheme, spots)
    return SpotsieveScheme(scheme)
